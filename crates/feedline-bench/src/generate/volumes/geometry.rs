//! Where the voxels of a generated volume are.

/// Sizes, and millimetres from voxel to voxel, along x (to the left), y (to the back) and z (to the head): the
/// way scanners write a patient who lies on the back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) size: [usize; 3],
    pub(super) spacing: [f64; 3],
}

impl Frame {
    /// The first voxel in millimetres to the left, to the back and up: the middle of the first plane's is at (0, 0).
    pub(super) fn origin_lps(&self) -> [f64; 3] {
        let half = |axis: usize| -self.spacing[axis] * (self.size[axis] - 1) as f64 / 2.0;
        [half(0), half(1), 0.0]
    }

    /// The same to the right, to the front and up, as NIfTI has it.
    pub(super) fn origin_ras(&self) -> [f64; 3] {
        let [left, back, up] = self.origin_lps();
        [-left, -back, up]
    }
}
