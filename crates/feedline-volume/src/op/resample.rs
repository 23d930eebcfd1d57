//! Voxels of one size.

use feedline_ops::Draw;

use super::{Operation, Scene, SceneSize};
use crate::{Action, Map, Move, OperationError, Shape};

/// Resamples to a given distance from voxel to voxel: MONAI's `Spacing`. The first voxel stays where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Resample {
    spacing: [Option<f64>; 3],
}

impl Resample {
    /// To so many millimetres along each axis; an axis without a number stays as it is.
    pub fn new(spacing: [Option<f64>; 3]) -> Result<Resample, OperationError> {
        let bad = |spacing: &f64| !spacing.is_finite() || *spacing <= 0.0;
        if let Some(got) = spacing.iter().flatten().find(|spacing| bad(spacing)) {
            let wanted = "millimetres above 0 for each axis, or None";
            return Err(OperationError::argument("resample", "spacing", got, wanted));
        }
        Ok(Resample { spacing })
    }
}

impl std::fmt::Display for Resample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |side: Option<f64>| side.map_or("None".to_string(), |side| side.to_string());
        let [z, y, x] = self.spacing;
        match self.spacing {
            [Some(z), Some(y), Some(x)] if z == y && y == x => write!(f, "resample({z})"),
            _ => write!(f, "resample(({}, {}, {}))", number(z), number(y), number(x)),
        }
    }
}

impl Operation for Resample {
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        let kept = |axis: usize| {
            let slice = before.flat == Some(axis);
            before.sides[axis].filter(|_| slice || self.spacing[axis].is_none())
        };
        Ok(SceneSize { sides: std::array::from_fn(kept), ..before })
    }

    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let (from, now) = (scene.shape(), scene.geometry.spacing());
        let axes = scene.axes();
        let factors: [f64; 3] = std::array::from_fn(|axis| {
            self.spacing[axis].filter(|_| axes[axis]).map_or(1.0, |spacing| spacing / now[axis])
        });
        let to: Shape = std::array::from_fn(|axis| {
            let last = (from[axis] - 1) as f64 / factors[axis];
            // Too many become as many as can be counted, which is refused.
            ((last + 1.0).round_ties_even() as usize).max(1)
        });
        if factors != [1.0; 3] {
            actions.push(Action::Move(Move::new(from, to, Map::scale(factors))));
        }
        Ok(())
    }
}
