//! Decompressing from a restart point with libdeflate, which takes whole streams only.
//!
//! It is the fastest inflater by far, and knows neither windows nor streams that begin within a byte. So it is given
//! a whole stream, made of the piece that is wanted:
//!
//! ```text
//! stored block: the window │ the piece's blocks, moved to a byte's beginning │ an empty last block
//! ```
//!
//! What comes out is the window, then the piece, both of known length.

use std::cell::RefCell;

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::points::WINDOW;

/// What a thread keeps.
#[derive(Default)]
struct Spare {
    inflater: Decompressor,
    stream: Vec<u8>,
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// Decompresses pieces of a stream whose first block begins at bit `first` of `packed`, and whose last one ends before
/// bit `end`. `out` has room for the window and for exactly what the pieces are; the window is written there too.
/// Whether that is what came out.
pub(super) fn inflate(
    packed: &[u8],
    (first, end): (u64, u64),
    window: &[u8],
    out: &mut [u8],
) -> bool {
    SPARE.with_borrow_mut(|spare| {
        let Spare { inflater, stream } = spare;
        splice(packed, first, end, window, stream);
        inflater.deflate_decompress(stream, out) == Ok(out.len())
    })
}

/// The whole stream, in `stream`.
pub(super) fn splice(packed: &[u8], first: u64, end: u64, window: &[u8], stream: &mut Vec<u8>) {
    stream.clear();
    if !window.is_empty() {
        // At most 32768, so that one block holds it: not the last, stored, its length, the same inverted.
        let length = window.len().min(WINDOW) as u16;
        stream.push(0);
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(&window[window.len() - usize::from(length)..]);
    }
    let start = stream.len();
    let (shift, bytes) = ((first % 8) as u32, &packed[(first / 8) as usize..]);
    if shift == 0 {
        stream.extend_from_slice(bytes);
    } else {
        let pairs = bytes.windows(2).map(|pair| (pair[0] >> shift) | (pair[1] << (8 - shift)));
        stream.extend(pairs);
        stream.extend(bytes.last().map(|last| last >> shift));
    }
    // Last, with fixed codes, of which seven zeros are the end: ten bits, the first two set.
    let bits = end - first;
    stream.resize(start + (bits / 8) as usize + 3, 0);
    let at = start + (bits / 8) as usize;
    let free = (bits % 8) as u32;
    let kept = u32::from(stream[at]) & ((1 << free) - 1);
    let [low, high, ..] = (kept | (0b011 << free)).to_le_bytes();
    stream[at] = low;
    stream[at + 1] = high;
    stream[at + 2] = 0;
}

/// Packs windows.
pub(super) struct WindowPacker {
    packer: Compressor,
}

impl WindowPacker {
    pub(super) fn new() -> WindowPacker {
        let level = CompressionLvl::new(1).unwrap_or_default();
        WindowPacker { packer: Compressor::new(level) }
    }

    /// Appends a window, packed; none if that fails.
    pub(super) fn pack(&mut self, window: &[u8], to: &mut Vec<u8>) -> Option<usize> {
        let start = to.len();
        let bound = self.packer.deflate_compress_bound(window.len());
        to.resize(start + bound, 0);
        let length = self.packer.deflate_compress(window, &mut to[start..]).ok()?;
        to.truncate(start + length);
        Some(length)
    }
}

/// Unpacks a window into exactly its length. Whether it is as long.
pub(super) fn unpack(packed: &[u8], window: &mut [u8]) -> bool {
    SPARE.with_borrow_mut(|spare| {
        spare.inflater.deflate_decompress(packed, window) == Ok(window.len())
    })
}
