//! A file that is open: on a disk, or an object of a store.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::read_at::{append_at, open_plain, read_exact_at};
use crate::stamp::Stamp;

/// A file that any number of threads read at any place.
#[derive(Debug)]
pub enum SourceFile {
    /// On a disk.
    Disk(File),
    /// In a store. Each request names the version that was opened, so nothing of another one is ever read.
    #[cfg(feature = "stores")]
    Object(feedline_store::Object),
}

impl SourceFile {
    /// Opens what a path or a URL names, and tells its state.
    pub fn open(path: &Path) -> io::Result<(SourceFile, Stamp)> {
        #[cfg(feature = "stores")]
        if let Some(address) = feedline_store::address(path)? {
            let object = feedline_store::Object::open(&address)?;
            let stamp = Stamp {
                len: object.size(),
                changed: object.modified(),
                device: 0,
                inode: object.version(),
            };
            return Ok((SourceFile::Object(object), stamp));
        }
        let (file, meta) = open_plain(&on_disk(path)?)?;
        Ok((SourceFile::Disk(file), Stamp::of(&meta)))
    }

    /// The same file for somebody else who reads it from front to back. Of a file on a disk there is none: open it.
    #[must_use]
    pub fn again(&self) -> Option<SourceFile> {
        match self {
            SourceFile::Disk(_) => None,
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => Some(SourceFile::Object(object.again())),
        }
    }

    /// Whether reading it takes requests.
    #[must_use]
    pub fn is_far(&self) -> bool {
        !matches!(self, SourceFile::Disk(_))
    }

    /// How many reads ahead it wants to [expect](SourceFile::expect).
    #[must_use]
    pub fn look_ahead(&self) -> usize {
        match self {
            SourceFile::Disk(_) => 0,
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => object.bucket().looks_ahead(),
        }
    }

    /// Told that just these bytes are read soon. Returns at once.
    pub fn expect(&self, offset: u64, len: u64) {
        match self {
            SourceFile::Disk(_) => {
                let _ = (offset, len);
            }
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => object.begin(offset, len),
        }
    }

    /// Fills `buffer` from byte `offset` on.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            SourceFile::Disk(file) => read_exact_at(file, buffer, offset),
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => Ok(object.read_exact_at(buffer, offset)?),
        }
    }

    /// Appends `len` bytes from byte `offset` on.
    pub fn append_at(&self, out: &mut Vec<u8>, offset: u64, len: usize) -> io::Result<()> {
        match self {
            SourceFile::Disk(file) => append_at(file, out, offset, len),
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => {
                crate::read_at::make_room(out, len)?;
                Ok(object.append_at(out, offset, len)?)
            }
        }
    }

    /// What is different from the state it was opened in; `None` if nothing is. Of an object nothing can be.
    pub fn change(&self, stamp: &Stamp) -> io::Result<Option<String>> {
        match self {
            SourceFile::Disk(file) => stamp.change(file),
            #[cfg(feature = "stores")]
            SourceFile::Object(_) => Ok(None),
        }
    }
}

/// Reads a file from front to back, whoever else reads it.
#[derive(Debug)]
pub struct Forward<F> {
    file: F,
    at: u64,
    len: u64,
}

impl<F: AsRef<SourceFile>> Forward<F> {
    /// From its first byte on. `len` is what it had when it was opened.
    pub fn new(file: F, len: u64) -> Forward<F> {
        Forward { file, at: 0, len }
    }
}

impl<F: AsRef<SourceFile>> io::Read for Forward<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.file.as_ref() {
            SourceFile::Disk(file) => read_some_at(file, buffer, self.at)?,
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => {
                let there = (self.len - self.at).min(buffer.len() as u64) as usize;
                object.read_exact_at(&mut buffer[..there], self.at)?;
                there
            }
        };
        // (A file on a disk may have grown.)
        self.at += read as u64;
        self.len = self.len.max(self.at);
        Ok(read)
    }
}

#[cfg(unix)]
fn read_some_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, at)
}

#[cfg(windows)]
fn read_some_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, at)
}

/// The path of what is on a disk, also where it is written as `file://…`.
pub(crate) fn on_disk(path: &Path) -> io::Result<PathBuf> {
    #[cfg(feature = "stores")]
    return Ok(feedline_store::local(path)?);
    #[cfg(not(feature = "stores"))]
    Ok(path.to_path_buf())
}
