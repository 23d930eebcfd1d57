//! A region of a volume's voxels, as operations see it.

use crate::{Region, Shape};

/// Voxels of a region of a volume.
#[derive(Copy, Clone, Debug)]
pub(crate) struct RegionView<'a, T> {
    /// The region's voxels, the last axis fastest.
    pub(crate) data: &'a [T],
    /// Which part of the volume they are.
    pub(crate) region: Region,
    /// The whole volume.
    pub(crate) shape: Shape,
}

impl<T> RegionView<'_, T> {
    /// How far apart neighbours along each axis are.
    pub(crate) fn strides(&self) -> [usize; 3] {
        strides(self.region.shape)
    }
}

/// How far apart neighbours along each axis are in a box of this shape.
pub(super) fn strides([_, rows, columns]: Shape) -> [usize; 3] {
    [rows * columns, columns, 1]
}
