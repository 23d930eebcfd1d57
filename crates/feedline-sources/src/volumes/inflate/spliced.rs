//! Decompressing from a restart point with libdeflate, which takes whole streams only.
//!
//! It is the fastest inflater by far, and knows neither windows nor streams that begin within a byte. So it is given
//! a whole stream, made of the piece that is wanted:
//!
//! ```text
//! stored block: the window │ empty blocks │ the piece's blocks │ an empty last block
//! ```
//!
//! The empty blocks are as long as it takes for the piece to begin at the same bit of a byte as in its file: stored
//! blocks within it begin at a byte.
//!
//! What comes out is the window, then the piece, both of known length. A piece that begins within a block of the fixed
//! codes gets the head of such a block, and one that ends within it the code that ends it.

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

/// Some bits of a stream.
#[derive(Copy, Clone, Debug)]
pub(super) struct SplicedBits<'a> {
    /// What they are in.
    pub(super) packed: &'a [u8],
    /// The first: of a block, or three bits before the code that a piece within a block begins with.
    pub(super) first: u64,
    /// The one after the last.
    pub(super) end: u64,
    pub(super) begins_within: bool,
    pub(super) ends_within: bool,
}

/// Decompresses pieces of a stream. `out` has room for the window and for exactly what the pieces are; the window is
/// written there too. Whether that is what came out.
pub(super) fn inflate(bits: SplicedBits<'_>, window: &[u8], out: &mut [u8]) -> bool {
    SPARE.with_borrow_mut(|spare| {
        let Spare { inflater, stream } = spare;
        splice(bits, window, stream);
        inflater.deflate_decompress(stream, out) == Ok(out.len())
    })
}

/// The whole stream, in `stream`.
pub(super) fn splice(bits: SplicedBits<'_>, window: &[u8], stream: &mut Vec<u8>) {
    stream.clear();
    if !window.is_empty() {
        // At most 32768, so that one block holds it: not the last, stored, its length, the same inverted.
        let length = window.len().min(WINDOW) as u16;
        stream.push(0);
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(&window[window.len() - usize::from(length)..]);
    }
    let SplicedBits { packed, first, end, begins_within, ends_within } = bits;
    let free = (first % 8) as u32;
    let (blocks, length) = empty_blocks(free);
    stream.extend_from_slice(&blocks.to_le_bytes()[..length as usize / 8]);
    let start = stream.len();
    stream.extend_from_slice(&packed[(first / 8) as usize..]);
    // What ends the empty blocks takes the place of the bits before the first.
    let mut head =
        [stream.get(start), stream.get(start + 1)].map(|byte| byte.copied().unwrap_or(0));
    let mut bits = u16::from_le_bytes(head) & !((1 << free) - 1);
    bits |= (blocks >> (length - free)) as u16;
    if begins_within {
        // Not the last, with fixed codes.
        bits = bits & !(0b111 << free) | (0b010 << free);
    }
    head = bits.to_le_bytes();
    let there = (stream.len() - start).min(2);
    stream[start..start + there].copy_from_slice(&head[..there]);
    // The last block, with fixed codes, of which seven zeros are the end: ten bits, the first two set. Before it, where
    // a block is not at its end, the end of that.
    let last = if ends_within { 0b011 << 7 } else { 0b011 };
    let bits = end - first / 8 * 8;
    let at = start + (bits / 8) as usize;
    stream.resize(at + 4, 0);
    let free = (bits % 8) as u32;
    let kept = u32::from(stream[at]) & ((1 << free) - 1);
    stream[at..at + 4].copy_from_slice(&(kept | (last << free)).to_le_bytes());
}

/// A block of 97 bits of which nothing comes, in their order: not the last, with codes of its own, for 257 symbols and
/// one distance; lengths of the lengths' codes, of which 18, 0 and 1 are used; no code for 255 symbols and one for each
/// of the two after them, none for the distance; the second of these, which is the end.
const ODD: &str = "001\
    00000\
    00000\
    1111\
    000000100010000000000000000000000000000000000000000010000\
    01111111\
    00101011\
    11\
    11\
    10\
    1";

/// Blocks of which nothing comes, and whose bits leave so many over: 10 each with the fixed codes, of which the end is
/// seven zeros, and an odd one where it takes that.
fn empty_blocks(over: u32) -> (u128, u32) {
    let (mut blocks, mut length) = (0, 0);
    if over % 2 == 1 {
        for bit in ODD.bytes() {
            blocks |= u128::from(bit == b'1') << length;
            length += 1;
        }
    }
    for _ in 0..over / 2 {
        blocks |= 0b010 << length;
        length += 10;
    }
    (blocks, length)
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn of_empty_blocks_nothing_comes_and_as_many_bits_are_over_as_wanted() {
        for over in 0..8 {
            let (blocks, length) = empty_blocks(over);
            assert_eq!(length % 8, over);
            // Then a last block with the fixed code of a capital A, 01110001, and the end.
            let letter = 0b100_0111_0011_u128;
            let mut stream = [&blocks.to_le_bytes()[..], &[0; 8]].concat();
            for bit in (0..18).filter(|bit| letter >> bit & 1 == 1) {
                let at = (length + bit) as usize;
                stream[at / 8] |= 1 << (at % 8);
            }
            let mut out = [0; 1];
            let made = Decompressor::new().deflate_decompress(&stream, &mut out);
            assert_eq!((made, out), (Ok(1), *b"A"), "{over}");
            let mut all = Vec::new();
            flate2::read::DeflateDecoder::new(&stream[..]).read_to_end(&mut all).unwrap();
            assert_eq!(all, b"A", "{over}");
        }
    }
}
