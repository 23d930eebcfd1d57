//! Data as it is: rows by their place.

use std::cell::Cell;
use std::io;

use super::runs::VoxelRun;
use crate::source_file::SourceFile;

/// What lies between two runs is read along with them if it is shorter: a call costs as much.
const GAP: u64 = 16 << 10;
/// Bytes that are read at once where runs have to be picked out: they stay in a core's cache.
const TOGETHER: u64 = 256 << 10;
/// The same for objects, where a call is a request; all requests of a region are under way together.
const FAR_GAP: u64 = 64 << 10;
const FAR_TOGETHER: u64 = 8 << 20;

thread_local! {
    /// Where runs are picked from.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Reads runs, counted from byte `start` of the file. Of a file on a disk never more than the whole rows that they are in.
/// Returns how many bytes were read.
pub(super) fn read(
    file: &SourceFile,
    start: u64,
    runs: &[VoxelRun],
    row: u64,
    out: &mut [u8],
) -> io::Result<u64> {
    let (gap, together) = match file.is_far() {
        true => (FAR_GAP, FAR_TOGETHER),
        false => (row.min(GAP), TOGETHER),
    };
    let near = |rest: &[VoxelRun]| {
        let first = rest[0].from;
        let near = rest.windows(2).take_while(|pair| {
            pair[1].from - pair[0].end() < gap && pair[1].end() - first <= together
        });
        1 + near.count()
    };
    let mut rest = runs;
    while file.is_far() && !rest.is_empty() {
        let (group, others) = rest.split_at(near(rest));
        file.expect(start + group[0].from, group[group.len() - 1].end() - group[0].from);
        rest = others;
    }
    let (mut rest, mut read) = (runs, 0);
    let mut buffer = BUFFER.take();
    while let Some(first) = rest.first() {
        let (group, others) = rest.split_at(near(rest));
        let end = group[group.len() - 1].end();
        let length = (end - first.from) as usize;
        if let [only] = group {
            file.read_exact_at(&mut out[only.to..only.to + only.length], start + only.from)?;
        } else {
            buffer.clear();
            file.append_at(&mut buffer, start + first.from, length)?;
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
