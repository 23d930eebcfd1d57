//! Random rotation.

use super::{Operation, OperationError, range};
use crate::image::act::{Warp, affine_matrix, expanded};
use crate::image::action::{Action, Fill, Size};
use crate::image::draw::Draw;

/// Turns pictures counter-clockwise by a random angle.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomRotation {
    degrees: (f64, f64),
    smooth: bool,
    expand: bool,
    center: Option<(f64, f64)>,
    fill: Option<Fill>,
}

impl RandomRotation {
    /// By an angle out of `degrees`, about `center` (x, y; the middle if there is none). `smooth` blends
    /// neighbours, `expand` makes the picture large enough to hold all of the turned one.
    pub fn new(
        degrees: (f64, f64),
        smooth: bool,
        expand: bool,
        center: Option<(f64, f64)>,
        fill: Option<Fill>,
    ) -> Result<RandomRotation, OperationError> {
        let degrees = range("random_rotation", "degrees", degrees, f64::NEG_INFINITY)?;
        check_center("random_rotation", center)?;
        Ok(RandomRotation { degrees, smooth, expand, center, fill })
    }
}

pub(super) fn check_center(
    operation: &'static str,
    center: Option<(f64, f64)>,
) -> Result<(), OperationError> {
    match center {
        Some((x, y)) if !x.is_finite() || !y.is_finite() => {
            let got = format!("({x}, {y})");
            Err(OperationError::argument(operation, "center", got, "two finite numbers (x, y)"))
        }
        _ => Ok(()),
    }
}

/// What turning a picture by `angle` is.
pub(super) fn rotate(
    size: Size,
    angle: f64,
    smooth: bool,
    expand: bool,
    center: Option<(f64, f64)>,
    fill: Option<Fill>,
) -> Option<Action> {
    let angle = angle.rem_euclid(360.0);
    if center.is_none() {
        // Whole quarters move pixels as they are.
        let square = expand || size.height == size.width;
        match angle {
            0.0 => return None,
            90.0 if square => return Some(Action::Turn(1)),
            180.0 => return Some(Action::Turn(2)),
            270.0 if square => return Some(Action::Turn(3)),
            _ => {}
        }
    }
    let middle = (size.width as f64 * 0.5, size.height as f64 * 0.5);
    let (x, y) = center.unwrap_or(middle);
    let centred = (x - middle.0, y - middle.1);
    let (still, straight) = ((0.0, 0.0), (0.0, 0.0));
    let inverse = affine_matrix(centred, -angle, still, 1.0, straight, true);
    let mut forward = affine_matrix((x, y), -angle, still, 1.0, straight, false);
    let mut to = size;
    if expand {
        to = expanded(&inverse, size);
        let (w, h) = (size.width as f64, size.height as f64);
        let corners = [(0.0, 0.0), (0.0, h), (w, h), (w, 0.0)];
        let least = |m: &[f64]| {
            let along = corners.map(|(x, y)| m[0] * x + m[1] * y + m[2]);
            along.into_iter().fold(f64::INFINITY, f64::min)
        };
        let (left, top) = (least(&forward[..3]), least(&forward[3..]));
        forward[2] -= left;
        forward[5] -= top;
    }
    Some(Action::Warp(Box::new(Warp { inverse, forward, size: to, smooth, fill })))
}

impl std::fmt::Display for RandomRotation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_rotation(({}, {})", self.degrees.0, self.degrees.1)?;
        f.write_str(if self.expand { ", expand=True)" } else { ")" })
    }
}

impl Operation for RandomRotation {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before.filter(|_| !self.expand))
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let angle = draw.uniform(self.degrees.0, self.degrees.1);
        actions.extend(rotate(size, angle, self.smooth, self.expand, self.center, self.fill));
        Ok(())
    }
}
