//! A file that is read at places, by any number of threads, as long as it stays what it was.
//!
//! Of an object of a store each read would be a request. So who knows what will be read fetches it before, in few requests that
//! are under way together: all of a small file of rows, the end of a Parquet file, the columns of a row group.

use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use feedline_sources::plain_file::{SourceFile, Stamp};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::TableError;

#[derive(Clone, Debug)]
pub(crate) struct OpenFile {
    shared: Arc<SharedHandle>,
    /// What the system refused last, where others make something else of it.
    refused: Arc<Mutex<Option<io::Error>>>,
    /// Parts of it that are at hand, and where they begin.
    fetched: Arc<[(u64, Bytes)]>,
}

/// Ranges with fewer bytes between them are fetched as one.
const GAP: u64 = 64 << 10;
/// What is asked for at a time, at most.
const PIECE: u64 = 8 << 20;

#[derive(Debug)]
struct SharedHandle {
    path: PathBuf,
    file: SourceFile,
    stamp: Stamp,
}

impl OpenFile {
    pub(crate) fn open(path: &Path) -> Result<OpenFile, TableError> {
        let (file, stamp) = SourceFile::open(path).map_err(|source| TableError::Io {
            doing: "open",
            path: path.to_path_buf(),
            source,
        })?;
        let path = path.to_path_buf();
        let shared = Arc::new(SharedHandle { path, file, stamp });
        Ok(OpenFile { shared, refused: Arc::default(), fetched: Arc::default() })
    }

    /// Whether reading it takes requests.
    pub(crate) fn is_far(&self) -> bool {
        self.shared.file.is_far()
    }

    /// How many reads ahead it wants to expect.
    pub(crate) fn look_ahead(&self) -> usize {
        if self.fetched.is_empty() { self.shared.file.look_ahead() } else { 0 }
    }

    /// Told that just these bytes are [appended](OpenFile::append) soon.
    pub(crate) fn expect_just(&self, offset: u64, len: u64) {
        if self.fetched.is_empty() {
            self.shared.file.expect(offset, len);
        }
    }

    /// Told that these ranges are [fetched](OpenFile::fetched) soon.
    pub(crate) fn expect(&self, ranges: &[Range<u64>]) {
        if self.is_far() {
            for (start, len) in merged(ranges, self.shared.stamp.len).iter().flat_map(pieces) {
                self.shared.file.expect(start, len);
            }
        }
    }

    /// The same file with these ranges of it at hand.
    pub(crate) fn fetched(&self, ranges: &[Range<u64>]) -> Result<OpenFile, TableError> {
        self.expect(ranges);
        let mut fetched = Vec::new();
        for range in merged(ranges, self.shared.stamp.len) {
            let mut bytes = Vec::new();
            for (start, len) in pieces(&range) {
                self.shared
                    .file
                    .append_at(&mut bytes, start, len as usize)
                    .map_err(|source| self.unread(source))?;
            }
            fetched.push((range.start, bytes.into()));
        }
        let (shared, refused) = (Arc::clone(&self.shared), Arc::clone(&self.refused));
        Ok(OpenFile { shared, refused, fetched: fetched.into() })
    }

    /// An object with all of its bytes at hand, if they are no more than `room`, which they are taken from. A file on a
    /// disk stays where it is.
    pub(crate) fn held(self, room: &mut u64) -> Result<OpenFile, TableError> {
        let length = self.shared.stamp.len;
        let left = room.checked_sub(length).filter(|_| self.is_far() && length > 0);
        let Some(left) = left else { return Ok(self) };
        *room = left;
        self.fetched(std::slice::from_ref(&(0..length)))
    }

    fn unread(&self, source: io::Error) -> TableError {
        TableError::Io { doing: "read", path: self.shared.path.clone(), source }
    }

    /// How many bytes are at hand from this one on.
    fn at_hand_from(&self, offset: u64) -> u64 {
        let place = self.fetched.partition_point(|(start, _)| *start <= offset);
        let before = place.checked_sub(1).map(|place| &self.fetched[place]);
        before.map_or(0, |(start, bytes)| (start + bytes.len() as u64).saturating_sub(offset))
    }

    /// These bytes, if they are at hand.
    fn at_hand(&self, offset: u64, len: usize) -> Option<Bytes> {
        let place = self.fetched.partition_point(|(start, _)| *start <= offset).checked_sub(1)?;
        let (start, bytes) = &self.fetched[place];
        let from = usize::try_from(offset - start).ok()?;
        let to = from.checked_add(len)?;
        (to <= bytes.len()).then(|| bytes.slice(from..to))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(crate) fn stamp(&self) -> &Stamp {
        &self.shared.stamp
    }

    /// Appends `len` bytes from `offset` on; a length that the file does not have is refused before there is memory for it.
    pub(crate) fn append(&self, out: &mut Vec<u8>, offset: u64, len: usize) -> io::Result<()> {
        if offset.checked_add(len as u64).is_none_or(|end| end > self.shared.stamp.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(bytes) = self.at_hand(offset, len) {
            out.extend_from_slice(&bytes);
            return Ok(());
        }
        self.noted(self.shared.file.append_at(out, offset, len))
    }

    /// Runs what reads this file; what the system refused meanwhile counts more than what became of it.
    pub(crate) fn reading<T>(
        &self,
        read: impl FnOnce(&OpenFile) -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        let file = OpenFile { refused: Arc::default(), ..self.clone() };
        let read = read(&file);
        let refused = file.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (read, refused) {
            (Err(_), Some(source)) => Err(self.unread(source)),
            (read, _) => read,
        }
    }

    /// Keeps what the system refused. That a file is too short is none of it: it will not become longer.
    fn noted<T>(&self, read: io::Result<T>) -> io::Result<T> {
        read.inspect_err(|error| {
            if error.kind() != io::ErrorKind::UnexpectedEof {
                let told = io::Error::new(error.kind(), error.to_string());
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
            }
        })
    }

    /// Where its text begins: behind a mark of the byte order. What is compressed has no places to begin to read at, and
    /// is refused.
    pub(crate) fn text_start(&self) -> Result<u64, TableError> {
        const LONGEST: u64 = 4;
        let mut start = Vec::new();
        let length = self.shared.stamp.len.min(LONGEST) as usize;
        let read = self.append(&mut start, 0, length);
        let path = || self.shared.path.clone();
        read.map_err(|source| self.unread(source))?;
        let compressed = |with: &str, advice| {
            Err(TableError::Compressed { path: path(), with: with.to_string(), advice })
        };
        match *start {
            [0x1f, 0x8b, ..] => compressed("gzip", "unpack it, e.g. by `gzip -dk`"),
            [0x28, 0xb5, 0x2f, 0xfd] => compressed("zstd", "unpack it, e.g. by `zstd -d`"),
            [0xef, 0xbb, 0xbf, ..] => Ok(3),
            _ => Ok(0),
        }
    }

    /// Refuses a file that is not what it was when it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), TableError> {
        let path = || self.shared.path.clone();
        let change = self.shared.file.change(&self.shared.stamp);
        match change.map_err(|source| self.unread(source))? {
            None => Ok(()),
            Some(what) => Err(TableError::Changed { path: path(), what }),
        }
    }
}

impl Length for OpenFile {
    fn len(&self) -> u64 {
        self.shared.stamp.len
    }
}

impl ChunkReader for OpenFile {
    type T = BufReader<ReadFrom>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(ReadFrom { file: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if let Some(bytes) = self.at_hand(start, length) {
            return Ok(bytes);
        }
        let mut bytes = Vec::new();
        self.append(&mut bytes, start, length)?;
        Ok(bytes.into())
    }
}

/// Reads on from a place, without moving anybody else's.
pub(crate) struct ReadFrom {
    file: OpenFile,
    at: u64,
}

impl Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.file.shared.stamp.len.saturating_sub(self.at);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        // Who reads on asks for more than a column has: what is at hand of it comes first.
        let here = self.file.at_hand_from(self.at).min(wanted as u64) as usize;
        let read = match self.file.at_hand(self.at, here).filter(|_| here > 0) {
            Some(bytes) => {
                buffer[..here].copy_from_slice(&bytes);
                here
            }
            None => {
                let buffer = &mut buffer[..wanted];
                self.file.noted(self.file.shared.file.read_exact_at(buffer, self.at))?;
                wanted
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// Ranges of a file of `len` bytes in order, those that are close as one. What lies beyond its end is left out.
fn merged(ranges: &[Range<u64>], len: u64) -> Vec<Range<u64>> {
    let inside = ranges.iter().filter(|range| range.start < range.end && range.end <= len);
    let mut sorted: Vec<Range<u64>> = inside.cloned().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut().filter(|last| range.start <= last.end.saturating_add(GAP)) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

/// A range in pieces that are asked for one by one: where each begins, and its bytes.
fn pieces(range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (start, end) = (range.start, range.end);
    (start..end).step_by(PIECE as usize).map(move |at| (at, PIECE.min(end - at)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn close_ranges_are_fetched_together_and_what_is_at_hand_is_what_was_read() {
        let far = 10 * GAP;
        assert_eq!(merged(&[far..far + 5, 3..7, 5..9, 9..9], 2 * far), [3..9, far..far + 5]);
        let one = merged(&[0..4, 4 + GAP..5 + GAP, 8..11], 10 + GAP);
        assert_eq!(one, std::slice::from_ref(&(0..5 + GAP)));
        let inside = merged(&[0..4, 2..100], 10);
        assert_eq!(inside, std::slice::from_ref(&(0..4)), "beyond the end");
        let range = 3..3 + 2 * PIECE + 1;
        assert_eq!(
            pieces(&range).collect::<Vec<_>>(),
            [(3, PIECE), (3 + PIECE, PIECE), (3 + 2 * PIECE, 1)]
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = OpenFile::open(&path).unwrap().fetched(&[2..4, 6..8]).unwrap();
        // Something else in its place shows what is not asked for again.
        std::fs::write(&path, b"abcdefghij").unwrap();
        let read = |start, len| file.get_bytes(start, len).unwrap();
        assert_eq!(
            (&*read(2, 6), &*read(3, 1), &*read(0, 3)),
            (&b"234567"[..], &b"3"[..], &b"abc"[..])
        );
        assert!(matches!(file.check_unchanged(), Err(TableError::Changed { .. })));
    }

    #[test]
    fn what_the_system_refuses_is_told_as_that_and_not_as_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, b"12345678").unwrap();
        let damaged = || TableError::Row("damaged".to_string());
        let readable = OpenFile::open(&path).unwrap();
        let read = |file: &OpenFile, start| file.get_bytes(start, 4).map_err(|_| damaged());
        assert_eq!(&*readable.reading(|file| read(file, 2)).unwrap(), b"3456");
        // Too short stays damage; a file that cannot be read (open for writing alone) is the system's.
        assert!(matches!(readable.reading(|file| read(file, 6)), Err(TableError::Row(_))));
        let file = File::options().write(true).open(&path).unwrap();
        let stamp = Stamp::of(&file.metadata().unwrap());
        let shared = Arc::new(SharedHandle { path, file: SourceFile::Disk(file), stamp });
        let written = OpenFile { shared, refused: Arc::default(), fetched: Arc::default() };
        assert!(matches!(written.reading(|file| read(file, 2)), Err(TableError::Io { .. })));
    }
}
