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
}

impl Move {
    /// A move that never leaves the volume, or finds its edge outside.
    #[must_use]
    pub fn new(from: Shape, to: Shape, map: Map) -> Move {
        Move { from, to, map, fill: None, margin: [0.0; 3], labels: Labels::Nearest }
    }

    /// The part of a volume that begins at `start`.
    #[must_use]
    pub fn crop(from: Shape, start: [usize; 3], to: Shape) -> Move {
        Move::new(from, to, Map::shift(start.map(|x| x as f64)))
    }

    /// This, then `next`, as one. None, if what lies outside is not the same for both.
    #[must_use]
    pub fn then(&self, next: &Move) -> Option<Move> {
        let over = self.overshoot();
        let (fill, margin) = match (self.fill, next.fill) {
            (Some(fill), None) => (Some(fill), self.margin),
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
        Some(Move { from: self.from, to: next.to, map, fill, margin, labels })
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
