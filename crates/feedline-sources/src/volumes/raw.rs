//! Data as it is: rows by their place.

use std::cell::Cell;
use std::fs::File;
use std::io;

use super::runs::VoxelRun;
use crate::read_at::{append_at, read_exact_at};

/// What lies between two runs is read along with them if it is shorter: a call costs as much.
const GAP: u64 = 16 << 10;
/// Bytes that are read at once where runs have to be picked out: they stay in a core's cache.
const TOGETHER: u64 = 256 << 10;

thread_local! {
    /// Where runs are picked from.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Reads runs, counted from byte `start` of the file. Never more than the whole rows that they are in. Returns how
/// many bytes were read.
pub(super) fn read(
    file: &File,
    start: u64,
    runs: &[VoxelRun],
    row: u64,
    out: &mut [u8],
) -> io::Result<u64> {
    let gap = row.min(GAP);
    let (mut rest, mut read) = (runs, 0);
    let mut buffer = BUFFER.take();
    while let Some(first) = rest.first() {
        let near = rest.windows(2).take_while(|pair| {
            pair[1].from - pair[0].end() < gap && pair[1].end() - first.from <= TOGETHER
        });
        let (group, others) = rest.split_at(1 + near.count());
        let end = group[group.len() - 1].end();
        let length = (end - first.from) as usize;
        if let [only] = group {
            read_exact_at(file, &mut out[only.to..only.to + only.length], start + only.from)?;
        } else {
            buffer.clear();
            append_at(file, &mut buffer, start + first.from, length)?;
            for run in group {
                let at = (run.from - first.from) as usize;
                out[run.to..run.to + run.length].copy_from_slice(&buffer[at..at + run.length]);
            }
        }
        read += length as u64;
        rest = others;
    }
    BUFFER.set(buffer);
    Ok(read)
}
