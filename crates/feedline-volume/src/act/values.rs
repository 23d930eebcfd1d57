//! Voxels of a file as floats.

use crate::ImageChannel;
use crate::voxels::Voxel;

/// What a voxel's number is multiplied by, and what is added then.
#[derive(Copy, Clone, Debug)]
pub(super) struct VoxelValues {
    pub(super) slope: f64,
    pub(super) intercept: f64,
}

impl VoxelValues {
    /// Numbers that are the values.
    pub(super) const PLAIN: VoxelValues = VoxelValues { slope: 1.0, intercept: 0.0 };

    pub(super) fn of(channel: &ImageChannel<'_>) -> VoxelValues {
        VoxelValues { slope: channel.slope, intercept: channel.intercept }
    }

    fn is_plain(self) -> bool {
        self.slope == 1.0 && self.intercept == 0.0
    }

    /// One value.
    #[inline(always)]
    fn scaled(self, x: impl Voxel) -> f32 {
        (x.number() * self.slope + self.intercept) as f32
    }

    /// Each voxel's value.
    #[inline(always)]
    pub(super) fn convert<T: Voxel>(self, from: &[T], to: &mut [f32]) {
        let pairs = to.iter_mut().zip(from);
        if self.is_plain() {
            pairs.for_each(|(to, from)| *to = from.float());
        } else {
            pairs.for_each(|(to, from)| *to = self.scaled(*from));
        }
    }

    /// Values between those of two lines.
    #[inline(always)]
    pub(super) fn between<T: Voxel>(self, a: &[T], b: &[T], weight: f32, to: &mut [f32]) {
        let (a, b) = (&a[..to.len()], &b[..to.len()]);
        let blend = |a: f32, b: f32| a + (b - a) * weight;
        if self.is_plain() {
            for (to, (a, b)) in to.iter_mut().zip(a.iter().zip(b)) {
                *to = blend(a.float(), b.float());
            }
        } else {
            for (to, (a, b)) in to.iter_mut().zip(a.iter().zip(b)) {
                *to = blend(self.scaled(*a), self.scaled(*b));
            }
        }
    }
}
