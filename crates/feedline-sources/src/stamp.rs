//! The state a file is in: whether it is still the one that a table, a header or a length was made of.
//!
//! What was read of a file is right if the file's stamp is, *after* reading, what it was when the table
//! was made: whoever writes to a file sets its time before its content. Asking an open file for it
//! takes some 300 ns. A file that was replaced by renaming another over it stays what it is for those
//! who have it open. What is not noticed: content of the same length that was written within the same
//! tick of the file system's clock as the table was made in (none on Linux since 6.13), or whose time was set
//! back by hand.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::source_file::{SourceFile, is_url};

/// The state a file is in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its length in bytes.
    pub len: u64,
    /// When its content was last changed, since 1970.
    pub changed: Duration,
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl Stamp {
    /// The state that a file's metadata tells of.
    #[must_use]
    pub fn of(meta: &Metadata) -> Stamp {
        #[cfg(unix)]
        let (device, inode) = {
            use std::os::unix::fs::MetadataExt;
            (meta.dev(), meta.ino())
        };
        #[cfg(not(unix))]
        let (device, inode) = (0, 0);
        let changed = meta.modified().map_or(Duration::ZERO, since_1970);
        Stamp { len: meta.len(), changed, device, inode }
    }

    /// The state that a file, or an object by its URL, is in now.
    pub fn now(path: &Path) -> io::Result<Stamp> {
        match is_url(path) {
            true => SourceFile::open(path).map(|(_, stamp)| stamp),
            false => Ok(Stamp::of(&std::fs::metadata(path)?)),
        }
    }

    /// What is different now, in words; `None` if nothing is.
    #[must_use]
    pub fn difference(&self, now: &Stamp) -> Option<String> {
        if self == now {
            return None;
        }
        Some(if (self.device, self.inode) != (now.device, now.inode) {
            "another file has its name now".to_string()
        } else if self.len != now.len {
            format!("it had {} bytes and has {} now", self.len, now.len)
        } else {
            "it was written to".to_string()
        })
    }

    /// What is different in an open file now; `None` if nothing is.
    pub fn change(&self, file: &File) -> io::Result<Option<String>> {
        Ok(self.difference(&Stamp::of(&file.metadata()?)))
    }
}

/// How long after 1970 a time is; zero before.
#[must_use]
pub fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}
