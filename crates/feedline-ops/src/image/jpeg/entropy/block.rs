//! The inner loops.

use super::tables::{Ac, Dc, LOOK, extend};

/// Looks between two refills, which leave at least 56 bits.
const LOOKS: u32 = 56 / LOOK;

/// Places in zigzag order to places in the block. Damaged files can point beyond the last one; what they write
/// goes to the last, as in libjpeg.
static NATURAL: [u8; 256] = natural();

const fn natural() -> [u8; 256] {
    let order: [u8; 64] = [
        0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27,
        20, 13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
        58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
    ];
    let mut all = [63; 256];
    let mut at = 0;
    while at < 64 {
        all[at] = order[at];
        at += 1;
    }
    all
}

/// The next bits of a window.
#[derive(Clone, Copy, Default)]
pub(super) struct Bits {
    /// The next byte to load.
    pub(super) at: usize,
    /// The next bits, from the top.
    top: u64,
    /// How many of them count.
    left: u32,
}

impl Bits {
    /// Bits taken from the window so far.
    ///
    /// Negative right after the window has moved on: what is at the top is behind its first byte then.
    pub(super) fn consumed(&self) -> i64 {
        self.at as i64 * 8 - i64::from(self.left)
    }

    /// Makes at least 56 bits ready. None beyond the window, which its slack rules out.
    #[inline(always)]
    fn refill(&mut self, data: &[u8]) -> Option<()> {
        let bytes = data.get(self.at..)?.first_chunk()?;
        // Bytes that only partly fit are loaded again next time, over the same bits.
        self.top |= u64::from_be_bytes(*bytes) >> self.left;
        self.at += (63 - self.left as usize) >> 3;
        self.left |= 56;
        Some(())
    }

    #[inline(always)]
    fn drop(&mut self, count: u32) {
        self.top <<= count;
        self.left -= count;
    }

    /// A DC difference.
    #[inline(always)]
    pub(super) fn dc(&mut self, data: &[u8], table: &Dc) -> Option<i32> {
        self.refill(data)?;
        let (length, size) = table.find(self.top)?;
        self.drop(length);
        let value = extend(self.top, size);
        self.drop(size);
        Some(value)
    }

    /// The AC coefficients of a block of zeros.
    #[inline(always)]
    pub(super) fn block(&mut self, data: &[u8], table: &Ac, block: &mut [i16; 64]) -> Option<()> {
        fn put(block: &mut [i16; 64], place: u32, value: u64) {
            block[usize::from(NATURAL[usize::from(place as u8)] & 63)] = value as u16 as i16;
        }
        // The place last written; the DC coefficient's first.
        let mut place = 0u32;
        loop {
            self.refill(data)?;
            for _ in 0..LOOKS {
                let pair = table.pair(self.top).0;
                if pair == 0 {
                    // Long codes and large values.
                    self.refill(data)?;
                    let (length, advance, size) = table.find(self.top)?;
                    self.drop(length);
                    place += u32::from(advance);
                    put(block, place, extend(self.top, size) as u64);
                    self.drop(size);
                    if place >= 63 {
                        return Some(());
                    }
                    break;
                }
                let first = place + (pair >> 8 & 0xff) as u32;
                put(block, first, pair >> 16);
                if first >= 63 {
                    // What follows belongs to the next block.
                    self.drop((pair >> 32 & 0xff) as u32);
                    return Some(());
                }
                place += (pair >> 40 & 0xff) as u32;
                put(block, place, pair >> 48);
                self.drop((pair & 0xff) as u32);
                if place >= 63 {
                    return Some(());
                }
            }
        }
    }

    /// Passes over the AC coefficients of a block.
    #[inline(always)]
    pub(super) fn pass(&mut self, data: &[u8], table: &Ac) -> Option<()> {
        let mut place = 0u32;
        loop {
            self.refill(data)?;
            // An entry takes at most 11 bits for its codes and 15 for the last one's value.
            for _ in 0..2 {
                let entry = table.pass(self.top).0;
                if entry == 0 {
                    self.refill(data)?;
                    let (length, advance, size) = table.find(self.top)?;
                    self.drop(length);
                    self.drop(size);
                    place += u32::from(advance);
                    if place >= 63 {
                        return Some(());
                    }
                    break;
                }
                let (advance, end) = (entry >> 8 & 0x7f, entry >> 15 & 1);
                if place + advance + end <= 63 {
                    self.drop(entry & 0xff);
                    place += advance;
                    if end != 0 {
                        return Some(());
                    }
                } else {
                    // The block ends among these symbols: only the first for sure belongs to it.
                    self.drop(entry >> 16 & 0xff);
                    place += entry >> 24;
                }
                if place >= 63 {
                    return Some(());
                }
            }
        }
    }
}
