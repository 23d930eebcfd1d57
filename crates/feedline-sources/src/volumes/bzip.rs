//! Data in bzip2: from front to back, as it has no table of its blocks.

use std::io::{self, BufReader, Read};

use bzip2::read::MultiBzDecoder;

use super::error::VolumeProblem;
use super::header::{DataFile, SkippedBefore};
use super::runs::VoxelRun;
use crate::source_file::SourceFile;

/// More than a block can have decompressed: 900,000 bytes, of which five may stand for 259.
const LONGEST_BLOCK: u64 = 48 << 20;

/// Bytes of a file from a place on, counted.
struct FileBytes<'a> {
    file: &'a SourceFile,
    at: u64,
    end: u64,
}

impl Read for FileBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (self.end - self.at).min(buffer.len() as u64) as usize;
        self.file.read_exact_at(&mut buffer[..length], self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

/// A decompressed stream, and how far it was read.
struct Unpacking<'a> {
    stream: MultiBzDecoder<BufReader<FileBytes<'a>>>,
    at: u64,
}

impl<'a> Unpacking<'a> {
    fn new(file: &'a SourceFile, data: &DataFile) -> Unpacking<'a> {
        let end = data.stamp.len;
        let bytes = FileBytes { file, at: data.start.min(end), end };
        Unpacking { stream: MultiBzDecoder::new(BufReader::with_capacity(1 << 16, bytes)), at: 0 }
    }

    /// Goes on to a place, or to the end.
    fn skip_to(&mut self, place: u64) -> io::Result<()> {
        let wanted = place.saturating_sub(self.at);
        self.at += io::copy(&mut (&mut self.stream).take(wanted), &mut io::sink())?;
        Ok(())
    }

    /// Reads what there is, as far as there is room.
    fn read(&mut self, mut room: &mut [u8]) -> io::Result<()> {
        while !room.is_empty() {
            match self.stream.read(room)? {
                0 => break,
                length => {
                    self.at += length as u64;
                    room = &mut room[length..];
                }
            }
        }
        Ok(())
    }
}

/// Reads runs, counted in the numbers of the file, into `out`. Returns how many bytes of the file were read.
pub(super) fn read(
    file: &SourceFile,
    data: &DataFile,
    before: SkippedBefore,
    share: u64,
    runs: &[VoxelRun],
    out: &mut [u8],
) -> Result<u64, VolumeProblem> {
    let bad = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            VolumeProblem::damaged("it ends within the compressed stream")
        }
        _ => VolumeProblem::damaged(error.to_string()),
    };
    let short = |actual| VolumeProblem::Short { expected: share, actual };
    let before = match before {
        SkippedBefore::Bytes(before) => before,
        SkippedBefore::Rest => {
            let mut all = Unpacking::new(file, data);
            all.skip_to(u64::MAX).map_err(bad)?;
            all.at.checked_sub(share).ok_or_else(|| short(all.at))?
        }
    };
    let mut unpacking = Unpacking::new(file, data);
    for run in runs {
        unpacking.skip_to(before + run.from).map_err(bad)?;
        unpacking.read(&mut out[run.to..run.to + run.length]).map_err(bad)?;
        if unpacking.at < before + run.end() {
            return Err(short(unpacking.at.saturating_sub(before)));
        }
    }
    // The checksum of a block is compared at its end, so the last one is gone through as well.
    unpacking.skip_to((before + share).saturating_add(LONGEST_BLOCK)).map_err(bad)?;
    Ok(unpacking.stream.into_inner().get_ref().at - data.start.min(data.stamp.len))
}
