//! Random numbers for every voxel, from one that was drawn.

use feedline_ops::Draw;

/// SplitMix64: one number decides all that follow.
#[derive(Clone, Debug)]
pub(crate) struct Fast(u64);

impl Fast {
    pub(crate) fn new(seed: u64) -> Fast {
        Fast(seed)
    }

    /// A number in `(0, 1]`, whose logarithm is finite.
    pub(crate) fn open_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }
}

impl Draw for Fast {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }
}

/// The finishing step: every bit of the state moves every bit of the result.
#[inline(always)]
pub(crate) fn mixed(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
