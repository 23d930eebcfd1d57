//! Boxes of voxels.

/// Voxels along each axis. The last axis is the one along which voxels lie next to each other in memory.
pub type Shape = [usize; 3];

/// Voxels of a shape; as many as there can be, if there are more.
#[must_use]
pub fn count(shape: Shape) -> usize {
    shape.iter().fold(1, |product: usize, side| product.saturating_mul(*side))
}

/// A box of voxels: those from `start` up to `start + shape`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first voxel.
    pub start: [usize; 3],
    /// How many there are along each axis.
    pub shape: Shape,
}

impl Region {
    /// All voxels of a volume.
    #[must_use]
    pub fn whole(shape: Shape) -> Region {
        Region { start: [0; 3], shape }
    }

    /// How many voxels it has.
    #[must_use]
    pub fn voxels(&self) -> usize {
        count(self.shape)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The voxel after the last one, along each axis.
    #[must_use]
    pub fn end(&self) -> [usize; 3] {
        std::array::from_fn(|axis| self.start[axis].saturating_add(self.shape[axis]))
    }

    /// Whether all of another box is in this one.
    #[must_use]
    pub fn contains(&self, other: &Region) -> bool {
        let (end, others) = (self.end(), other.end());
        (0..3).all(|axis| self.start[axis] <= other.start[axis] && others[axis] <= end[axis])
    }

    /// The smallest box that has both.
    #[must_use]
    pub fn joined(&self, other: &Region) -> Region {
        if self.is_empty() {
            return *other;
        }
        if other.is_empty() {
            return *self;
        }
        let start: [usize; 3] = std::array::from_fn(|axis| self.start[axis].min(other.start[axis]));
        let (ends, others) = (self.end(), other.end());
        let shape = std::array::from_fn(|axis| ends[axis].max(others[axis]) - start[axis]);
        Region { start, shape }
    }

    /// With so many voxels more on each side, as far as the volume reaches.
    #[must_use]
    pub fn widened(&self, by: [usize; 3], shape: Shape) -> Region {
        let end = self.end();
        let start: [usize; 3] =
            std::array::from_fn(|axis| self.start[axis].saturating_sub(by[axis]));
        let shape = std::array::from_fn(|axis| {
            end[axis].saturating_add(by[axis]).min(shape[axis]).saturating_sub(start[axis])
        });
        Region { start, shape }
    }
}
