//! Which voxels are needed: of the result all, and of what comes before what the next action takes.

use crate::action::{Reach, bounds};
use crate::{Action, Move, Region, Shape};

/// The regions before each action and after the last, which is `last`, of a volume of this shape.
pub(super) fn regions(actions: &[Action], shape: Shape, last: Region) -> Vec<Region> {
    let shapes: Vec<Shape> = std::iter::once(shape)
        .chain(actions.iter().scan(shape, |shape, action| {
            if let Action::Move(step) = action {
                *shape = step.to;
            }
            Some(*shape)
        }))
        .collect();
    let mut regions = vec![last; actions.len() + 1];
    for (i, action) in actions.iter().enumerate().rev() {
        regions[i] = match action {
            Action::Move(step) => taken(step, regions[i + 1]),
            Action::Change { change, .. } => match change.reach() {
                Reach::Same => regions[i + 1],
                Reach::Around(by) => regions[i + 1].widened(by, shapes[i]),
                Reach::All => Region::whole(shapes[i]),
            },
        };
    }
    regions
}

/// What a move takes of the old grid to make a region of the new one: at least a voxel.
fn taken(step: &Move, region: Region) -> Region {
    // So little outside a voxel is an error of rounding.
    const SLACK: f64 = 1e-6;
    let (low, high) = bounds(&step.map, region.start, region.shape);
    let mut taken = Region { start: [0; 3], shape: [0; 3] };
    for axis in 0..3 {
        let last = (step.from[axis] - 1) as f64;
        let start = (low[axis] + SLACK).floor().clamp(0.0, last) as usize;
        let end = (high[axis] - SLACK).ceil().clamp(0.0, last) as usize;
        taken.start[axis] = start;
        taken.shape[axis] = end.max(start) - start + 1;
    }
    taken
}
