//! Volumes made large enough.

use feedline_ops::Draw;

use super::{Operation, Scene, SceneSize, in_call, some_voxels};
use crate::{Action, Fill, Map, Move, OperationError, Shape};

/// Adds voxels on both sides until a volume is at least as large as a size: MONAI's `SpatialPad`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    size: Shape,
    fill: Option<Fill>,
}

impl Pad {
    /// To this size, with these numbers, or without with those of the edge.
    pub fn new(size: Shape, fill: Option<Fill>) -> Result<Pad, OperationError> {
        if let Some(fill) = fill.filter(|fill| !fill.image.is_finite()) {
            return Err(OperationError::argument("pad", "value", fill.image, "a finite number"));
        }
        Ok(Pad { size: some_voxels("pad", size)?, fill })
    }
}

impl std::fmt::Display for Pad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pad({}", in_call(self.size))?;
        match self.fill {
            None => f.write_str(", mode=\"edge\")"),
            Some(Fill { image: 0.0, mask: 0 }) => f.write_str(")"),
            Some(Fill { image, mask: 0 }) => write!(f, ", value={image})"),
            Some(Fill { image, mask }) => write!(f, ", value={image}, mask_value={mask})"),
        }
    }
}

impl Operation for Pad {
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        let side = |axis: usize| before.sides[axis].map(|side| side.max(self.size[axis]));
        let sides = std::array::from_fn(|axis| {
            if before.flat == Some(axis) { before.sides[axis] } else { side(axis) }
        });
        Ok(SceneSize { sides, ..before })
    }

    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let (from, axes) = (scene.shape(), scene.axes());
        let to: Shape = std::array::from_fn(|axis| {
            if axes[axis] { from[axis].max(self.size[axis]) } else { from[axis] }
        });
        if to != from {
            let before = std::array::from_fn(|axis| -(((to[axis] - from[axis]) / 2) as f64));
            let step = Move::new(from, to, Map::shift(before));
            actions.push(Action::Move(Move { fill: self.fill, ..step }));
        }
        Ok(())
    }
}
