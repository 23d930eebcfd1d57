//! Quarter turns.

use feedline_ops::Draw;

use super::{Operation, Scene, SceneSize, probability};
use crate::{Action, Map, Move, OperationError, Shape};

/// Turns by so many quarters in the plane of two axes, from the first towards the second, as NumPy's `rot90`.
fn turned(shape: Shape, quarters: usize, (first, second): (usize, usize)) -> Move {
    let mut step = Move::new(shape, shape, Map::IDENTITY);
    for _ in 0..quarters % 4 {
        let before = step.to;
        let mut after = before;
        after.swap(first, second);
        let mut map = Map::IDENTITY;
        map.linear[first] = [0.0; 3];
        map.linear[second] = [0.0; 3];
        map.linear[first][second] = 1.0;
        map.linear[second][first] = -1.0;
        map.offset[second] = (before[second] - 1) as f64;
        step = Move::new(shape, after, step.map.after(&map));
    }
    step
}

/// Turns volumes by a random number of quarters: MONAI's `RandRotate90`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomRot90 {
    p: f64,
    quarters: (usize, usize),
    axes: (usize, usize),
}

impl RandomRot90 {
    /// With probability `p` by so many quarters, at least and at most, in the plane of these axes.
    pub fn new(
        p: f64,
        quarters: (usize, usize),
        axes: (usize, usize),
    ) -> Result<RandomRot90, OperationError> {
        const NAME: &str = "random_rot90";
        if axes.0 > 2 || axes.1 > 2 || axes.0 == axes.1 {
            let wanted = "two of 0, 1 and 2";
            return Err(OperationError::argument(NAME, "axes", format!("{axes:?}"), wanted));
        }
        if quarters.0 > quarters.1 || quarters.1 > 3 {
            let wanted = "a number from 1 to 3";
            return Err(OperationError::argument(NAME, "max_k", quarters.1, wanted));
        }
        Ok(RandomRot90 { p: probability(NAME, p)?, quarters, axes })
    }
}

impl std::fmt::Display for RandomRot90 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.p == 1.0 && self.quarters.0 == self.quarters.1 {
            return write!(f, "rot90({}, axes={:?})", self.quarters.0, self.axes);
        }
        write!(f, "random_rot90(p={}, max_k={}, axes={:?})", self.p, self.quarters.1, self.axes)
    }
}

impl Operation for RandomRot90 {
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        if let Some(axis) = before.flat.filter(|axis| [self.axes.0, self.axes.1].contains(axis)) {
            let wanted = format!("the axes of the slice, without {axis}");
            let got = format!("{:?}", self.axes);
            return Err(OperationError::argument("random_rot90", "axes", got, wanted));
        }
        let mut after = before;
        if before.sides[self.axes.0] != before.sides[self.axes.1] {
            let always_even =
                self.quarters.0 == self.quarters.1 && self.quarters.0.is_multiple_of(2);
            let always = self.p == 1.0 && self.quarters.0 == self.quarters.1;
            if always && !always_even {
                after.sides.swap(self.axes.0, self.axes.1);
            } else if !always_even && self.p > 0.0 {
                after.sides[self.axes.0] = None;
                after.sides[self.axes.1] = None;
            }
        }
        Ok(after)
    }

    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if draw.chance(self.p) {
            let (least, most) = self.quarters;
            let quarters = least + draw.below(most - least + 1);
            actions.push(Action::Move(turned(scene.shape(), quarters, self.axes)));
        }
        Ok(())
    }
}
