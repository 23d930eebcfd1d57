//! Volumes without the air around the patient.

use feedline_ops::Draw;

use super::{MOST, Operation, Scene, SceneSize};
use crate::{Action, OperationError, Region, Shape};

/// Keeps the smallest box that has all voxels above a threshold: MONAI's `CropForeground`. The whole volume must be
/// read.
#[derive(Clone, Debug, PartialEq)]
pub struct CropForeground {
    threshold: f32,
    margin: usize,
}

impl CropForeground {
    /// The box of what is above `threshold` in any channel, with so many voxels more on each side as far as there are.
    pub fn new(threshold: f64, margin: usize) -> Result<CropForeground, OperationError> {
        const NAME: &str = "crop_foreground";
        if !threshold.is_finite() {
            let wanted = "a finite number";
            return Err(OperationError::argument(NAME, "threshold", threshold, wanted));
        }
        if margin > MOST {
            let wanted = format!("at most {MOST}");
            return Err(OperationError::argument(NAME, "margin", margin, wanted));
        }
        Ok(CropForeground { threshold: threshold as f32, margin })
    }
}

impl std::fmt::Display for CropForeground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "crop_foreground(threshold={}, margin={})", self.threshold, self.margin)
    }
}

impl Operation for CropForeground {
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        let mut sides = [None; 3];
        if let Some(axis) = before.flat {
            sides[axis] = before.sides[axis];
        }
        Ok(SceneSize { sides, ..before })
    }

    fn looks(&self) -> bool {
        true
    }

    fn look(&self, image: &[&[f32]], shape: Shape) -> Result<Region, OperationError> {
        let [_, rows, columns] = shape;
        let (mut low, mut high) = ([usize::MAX; 3], [0; 3]);
        for channel in image {
            for (number, line) in channel.chunks_exact(columns).enumerate() {
                let above = |x: &f32| *x > self.threshold;
                let Some(first) = line.iter().position(above) else { continue };
                let last = line.iter().rposition(above).unwrap_or(first);
                for (axis, (from, to)) in
                    [(number / rows, number / rows), (number % rows, number % rows), (first, last)]
                        .into_iter()
                        .enumerate()
                {
                    low[axis] = low[axis].min(from);
                    high[axis] = high[axis].max(to);
                }
            }
        }
        if low[0] == usize::MAX {
            let what = format!("no voxel above {}", self.threshold);
            let advice = "pass a lower threshold, or leave the volume out";
            return Err(OperationError::Nothing { call: self.to_string(), what, advice });
        }
        let shape_of_box = std::array::from_fn(|axis| high[axis] - low[axis] + 1);
        let found = Region { start: low, shape: shape_of_box };
        Ok(found.widened([self.margin; 3], shape))
    }

    fn draw(
        &self,
        _scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        _actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        Ok(())
    }
}
