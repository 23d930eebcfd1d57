//! Restart points kept on disk, so that a file is read from front to back once.
//!
//! ```text
//! magic "FLZRAN02"   bytes of what follows up to the windows, and their checksum (xxh3)
//! what it is about   path, length, time of change, inode; where in the file the stream begins; when it was made
//! the points         numbers as 8 bytes, little-endian; each with the checksum of its window and its content
//! the windows        packed; read one by one when they are needed
//! ```
//!
//! A table counts only for the very file it was made of, and is checked as tables of tar shards are: anything amiss
//! makes it again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use twox_hash::XxHash3_64;

use super::points::{RestartPoint, RestartPoints};
use super::scan::Scanned;
use crate::read_at::{append_at, open_plain, read_exact_at};
use crate::stamp::Stamp;
use crate::volumes::kept::{About, NumberReader, put};

const MAGIC: &[u8; 8] = b"FLZRAN02";
/// Magic, length and checksum.
const HEADER: usize = 24;

/// Where the restart points of a file are kept.
pub(super) struct TableFile {
    path: PathBuf,
    about: About,
}

/// Restart points, and where their windows are.
pub(super) struct OpenTable {
    pub(super) points: RestartPoints,
    file: File,
    windows: u64,
}

impl TableFile {
    /// Of the stream that begins at a byte of a file.
    pub(super) fn of(folder: &Path, data: &Path, stamp: Stamp, start: u64) -> TableFile {
        let about = About::of(data, stamp, start);
        TableFile { path: folder.join(format!("{:016x}.restart", about.name())), about }
    }

    /// The table, if there is one of the file in this state.
    pub(super) fn open(&self) -> Option<OpenTable> {
        let (file, meta) = open_plain(&self.path).ok()?;
        let mut header = [0; HEADER];
        read_exact_at(&file, &mut header, 0).ok()?;
        let (length, checksum) = header.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        let length = u64::from_le_bytes(*length);
        let windows = length.checked_add(HEADER as u64)?;
        let windows_bytes = meta.len().checked_sub(windows)?;
        let mut bytes = Vec::new();
        append_at(&file, &mut bytes, HEADER as u64, usize::try_from(length).ok()?).ok()?;
        if checksum != XxHash3_64::oneshot(&bytes).to_le_bytes() {
            return None;
        }
        let mut from = NumberReader(&bytes);
        if !self.about.is(&mut from) {
            return None;
        }
        let points = points(&mut from)?;
        let fits = from.0.is_empty() && points.fit(self.about.length(), windows_bytes);
        fits.then_some(OpenTable { points, file, windows })
    }

    /// Keeps a table, if the folder lets it. `made` is when its making began.
    pub(super) fn write(&self, scanned: &Scanned, made: SystemTime) {
        let mut to = Vec::new();
        self.about.put(&mut to, made);
        put(&mut to, scanned.points.points.len() as u64);
        for point in &scanned.points.points {
            for number in [
                point.first_bit,
                point.end_bit,
                u64::from(point.begins_within),
                u64::from(point.ends_within),
                point.from,
                point.length,
                point.checksum,
                u64::from(point.window),
                point.packed_from,
                u64::from(point.packed_length),
                point.packed_checksum,
            ] {
                put(&mut to, number);
            }
        }
        // Failing to keep it costs time at the next read and nothing else.
        let _ = self.replace(&to, &scanned.windows);
    }

    fn replace(&self, content: &[u8], windows: &[u8]) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&(content.len() as u64).to_le_bytes())?;
        file.write_all(&XxHash3_64::oneshot(content).to_le_bytes())?;
        file.write_all(content)?;
        file.write_all(windows)?;
        file.persist(&self.path)?;
        Ok(())
    }
}

fn points(from: &mut NumberReader<'_>) -> Option<RestartPoints> {
    let count = from.count(11 * 8)?;
    let mut points = Vec::with_capacity(count);
    for _ in 0..count {
        points.push(RestartPoint {
            first_bit: from.number()?,
            end_bit: from.number()?,
            begins_within: from.number()? != 0,
            ends_within: from.number()? != 0,
            from: from.number()?,
            length: from.number()?,
            checksum: from.number()?,
            window: u32::try_from(from.number()?).ok()?,
            packed_from: from.number()?,
            packed_length: u32::try_from(from.number()?).ok()?,
            packed_checksum: from.number()?,
        });
    }
    Some(RestartPoints { points })
}

impl OpenTable {
    /// Reads the window of a point, unpacked, into `window`. Whether it is whole.
    pub(super) fn window(
        &self,
        point: &RestartPoint,
        packed: &mut Vec<u8>,
        window: &mut [u8],
    ) -> bool {
        packed.clear();
        let at = self.windows + point.packed_from;
        append_at(&self.file, packed, at, point.packed_length as usize).is_ok()
            && XxHash3_64::oneshot(packed) == point.packed_checksum
            && super::spliced::unpack(packed, window)
    }
}
