//! Volumes as a coarser scan would have them.

use feedline_ops::Draw;

use super::{Operation, Scene, each_channel, probability, range};
use crate::{Action, Change, OperationError, Shape};

/// Makes some volumes coarser, as large as before: MONAI's `RandSimulateLowResolution`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomLowResolution {
    p: f64,
    zoom: (f64, f64),
}

impl RandomLowResolution {
    /// By way of a volume whose sides are smaller by a factor of this range.
    pub fn new(p: f64, zoom: (f64, f64)) -> Result<RandomLowResolution, OperationError> {
        const NAME: &str = "random_low_resolution";
        let zoom = range(NAME, "zoom", zoom, 0.001, 1.0)?;
        Ok(RandomLowResolution { p: probability(NAME, p)?, zoom })
    }
}

impl std::fmt::Display for RandomLowResolution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_low_resolution(p={}, zoom={:?})", self.p, self.zoom)
    }
}

/// The sides of a smaller volume.
pub(super) fn smaller(shape: Shape, axes: [bool; 3], zoom: f64) -> Shape {
    std::array::from_fn(|axis| {
        let side = (shape[axis] as f64 * zoom).round_ties_even() as usize;
        if axes[axis] { side.clamp(1, shape[axis]) } else { shape[axis] }
    })
}

impl Operation for RandomLowResolution {
    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if draw.chance(self.p) {
            let zoom = draw.uniform(self.zoom.0, self.zoom.1);
            let shape = smaller(scene.shape(), scene.axes(), zoom);
            each_channel(scene, actions, |_| Change::LowResolution { shape, exact: false });
        }
        Ok(())
    }
}
