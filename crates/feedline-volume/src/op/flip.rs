//! Volumes mirrored.

use feedline_ops::Draw;

use super::{Operation, Scene, axes_in_call, probability, some_axes};
use crate::{Action, Map, Move, OperationError, Shape};

/// Mirrors along these axes.
pub(super) fn mirrored(shape: Shape, axes: [bool; 3]) -> Move {
    let mut map = Map::IDENTITY;
    for axis in (0..3).filter(|axis| axes[*axis]) {
        map.linear[axis][axis] = -1.0;
        map.offset[axis] = (shape[axis] - 1) as f64;
    }
    Move::new(shape, shape, map)
}

/// Mirrors every volume: MONAI's `Flip`.
#[derive(Clone, Debug, PartialEq)]
pub struct Flip {
    axes: [bool; 3],
}

impl Flip {
    /// Along these axes.
    pub fn new(axes: &[usize]) -> Result<Flip, OperationError> {
        Ok(Flip { axes: some_axes("flip", axes)? })
    }
}

impl std::fmt::Display for Flip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "flip({})", axes_in_call(self.axes))
    }
}

impl Operation for Flip {
    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        actions.push(Action::Move(mirrored(scene.shape(), self.axes)));
        Ok(())
    }
}

/// Mirrors along each of some axes with one probability, one axis independently of another: nnU-Net's mirroring,
/// and for one axis MONAI's `RandFlip`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomFlip {
    p: f64,
    axes: [bool; 3],
}

impl RandomFlip {
    /// Along each of these axes with probability `p`.
    pub fn new(p: f64, axes: &[usize]) -> Result<RandomFlip, OperationError> {
        const NAME: &str = "random_flip";
        Ok(RandomFlip { p: probability(NAME, p)?, axes: some_axes(NAME, axes)? })
    }
}

impl std::fmt::Display for RandomFlip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_flip(p={}, axes={})", self.p, axes_in_call(self.axes))
    }
}

impl Operation for RandomFlip {
    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let axes = self.axes.map(|allowed| allowed && draw.chance(self.p));
        if axes.contains(&true) {
            actions.push(Action::Move(mirrored(scene.shape(), axes)));
        }
        Ok(())
    }
}
