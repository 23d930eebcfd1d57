//! The middle of a volume.

use feedline_ops::Draw;

use super::{Operation, Scene, SceneSize, fits, in_call, may_fit, some_voxels};
use crate::{Action, Move, OperationError, Shape};

/// Cuts out the middle, as MONAI's `CenterSpatialCrop` finds it.
#[derive(Clone, Debug, PartialEq)]
pub struct CenterCrop {
    size: Shape,
}

impl CenterCrop {
    /// A part of this size.
    pub fn new(size: Shape) -> Result<CenterCrop, OperationError> {
        Ok(CenterCrop { size: some_voxels("center_crop", size)? })
    }
}

impl std::fmt::Display for CenterCrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "center_crop({})", in_call(self.size))
    }
}

impl Operation for CenterCrop {
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        may_fit(self, self.size, &before)?;
        Ok(SceneSize { sides: self.size.map(Some), ..before })
    }

    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let shape = scene.shape();
        fits(self, self.size, shape)?;
        let start = std::array::from_fn(|axis| shape[axis] / 2 - self.size[axis] / 2);
        actions.push(Action::Move(Move::crop(shape, start, self.size)));
        Ok(())
    }
}
