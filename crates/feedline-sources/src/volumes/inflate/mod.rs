//! Data in gzip or zlib: only the pieces that a region touches are inflated.
//!
//! | file | what |
//! | --- | --- |
//! | `block_stream.rs` | zlib-rs, block by block |
//! | `fixed_block.rs` | where codes begin in blocks that are too long |
//! | `scan.rs` | the first time: all of the file, and its restart points on the way |
//! | `points.rs`, `table_file.rs` | restart points, and where they are kept |
//! | `sparse.rs` | of the bytes before a restart point, those that are needed |
//! | `pieces.rs` | every other time: the pieces that are touched |
//! | `spliced.rs` | one piece, by libdeflate |
//!
//! # Which inflater
//!
//! 52 MB of CT-like int16, from memory to memory, one core of an AMD EPYC, nobody else at work, best of five, MB/s:
//!
//! | inflater | gzip, level 6 (0.48) | level 1 (0.50) |
//! | --- | ---: | ---: |
//! | libdeflate, one call, no checksum | 915 | 918 |
//! | ISA-L 2.31, one call, no checksum | 964 | 807 |
//! | zlib-rs, one call, no checksum | 762 | 745 |
//! | zlib-ng, one call, no checksum | 734 | 713 |
//! | ISA-L, 256 KiB at a time, with the checksum | 994 | 805 |
//! | zlib-ng, the same, stopped at every block | 641 | 612 |
//! | zlib-rs, the same, stopped at every block | 587 | 571 |
//!
//! libdeflate takes whole streams only, so the first time it is zlib-rs, which stops at blocks, and from then on
//! libdeflate, which is given pieces as whole streams. `docs/decisions.md` says why not the others.

mod block_stream;
mod fixed_block;
mod pieces;
mod points;
mod scan;
mod sparse;
mod spliced;
mod table_file;

use std::path::Path;
use std::time::SystemTime;

use feedline_core::Stage;

use super::error::VolumeProblem;
use super::header::{DataFile, SkippedBefore};
use super::runs::VoxelRun;
use crate::source_file::SourceFile;
use table_file::TableFile;

/// What is read of one compressed file.
pub(super) struct Deflated<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) data: &'a DataFile,
    pub(super) before: SkippedBefore,
    /// Bytes of numbers in the file.
    pub(super) share: u64,
    /// Where tables are kept.
    pub(super) cache: Option<&'a Path>,
    /// Decompressed bytes from one restart point to the next, at least.
    pub(super) spacing: u64,
}

impl Deflated<'_> {
    /// Reads runs, counted in the numbers of the file, into `out`. Returns how many bytes of files were read.
    pub(super) fn read(
        &self,
        runs: &[VoxelRun],
        out: &mut [u8],
        stage: &mut dyn FnMut(Stage),
    ) -> Result<u64, VolumeProblem> {
        let table = self
            .cache
            .map(|folder| TableFile::of(folder, &self.data.path, self.data.stamp, self.data.start));
        if let Some(open) = table.as_ref().and_then(TableFile::open)
            && let Ok(before) = self.before(open.points.total())
            && let Some(read) = pieces::read(self, &open, before, runs, out, stage)?
        {
            return Ok(read);
        }
        if self.file.is_far() {
            // Its table is made by going back and forth in it.
            let held = self.file.held(self.data.stamp.len).map_err(VolumeProblem::io("read"))?;
            return Deflated { file: &held, ..*self }.read_scanned(table, runs, out, stage);
        }
        self.read_scanned(table, runs, out, stage)
    }

    /// The same by going through all of the file, which makes the table.
    fn read_scanned(
        &self,
        table: Option<TableFile>,
        runs: &[VoxelRun],
        out: &mut [u8],
        stage: &mut dyn FnMut(Stage),
    ) -> Result<u64, VolumeProblem> {
        let before = match self.before {
            SkippedBefore::Bytes(before) => before,
            SkippedBefore::Rest => {
                self.before(self.scan(u64::MAX - (1 << 40), 0, &[], &mut [], stage)?.0)?
            }
        };
        let made = SystemTime::now();
        let needed = before.saturating_add(self.share);
        let (total, scanned) = self.scan(needed, before, runs, out, stage)?;
        if total < needed {
            let actual = total.saturating_sub(before);
            return Err(VolumeProblem::Short { expected: self.share, actual });
        }
        if let Some(table) = table
            && scanned.points.total() >= needed
        {
            table.write(&scanned, made);
        }
        Ok(scanned.read)
    }

    /// Decompressed bytes before the numbers, if there are enough of those.
    fn before(&self, total: u64) -> Result<u64, VolumeProblem> {
        let short = |actual| VolumeProblem::Short { expected: self.share, actual };
        match self.before {
            SkippedBefore::Rest => total.checked_sub(self.share).ok_or_else(|| short(total)),
            SkippedBefore::Bytes(before) => match before.checked_add(self.share) {
                Some(end) if end <= total => Ok(before),
                _ => Err(short(total.saturating_sub(before))),
            },
        }
    }

    /// Reads all of the file. Returns how many bytes it has, decompressed.
    fn scan(
        &self,
        needed: u64,
        before: u64,
        runs: &[VoxelRun],
        out: &mut [u8],
        stage: &mut dyn FnMut(Stage),
    ) -> Result<(u64, scan::Scanned), VolumeProblem> {
        let (mut next, mut total) = (0, 0);
        let mut sink = |at: u64, bytes: &[u8]| {
            total = at + bytes.len() as u64;
            place(at, bytes, before, runs, &mut next, out);
        };
        let range = (self.data.start, self.data.stamp.len);
        let scanned = scan::scan(self.file, range, needed, self.spacing, &mut sink, stage)?;
        Ok((total, scanned))
    }
}

/// Copies what runs have of some decompressed bytes, which come in order; `next` is the first run not yet whole.
fn place(at: u64, bytes: &[u8], before: u64, runs: &[VoxelRun], next: &mut usize, out: &mut [u8]) {
    let end = at + bytes.len() as u64;
    while let Some(run) = runs.get(*next) {
        let (first, last) = (run.from + before, run.end() + before);
        let (from, to) = (first.max(at), last.min(end));
        if from < to {
            let into = run.to + (from - first) as usize;
            let part = &bytes[(from - at) as usize..(to - at) as usize];
            out[into..into + part.len()].copy_from_slice(part);
        }
        if last > end {
            break;
        }
        *next += 1;
    }
}
