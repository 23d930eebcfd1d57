//! Blocks of the fixed codes, which are taken apart: some compressors, at their fastest, make a single one of a whole
//! file. Each code of one is as long as RFC 1951 (3.2.6) says, so where codes begin is found without any table, and
//! without making anything of them.

use super::points::BLOCK_HEAD;
use crate::source_file::SourceFile;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Bits that a length and its distance take at most.
const LONGEST_CODE: u64 = 8 + 5 + 5 + 13;

/// What lengths begin at, from symbol 257 on.
const LENGTHS: [u16; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131,
    163, 195, 227, 258,
];

/// A code within a block of the fixed codes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct FixedCode {
    /// Its first bit, counted in the file.
    pub(super) bit: u64,
    /// Where what it stands for begins, counted in what is decompressed.
    pub(super) from: u64,
}

impl FixedCode {
    /// The first of a block that begins at a bit; none, if that block has other codes.
    pub(super) fn first(file: &SourceFile, bit: u64, from: u64) -> Option<FixedCode> {
        let mut bytes = [0; 2];
        file.read_exact_at(&mut bytes, bit / 8).ok()?;
        // Whether it is the last, then two bits for its kind.
        let kind = u16::from_le_bytes(bytes) >> (bit % 8) >> 1 & 0b11;
        (kind == 0b01).then_some(FixedCode { bit: bit + BLOCK_HEAD, from })
    }

    /// The first code from a place on; none, if the block ends before that, or is none.
    pub(super) fn at(self, file: &SourceFile, length: u64, place: u64) -> Option<FixedCode> {
        let FixedCode { mut bit, mut from } = self;
        let (mut chunk, mut start) = (Vec::new(), 0);
        while from < place {
            let byte = bit / 8;
            if byte + LONGEST_CODE / 8 + 2 > start + chunk.len() as u64 {
                start = byte;
                chunk.clear();
                let there = length.saturating_sub(byte).min(CHUNK as u64) as usize;
                file.append_at(&mut chunk, byte, there).ok()?;
            }
            let here = chunk.get((byte - start) as usize..)?;
            let mut word = [0; 8];
            let there = here.len().min(8);
            word[..there].copy_from_slice(&here[..there]);
            let (bits, made) = code(u64::from_le_bytes(word) >> (bit % 8))?;
            bit += u64::from(bits);
            from += u64::from(made);
        }
        Some(FixedCode { bit, from })
    }
}

/// How many bits the code takes that `word` begins with, and how many bytes it stands for. None, if it ends the block or
/// is no code.
fn code(word: u64) -> Option<(u32, u16)> {
    // Codes begin with their highest bit.
    let first = |bits: u32| (word as u32).reverse_bits() >> (32 - bits);
    let (bits, symbol) = match first(8) {
        0b0011_0000..0b1100_0000 => return Some((8, 1)),
        0b1100_1000.. => return Some((9, 1)),
        high @ 0b1100_0000..0b1100_1000 => (8, 280 + high - 0b1100_0000),
        _ => (7, 256 + first(7)),
    };
    let number = symbol.checked_sub(257)?;
    let base = *LENGTHS.get(number as usize)?;
    let more = if number == 28 { 0 } else { (number / 4).saturating_sub(1) };
    let added = (word >> bits) as u16 & ((1 << more) - 1);
    let distance = ((word >> (bits + more)) as u32 & 0b1_1111).reverse_bits() >> 27;
    let farther = (distance / 2).saturating_sub(1);
    (distance < 30).then_some((bits + more + 5 + farther, base + added))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_where_what_they_stand_for_begins() {
        // A literal of 8 bits, one of 9, a length of 258 at distance 1, a length of 3 at distance 4, and the end: in
        // the order of bits, with the head of a last block before them.
        let bits = "1 10  01110001 110010001 11000101 00000 0000001 00011 0000000".replace(' ', "");
        let mut bytes = vec![0u8; bits.len().div_ceil(8) + 4];
        for (i, bit) in bits.bytes().enumerate() {
            bytes[4 + i / 8] |= (bit - b'0') << (i % 8);
        }
        let length = bytes.len() as u64;
        let file = SourceFile::Held(bytes);
        let first = FixedCode::first(&file, 32, 100).unwrap();
        assert_eq!(first, FixedCode { bit: 35, from: 100 });
        let places =
            [(100, 35, 100), (101, 43, 101), (102, 52, 102), (103, 65, 360), (361, 77, 363)];
        for (place, bit, from) in places {
            assert_eq!(first.at(&file, length, place), Some(FixedCode { bit, from }), "{place}");
        }
        assert_eq!(first.at(&file, length, 364), None, "the block has ended");
        assert_eq!(FixedCode::first(&file, 33, 0), None, "no block of these codes");
    }
}
