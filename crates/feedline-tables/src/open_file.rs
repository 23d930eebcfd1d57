//! A file that is read at places, by any number of threads, as long as it stays what it was.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use feedline_sources::plain_file::{Stamp, append_at, open_plain};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::TableError;

#[derive(Clone, Debug)]
pub(crate) struct OpenFile {
    shared: Arc<SharedHandle>,
    /// What the system refused last, where others make something else of it.
    refused: Arc<Mutex<Option<io::Error>>>,
}

#[derive(Debug)]
struct SharedHandle {
    path: PathBuf,
    file: File,
    stamp: Stamp,
}

impl OpenFile {
    pub(crate) fn open(path: &Path) -> Result<OpenFile, TableError> {
        let (file, meta) = open_plain(path).map_err(|source| TableError::Io {
            doing: "open",
            path: path.to_path_buf(),
            source,
        })?;
        let path = path.to_path_buf();
        let shared = Arc::new(SharedHandle { path, file, stamp: Stamp::of(&meta) });
        Ok(OpenFile { shared, refused: Arc::default() })
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
        append_at(&self.shared.file, out, offset, len)
    }

    /// Runs what reads this file; what the system refused meanwhile counts more than what became of it.
    pub(crate) fn reading<T>(
        &self,
        read: impl FnOnce(&OpenFile) -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        let file = OpenFile { shared: Arc::clone(&self.shared), refused: Arc::default() };
        let read = read(&file);
        let refused = file.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (read, refused) {
            (Err(_), Some(source)) => {
                Err(TableError::Io { doing: "read", path: self.shared.path.clone(), source })
            }
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
        read.map_err(|source| TableError::Io { doing: "read", path: path(), source })?;
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
        let change = self.shared.stamp.change(&self.shared.file);
        match change.map_err(|source| TableError::Io { doing: "read", path: path(), source })? {
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
        let mut bytes = Vec::new();
        self.noted(self.append(&mut bytes, start, length))?;
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
        self.file.noted(feedline_sources::plain_file::read_exact_at(
            &self.file.shared.file,
            &mut buffer[..wanted],
            self.at,
        ))?;
        self.at += wanted as u64;
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let shared = Arc::new(SharedHandle { path, file, stamp });
        let written = OpenFile { shared, refused: Arc::default() };
        assert!(matches!(written.reading(|file| read(file, 2)), Err(TableError::Io { .. })));
    }
}
