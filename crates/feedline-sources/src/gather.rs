//! Rows that lie scattered in memory, copied next to each other.
//!
//! In shuffled order nearly every row is a cache miss, and what counts is how many are under way at once.
//! Calls of `memcpy`, with their branches on the length, stand in the way of the next one's miss; short
//! rows are copied in line instead, and the processor is told [ahead](AHEAD) which rows come.

use feedline_core::SampleIndex;

/// How many rows ahead the processor is told of. From 12 to 32 make no difference.
const AHEAD: usize = 16;

/// Copies rows of `row` bytes each to `out`, one after the other: those of `indices`, which begin
/// `stride` bytes apart from `first` on.
///
/// # Panics
///
/// If `out` has not room for exactly as many rows.
///
/// # Safety
///
/// `row` bytes may be read at `first + index * stride` for every one of `indices`, and `out` is other
/// memory.
pub unsafe fn gather(
    first: *const u8,
    stride: isize,
    row: usize,
    indices: &[SampleIndex],
    out: &mut [u8],
) {
    assert_eq!(row.checked_mul(indices.len()), Some(out.len()), "bytes of all rows");
    let at = |index: &SampleIndex| first.wrapping_offset((index.0 as isize).wrapping_mul(stride));
    let to = out.as_mut_ptr();
    for (i, index) in indices.iter().enumerate() {
        if let Some(later) = indices.get(i + AHEAD) {
            fetch(at(later), row);
        }
        // SAFETY: the caller vouches for the row; `out` holds all of them, this one at its place.
        unsafe { copy(at(index), to.add(i * row), row) };
    }
}

/// Copies a row. Short ones of a common length without a call.
///
/// # Safety
///
/// As `copy_nonoverlapping`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, row: usize) {
    // SAFETY: the caller's; each arm copies `row` bytes.
    unsafe {
        match row {
            4 => to.copy_from_nonoverlapping(from, 4),
            8 => to.copy_from_nonoverlapping(from, 8),
            16 => to.copy_from_nonoverlapping(from, 16),
            32 => to.copy_from_nonoverlapping(from, 32),
            64 => to.copy_from_nonoverlapping(from, 64),
            128 => to.copy_from_nonoverlapping(from, 128),
            _ => to.copy_from_nonoverlapping(from, row),
        }
    }
}

/// Tells the processor that the first bytes at an address will be read. A hint: the address need not be
/// valid.
#[inline(always)]
pub(crate) fn fetch(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        /// So much of a row is fetched ahead; what follows, the processor guesses by itself.
        const FETCHED: usize = 256;
        const CACHE_LINE: usize = 64;
        for line in (0..bytes.min(FETCHED)).step_by(CACHE_LINE) {
            // SAFETY: a prefetch reads nothing that could be seen and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(line).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_and_stride_come_out_as_if_copied_one_by_one() {
        let memory: Vec<u8> =
            (0..50_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let indices: Vec<SampleIndex> = (0..40).map(|i| SampleIndex(i * 7 % 40)).collect();
        for row in [1, 2, 3, 4, 7, 8, 9, 16, 24, 31, 32, 33, 64, 65, 127, 128, 129, 300] {
            for (first, stride) in [(0, row), (1, row + 5), (0, 0), (40 * row, -row), (3, 2 * row)]
            {
                let starts =
                    indices.iter().map(|index| (first + index.0 as isize * stride) as usize);
                let expected: Vec<u8> =
                    starts.flat_map(|at| &memory[at..at + row as usize]).copied().collect();
                let mut out = vec![0; expected.len()];
                // SAFETY: the rows were just read, with bounds checks.
                unsafe {
                    let first = memory.as_ptr().offset(first);
                    gather(first, stride, row as usize, &indices, &mut out);
                }
                assert_eq!(out, expected, "rows of {row}, {stride} apart");
            }
        }
    }

    #[test]
    #[should_panic(expected = "bytes of all rows")]
    fn room_for_fewer_rows_than_asked_for_is_refused() {
        let (from, mut out) = ([0; 16], [0; 15]);
        // SAFETY: both rows are there.
        unsafe { gather(from.as_ptr(), 8, 8, &[SampleIndex(0), SampleIndex(1)], &mut out) };
    }
}
