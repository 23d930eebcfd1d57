//! Random rotation, shift, scale and shear at once.

use super::rotation::check_center;
use super::{Operation, OperationError, range};
use crate::image::act::{Warp, affine_matrix};
use crate::image::action::{Action, Fill, Size};
use crate::image::draw::Draw;

/// Rotates, shifts, scales and shears pictures, which keep their size.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomAffine {
    degrees: (f64, f64),
    translate: Option<(f64, f64)>,
    scale: Option<(f64, f64)>,
    /// Along x, and along y.
    shear: Option<(Range, Option<Range>)>,
    smooth: bool,
    fill: Option<Fill>,
    center: Option<(f64, f64)>,
}

/// Least and largest.
type Range = (f64, f64);

const NAME: &str = "random_affine";

impl RandomAffine {
    /// A rotation (clockwise) by an angle out of `degrees`.
    pub fn new(degrees: (f64, f64)) -> Result<RandomAffine, OperationError> {
        Ok(RandomAffine {
            degrees: range(NAME, "degrees", degrees, f64::NEG_INFINITY)?,
            translate: None,
            scale: None,
            shear: None,
            smooth: false,
            fill: Some([0.0; 3]),
            center: None,
        })
    }

    /// A shift by at most these parts of the width and height.
    pub fn translate(self, parts: (f64, f64)) -> Result<RandomAffine, OperationError> {
        if !(0.0..=1.0).contains(&parts.0) || !(0.0..=1.0).contains(&parts.1) {
            let got = format!("({}, {})", parts.0, parts.1);
            let wanted = "two numbers from 0 to 1: parts of the width and height";
            return Err(OperationError::argument(NAME, "translate", got, wanted));
        }
        Ok(RandomAffine { translate: Some(parts), ..self })
    }

    /// A factor out of this range.
    pub fn scale(self, factors: (f64, f64)) -> Result<RandomAffine, OperationError> {
        Ok(RandomAffine { scale: Some(range(NAME, "scale", factors, 1e-6)?), ..self })
    }

    /// Shears by angles out of these ranges, in degrees: along x, and along y.
    pub fn shear(
        self,
        along_x: (f64, f64),
        along_y: Option<(f64, f64)>,
    ) -> Result<RandomAffine, OperationError> {
        let along_x = range(NAME, "shear", along_x, f64::NEG_INFINITY)?;
        let along_y =
            along_y.map(|along_y| range(NAME, "shear", along_y, f64::NEG_INFINITY)).transpose()?;
        Ok(RandomAffine { shear: Some((along_x, along_y)), ..self })
    }

    /// About this point (x, y) rather than the middle.
    pub fn center(self, center: Option<(f64, f64)>) -> Result<RandomAffine, OperationError> {
        check_center(NAME, center)?;
        Ok(RandomAffine { center, ..self })
    }

    /// How pixels are made: blended or nearest, and the colour of those from outside.
    #[must_use]
    pub fn pixels(self, smooth: bool, fill: Option<Fill>) -> RandomAffine {
        RandomAffine { smooth, fill, ..self }
    }
}

/// What an affine map of a picture is.
#[expect(clippy::too_many_arguments, reason = "the parameters of an affine map")]
pub(super) fn affine(
    size: Size,
    angle: f64,
    shift: (f64, f64),
    scale: f64,
    shear: (f64, f64),
    smooth: bool,
    fill: Option<Fill>,
    center: Option<(f64, f64)>,
) -> Action {
    let middle = (size.width as f64 * 0.5, size.height as f64 * 0.5);
    let (x, y) = center.unwrap_or(middle);
    let centred = (x - middle.0, y - middle.1);
    let inverse = affine_matrix(centred, angle, shift, scale, shear, true);
    let forward = affine_matrix((x, y), angle, shift, scale, shear, false);
    Action::Warp(Box::new(Warp { inverse, forward, size, smooth, fill }))
}

impl std::fmt::Display for RandomAffine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_affine(({}, {})", self.degrees.0, self.degrees.1)?;
        if let Some((x, y)) = self.translate {
            write!(f, ", translate=({x}, {y})")?;
        }
        if let Some((low, high)) = self.scale {
            write!(f, ", scale=({low}, {high})")?;
        }
        match self.shear {
            Some(((low, high), None)) => write!(f, ", shear=({low}, {high})")?,
            Some(((a, b), Some((c, d)))) => write!(f, ", shear=({a}, {b}, {c}, {d})")?,
            None => {}
        }
        f.write_str(")")
    }
}

impl Operation for RandomAffine {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let angle = draw.uniform(self.degrees.0, self.degrees.1);
        let mut shift = |part: f64, side: usize| {
            let most = part * side as f64;
            draw.uniform(-most, most).round_ties_even()
        };
        let shift = match self.translate {
            Some((x, y)) => (shift(x, size.width), shift(y, size.height)),
            None => (0.0, 0.0),
        };
        let scale = self.scale.map_or(1.0, |(low, high)| draw.uniform(low, high));
        let mut shear = (0.0, 0.0);
        if let Some((along_x, along_y)) = self.shear {
            shear.0 = draw.uniform(along_x.0, along_x.1);
            shear.1 = along_y.map_or(0.0, |(low, high)| draw.uniform(low, high));
        }
        let (smooth, fill) = (self.smooth, self.fill);
        actions.push(affine(size, angle, shift, scale, shear, smooth, fill, self.center));
        Ok(())
    }
}
