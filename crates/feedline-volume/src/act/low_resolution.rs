//! A volume as a coarser scan would have it.

use crate::Shape;

use super::copy::copy;
use super::separable::{Planes, enlarged, separable};
use super::values::VoxelValues;
use super::view::strides;

/// Leaves voxels out until a volume has the shape `small`, and interpolates the others.
pub(super) fn low_resolution(
    data: &mut [f32],
    shape: Shape,
    small: Shape,
    exact: bool,
    scratch: &mut Vec<f32>,
    planes: &mut Planes,
) {
    let offset = if exact { 0.5 } else { 0.0 };
    let kept: [Vec<usize>; 3] = std::array::from_fn(|axis| {
        let factor = shape[axis] as f64 / small[axis] as f64;
        let place = |i: usize| ((i as f64 + offset) * factor).floor() as usize;
        (0..small[axis]).map(|i| place(i).min(shape[axis] - 1) * strides(shape)[axis]).collect()
    });
    scratch.resize(crate::count(small), 0.0);
    copy(data, &kept, scratch, 0.0, |x| x);
    let places =
        std::array::from_fn(|axis| enlarged(small[axis], shape[axis], strides(small)[axis]));
    separable(scratch, VoxelValues::PLAIN, &places, data, planes);
}
