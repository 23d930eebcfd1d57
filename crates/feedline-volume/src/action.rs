//! What is done to one volume, with every random parameter drawn.

use crate::{Label, Map, Shape};

/// A step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Voxels of the image and the mask come from other places.
    Move(Move),
    /// Numbers of one channel of the image change.
    Change {
        /// Which channel.
        channel: usize,
        /// How.
        change: Change,
    },
}

/// What lies outside a volume.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Fill {
    /// In the image.
    pub image: f32,
    /// In the mask.
    pub mask: Label,
}

/// How a label between voxels is found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Labels {
    /// That of the nearest voxel.
    Nearest,
    /// The one with the most weight among the eight voxels around, as if each label were a channel of its own,
    /// interpolated linearly: nnU-Net's way.
    MostWeight,
}

/// A new grid of voxels, and where in the old one they lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The shape before.
    pub from: Shape,
    /// The shape after.
    pub to: Shape,
    /// From an index of the new grid to one of the old.
    pub map: Map,
    /// What lies outside the old grid; without, the nearest voxel at its edge.
    pub fill: Option<Fill>,
    /// How far outside, in voxels along each axis, there is still the edge rather than the fill.
    pub margin: [f64; 3],
    /// How labels between voxels are found.
    pub labels: Labels,
    /// Whether outside the old grid there may be what an earlier move has cut off: around a patch that is turned, the
    /// volume it was taken from.
    pub around: bool,
}

/// So far outside a grid is an error of rounding.
const OUTSIDE: f64 = 1e-6;

impl Move {
    /// A move that never leaves the volume, or finds its edge outside.
    #[must_use]
    pub fn new(from: Shape, to: Shape, map: Map) -> Move {
        let (fill, labels) = (None, Labels::Nearest);
        Move { from, to, map, fill, margin: [0.0; 3], labels, around: false }
    }

    /// The part of a volume that begins at `start`.
    #[must_use]
    pub fn crop(from: Shape, start: [usize; 3], to: Shape) -> Move {
        Move::new(from, to, Map::shift(start.map(|x| x as f64)))
    }

    /// This, then `next`, as one. None, if what lies outside is not the same for both.
    #[must_use]
    pub fn then(&self, next: &Move) -> Option<Move> {
        if !next.may_see_around() && !self.keeps_all() {
            return None;
        }
        let over = self.overshoot();
        let (fill, margin) = match (self.fill, next.fill) {
            (Some(fill), None) if next.stays() => (Some(fill), self.margin),
            (None, Some(fill)) if over.iter().all(|over| *over <= 1.0) => (Some(fill), over),
            (Some(first), Some(second)) if first == second => (Some(first), self.margin),
            (None, None) => (None, [0.0; 3]),
            _ => return None,
        };
        let labels = match (self.labels, next.labels) {
            (Labels::Nearest, Labels::Nearest) => Labels::Nearest,
            _ => Labels::MostWeight,
        };
        let map = self.map.after(&next.map);
        let around = self.may_see_around() && next.may_see_around();
        Some(Move { from: self.from, to: next.to, map, fill, margin, labels, around })
    }

    /// Whether it never leaves the old grid, or may find there what an earlier move has cut off.
    fn may_see_around(&self) -> bool {
        self.around || self.stays()
    }

    /// Whether it never leaves the old grid.
    fn stays(&self) -> bool {
        self.overshoot().iter().all(|over| *over < OUTSIDE)
    }

    /// Whether each new voxel is an old one, and no old one is left out: what is outside the new grid is outside the
    /// old one as well, and as far.
    fn keeps_all(&self) -> bool {
        let whole = |number: &f64| [-1.0, 0.0, 1.0].contains(number);
        let (low, high) = bounds(&self.map, [0; 3], self.to);
        self.map.linear.iter().flatten().all(whole)
            && self.map.offset.iter().all(|offset| offset.fract() == 0.0)
            && (0..3).all(|axis| low[axis] <= 0.0 && high[axis] >= self.from[axis] as f64 - 1.0)
    }

    /// How far it leaves the old grid, along each axis.
    fn overshoot(&self) -> [f64; 3] {
        let (low, high) = bounds(&self.map, [0; 3], self.to);
        std::array::from_fn(|axis| {
            (-low[axis]).max(high[axis] - (self.from[axis] as f64 - 1.0)).max(0.0)
        })
    }
}

/// The least and the largest coordinates that a box of voxels is mapped to.
pub(crate) fn bounds(map: &Map, start: [usize; 3], shape: Shape) -> ([f64; 3], [f64; 3]) {
    let mut low = map.offset;
    let mut high = map.offset;
    for row in 0..3 {
        for axis in 0..3 {
            let factor = map.linear[row][axis];
            let first = factor * start[axis] as f64;
            let last = factor * (start[axis] as f64 + shape[axis] as f64 - 1.0);
            low[row] += first.min(last);
            high[row] += first.max(last);
        }
    }
    (low, high)
}

/// A change of numbers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// `x * factor + offset`, then between two numbers.
    Scale {
        /// Multiplied by.
        factor: f32,
        /// Added.
        offset: f32,
        /// The least and the largest number after it.
        clip: Option<(f32, f32)>,
    },
    /// Mean 0 and deviation 1.
    ZScore {
        /// Of voxels that are not 0 alone; those that are stay 0.
        nonzero: bool,
    },
    /// Two percentiles become two numbers.
    Percentiles {
        /// From 0 to 100.
        lower: f64,
        /// From 0 to 100.
        upper: f64,
        /// What they become.
        to: (f32, f32),
        /// Whether numbers end there.
        clip: bool,
    },
    /// Random numbers are added.
    Noise {
        /// Their mean.
        mean: f32,
        /// Their deviation.
        std: f32,
        /// What they follow from.
        seed: u64,
    },
    /// Each number becomes a mean of those around it.
    Blur {
        /// Weights along each axis, an odd number of them; one where nothing is blurred.
        kernels: [Vec<f32>; 3],
        /// What lies outside.
        border: Border,
    },
    /// Distances from the mean are stretched.
    Contrast {
        /// By how much.
        factor: f32,
        /// Whether numbers stay between the least and the largest before.
        preserve_range: bool,
    },
    /// Numbers between the least and the largest are raised to a power.
    Gamma {
        /// The power.
        gamma: f32,
        /// Whether it is done to the negative.
        invert: bool,
        /// Whether the mean and deviation are restored after it.
        retain_stats: bool,
    },
    /// Made smaller by leaving voxels out, then as large as before by interpolation.
    LowResolution {
        /// The small shape.
        shape: Shape,
        /// Whether the voxels kept are those at the middle of what they stand for, rather than at its beginning.
        exact: bool,
    },
}

/// What a blur finds outside a volume.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Border {
    /// Zeros.
    Zero,
    /// The volume mirrored, its edge once.
    Reflect,
}

/// Which voxels before a change those after it depend on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The same.
    Same,
    /// Those around it, so many along each axis.
    Around([usize; 3]),
    /// All.
    All,
}

impl Change {
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Change::Scale { .. } | Change::Noise { .. } => Reach::Same,
            Change::Blur { kernels, .. } => {
                Reach::Around(std::array::from_fn(|axis| kernels[axis].len() / 2))
            }
            Change::ZScore { .. }
            | Change::Percentiles { .. }
            | Change::Contrast { .. }
            | Change::Gamma { .. }
            | Change::LowResolution { .. } => Reach::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pad(from: Shape, by: usize) -> Move {
        let step = Move::new(from, from.map(|side| side + 2 * by), Map::shift([-(by as f64); 3]));
        Move { fill: Some(Fill { image: 0.0, mask: 0 }), ..step }
    }

    #[test]
    fn padding_does_not_bring_back_what_was_cut_off() {
        let crop = Move::crop([10; 3], [2; 3], [6; 3]);
        assert_eq!(crop.then(&pad([6; 3], 2)), None);
        let finer = Move::new([10; 3], [19; 3], Map::scale([0.5; 3]));
        assert_eq!(finer.then(&pad([19; 3], 2)), None, "half a voxel outside is not outside");
        let flip = Map { linear: Map::scale([-1.0; 3]).linear, offset: [9.0; 3] };
        let both = Move::new([10; 3], [10; 3], flip).then(&pad([10; 3], 2));
        assert_eq!(both.map(|both| both.to), Some([14; 3]));
        let edge = Move { fill: None, ..pad([12; 3], 1) };
        assert_eq!(pad([10; 3], 1).then(&edge), None, "the edge is that of the padding");
        let twice = pad([10; 3], 1).then(&pad([12; 3], 1));
        assert_eq!(twice.map(|both| both.map), Some(Map::shift([-2.0; 3])));
    }

    #[test]
    fn a_turn_may_see_what_was_cut_off() {
        let crop = Move::crop([10; 3], [2; 3], [6; 3]);
        let larger = Map::about(Map::scale([1.5; 3]).linear, [2.5; 3], [2.5; 3]);
        let turn = Move { around: true, ..Move::new([6; 3], [6; 3], larger) };
        let turn = Move { fill: pad([6; 3], 1).fill, ..turn };
        let both = crop.then(&turn).expect("one move");
        assert!(both.around);
        let padded =
            pad([6; 3], 2).then(&Move { from: [10; 3], ..Move::crop([10; 3], [1; 3], [8; 3]) });
        let padded = padded.expect("one move");
        assert!(!padded.around, "a patch that was padded is turned with its padding");
        assert_eq!(crop.then(&padded), None);
    }
}
