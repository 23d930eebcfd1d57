//! Random perspective.

use super::{Operation, OperationError, probability};
use crate::image::act::Perspective;
use crate::image::action::{Action, Fill, Size};
use crate::image::draw::Draw;

/// Shows some images as if seen from aside: each corner moves inwards by a random amount.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomPerspective {
    distortion_scale: f64,
    p: f64,
    smooth: bool,
    fill: Option<Fill>,
}

impl RandomPerspective {
    /// With probability `p`, by at most `distortion_scale` of half a side. `smooth` blends neighbours.
    pub fn new(
        distortion_scale: f64,
        p: f64,
        smooth: bool,
        fill: Option<Fill>,
    ) -> Result<RandomPerspective, OperationError> {
        const NAME: &str = "random_perspective";
        if !(0.0..=1.0).contains(&distortion_scale) {
            let wanted = "a number from 0 to 1";
            return Err(OperationError::argument(
                NAME,
                "distortion_scale",
                distortion_scale,
                wanted,
            ));
        }
        Ok(RandomPerspective { distortion_scale, p: probability(NAME, p)?, smooth, fill })
    }
}

impl std::fmt::Display for RandomPerspective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_perspective({}, p={})", self.distortion_scale, self.p)
    }
}

impl Operation for RandomPerspective {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if !draw.chance(self.p) {
            return Ok(());
        }
        let reach = |side: usize| (self.distortion_scale * (side / 2) as f64) as usize + 1;
        let (rows, columns) = (reach(size.height), reach(size.width));
        let mut near = |reach: usize| draw.below(reach) as f64;
        // In torchvision's order: upper left, upper right, lower right, lower left; x before y.
        let mut corner = |right: bool, bottom: bool| {
            let (x, y) = (near(columns), near(rows));
            let far = |side: usize, reach: usize| side as f64 - reach as f64;
            let x = if right { far(size.width, columns) + x } else { x };
            let y = if bottom { far(size.height, rows) + y } else { y };
            (x, y)
        };
        let corners =
            [corner(false, false), corner(true, false), corner(true, true), corner(false, true)];
        // Corners that fall on a line leave the image as it is.
        let map = Perspective::to_corners(size, corners, self.smooth, self.fill);
        actions.extend(map.map(|map| Action::Perspective(Box::new(map))));
        Ok(())
    }
}
