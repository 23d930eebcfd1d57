//! A file that is open: on a disk, or an object of a store.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::read_at::{append_at, make_room, open_plain, read_exact_at};
use crate::stamp::Stamp;

/// A file that any number of threads read at any place.
#[derive(Debug)]
pub enum SourceFile {
    /// On a disk.
    Disk(File),
    /// In a store. Each request names the version that was opened, so nothing of another one is ever read.
    #[cfg(feature = "stores")]
    Object(feedline_store::Object),
    /// What was read of one, as a whole.
    Held(Vec<u8>),
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
            SourceFile::Disk(_) | SourceFile::Held(_) => None,
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => Some(SourceFile::Object(object.again())),
        }
    }

    /// Another handle of the same file, for somebody else who reads it from front to back.
    pub fn another(&self) -> io::Result<SourceFile> {
        match self {
            SourceFile::Disk(file) => Ok(SourceFile::Disk(file.try_clone()?)),
            SourceFile::Held(bytes) => Ok(SourceFile::Held(bytes.clone())),
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => Ok(SourceFile::Object(object.again())),
        }
    }

    /// Whether reading it takes requests.
    #[must_use]
    pub fn is_far(&self) -> bool {
        !matches!(self, SourceFile::Disk(_) | SourceFile::Held(_))
    }

    /// All of its `len` bytes in memory, for those who read it here and there.
    pub fn held(&self, len: u64) -> io::Result<SourceFile> {
        let mut bytes = Vec::new();
        self.append_whole(&mut bytes, len)?;
        Ok(SourceFile::Held(bytes))
    }

    /// How many reads ahead it wants to [expect](SourceFile::expect).
    #[must_use]
    pub fn look_ahead(&self) -> usize {
        match self {
            SourceFile::Disk(_) | SourceFile::Held(_) => 0,
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => object.bucket().looks_ahead(),
        }
    }

    /// Told that just these bytes are read soon. Returns at once.
    pub fn expect(&self, offset: u64, len: u64) {
        match self {
            SourceFile::Disk(_) | SourceFile::Held(_) => {
                let _ = (offset, len);
            }
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => object.begin(offset, len),
        }
    }

    /// Told that these bytes are wanted soon by whoever goes [forward](Forward) through it. Returns at once, with the
    /// end of what is there or under way.
    pub fn expect_forward(&self, range: Range<u64>) -> u64 {
        match self {
            SourceFile::Disk(_) | SourceFile::Held(_) => range.end,
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => object.begin_pieces(range),
        }
    }

    /// Fills `buffer` from byte `offset` on.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            SourceFile::Disk(file) => read_exact_at(file, buffer, offset),
            SourceFile::Held(bytes) => {
                buffer.copy_from_slice(part(bytes, offset, buffer.len())?);
                Ok(())
            }
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => Ok(object.read_exact_at(buffer, offset)?),
        }
    }

    /// Appends `len` bytes from byte `offset` on.
    pub fn append_at(&self, out: &mut Vec<u8>, offset: u64, len: usize) -> io::Result<()> {
        match self {
            SourceFile::Disk(file) => append_at(file, out, offset, len),
            SourceFile::Held(bytes) => {
                out.extend_from_slice(part(bytes, offset, len)?);
                Ok(())
            }
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => {
                make_room(out, len)?;
                Ok(object.append_at(out, offset, len)?)
            }
        }
    }

    /// Appends all of its `len` bytes. An object comes in pieces, some of which are under way at a time.
    pub fn append_whole(&self, out: &mut Vec<u8>, len: u64) -> io::Result<()> {
        make_room(out, usize::try_from(len).unwrap_or(usize::MAX))?;
        match self {
            SourceFile::Disk(file) => append_at(file, out, 0, len as usize),
            SourceFile::Held(bytes) => {
                out.extend_from_slice(part(bytes, 0, len as usize)?);
                Ok(())
            }
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => Ok(object.append_whole(out)?),
        }
    }

    /// Fetches all of an object to where it is on a disk of this machine, if its store has a cache. Says whether it is
    /// there.
    pub(crate) fn keep(&self, stop: impl Fn() -> bool) -> io::Result<bool> {
        match self {
            SourceFile::Disk(_) | SourceFile::Held(_) => {
                let _ = stop;
                Ok(true)
            }
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => Ok(object.keep(stop)?),
        }
    }

    /// What is different from the state it was opened in; `None` if nothing is. Of an object nothing can be.
    pub fn change(&self, stamp: &Stamp) -> io::Result<Option<String>> {
        match self {
            SourceFile::Disk(file) => stamp.change(file),
            SourceFile::Held(_) => Ok(None),
            #[cfg(feature = "stores")]
            SourceFile::Object(_) => Ok(None),
        }
    }
}

impl AsRef<SourceFile> for SourceFile {
    fn as_ref(&self) -> &SourceFile {
        self
    }
}

/// Reads a file from front to back, whoever else reads it.
#[derive(Debug)]
pub struct Forward<F> {
    file: F,
    at: u64,
    /// What was read of a disk last, and where that ends.
    buffer: Vec<u8>,
    end: u64,
    #[cfg(feature = "stores")]
    front: feedline_store::Front,
}

/// What is read of a file on a disk at a time.
const READ_AHEAD: usize = 256 << 10;

impl<F: AsRef<SourceFile>> Forward<F> {
    /// From its first byte on.
    pub fn new(file: F) -> Forward<F> {
        Forward {
            file,
            at: 0,
            buffer: Vec::new(),
            end: 0,
            #[cfg(feature = "stores")]
            front: feedline_store::Front::default(),
        }
    }
}

impl<F: AsRef<SourceFile>> io::BufRead for Forward<F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.file.as_ref() {
            SourceFile::Disk(file) => {
                if self.at == self.end {
                    self.buffer.resize(READ_AHEAD, 0);
                    self.end += read_some_at(file, &mut self.buffer, self.at)? as u64;
                    let there = (self.end - self.at) as usize;
                    self.buffer.truncate(there);
                }
                let left = (self.end - self.at) as usize;
                Ok(&self.buffer[self.buffer.len() - left..])
            }
            SourceFile::Held(bytes) => Ok(bytes.get(self.at as usize..).unwrap_or(&[])),
            #[cfg(feature = "stores")]
            SourceFile::Object(object) => Ok(self.front.next(object)?),
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes as u64;
        // (On a disk it has nothing to pass over.)
        #[cfg(feature = "stores")]
        self.front.pass(bytes);
    }
}

impl<F: AsRef<SourceFile>> io::Read for Forward<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let there = io::BufRead::fill_buf(self)?;
        let read = there.len().min(buffer.len());
        buffer[..read].copy_from_slice(&there[..read]);
        io::BufRead::consume(self, read);
        Ok(read)
    }
}

/// Some bytes of those that are held.
fn part(bytes: &[u8], offset: u64, len: usize) -> io::Result<&[u8]> {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
    rest.and_then(|rest| rest.get(..len)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(unix)]
fn read_some_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, at)
}

#[cfg(windows)]
fn read_some_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, at)
}

/// Whether a path is the URL of an object.
#[must_use]
pub fn is_url(path: &Path) -> bool {
    #[cfg(feature = "stores")]
    return path.to_str().is_some_and(feedline_store::is_url);
    #[cfg(not(feature = "stores"))]
    {
        let _ = path;
        false
    }
}

/// The path of what is on a disk, also where it is written as `file://…`.
pub(crate) fn on_disk(path: &Path) -> io::Result<PathBuf> {
    #[cfg(feature = "stores")]
    return Ok(feedline_store::local(path)?);
    #[cfg(not(feature = "stores"))]
    Ok(path.to_path_buf())
}
