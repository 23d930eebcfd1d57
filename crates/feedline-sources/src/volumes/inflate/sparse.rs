//! Windows with only those bytes that are referred to: the others are zeros, and take next to no room.
//!
//! Which they are is found by inflating the beginning of a piece twice more, with windows whose bytes tell their own
//! number: once its lower half, once its upper. What comes out of the window then shows where in the window it was.
//! rapidgzip calls such windows sparse.

use flate2::{Decompress, FlushDecompress};

use super::points::WINDOW;
use super::spliced::{SplicedBits, splice};

/// What two windows tell of a byte's number.
fn low(number: usize) -> u8 {
    number as u8
}

/// The upper half has seven bits; the eighth sets it apart.
fn high(number: usize) -> u8 {
    (number >> 8) as u8 | 0x80
}

/// What finds out which bytes of a window are used.
#[derive(Default)]
pub(super) struct Sparse {
    stream: Vec<u8>,
    out: [Vec<u8>; 2],
}

impl Sparse {
    /// Sets those bytes of `window` to 0 that a piece does not refer to. Of the piece, `bits` are the beginning, and
    /// `content` the first bytes: as far as the window can be referred to from.
    pub(super) fn clear(&mut self, bits: SplicedBits<'_>, window: &mut [u8], content: &[u8]) {
        let content = &content[..content.len().min(WINDOW)];
        let length = window.len();
        for (out, number) in self.out.iter_mut().zip([low, high]) {
            let told: Vec<u8> = (0..length).map(number).collect();
            splice(bits, &told, &mut self.stream);
            out.resize(length + content.len(), 0);
            let mut inflater = Decompress::new(false);
            let inflated = inflater.decompress(&self.stream, out, FlushDecompress::None);
            if inflated.is_err() || inflater.total_out() != out.len() as u64 {
                // It keeps all of them.
                return;
            }
        }
        let [lows, highs] = &self.out;
        let mut used = vec![false; length];
        for ((low, high), byte) in lows[length..].iter().zip(&highs[length..]).zip(content) {
            // What is not from the window is the same with every window.
            if low == byte && high == byte {
                continue;
            }
            if let Some(used) = used.get_mut(usize::from(*low) | usize::from(*high & 0x7f) << 8) {
                *used = true;
            }
        }
        for (number, byte) in window.iter_mut().enumerate() {
            // A byte whose two halves are the same cannot be told from content that is, too.
            if !used[number] && low(number) != high(number) {
                *byte = 0;
            }
        }
    }
}
