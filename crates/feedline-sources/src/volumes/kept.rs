//! What is kept in the cache folder: checksummed tables, which file they are about, and numbers.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use crate::read_at::{append_at, open_plain};
use crate::stamp::{Stamp, since_1970};

/// File systems tell times no coarser than that.
pub(super) const MOMENT: Duration = Duration::from_secs(2);

/// The folder that nothing else was said of: `feedline/volumes` in the user's cache folder.
pub(super) fn default_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("feedline/volumes"))
}

/// Magic, length and checksum of a table.
const HEADER: usize = 24;

/// What a table holds; `None` where there is none, or it is not whole.
pub(super) fn read_table(path: &Path, magic: &[u8; 8]) -> Option<Vec<u8>> {
    let (file, meta) = open_plain(path).ok()?;
    let mut bytes = Vec::new();
    append_at(&file, &mut bytes, 0, usize::try_from(meta.len()).ok()?).ok()?;
    let (head, body) = bytes.split_at_checked(HEADER)?;
    let (length, checksum) = head.strip_prefix(magic)?.split_first_chunk::<8>()?;
    let whole = u64::from_le_bytes(*length) == body.len() as u64
        && checksum == XxHash3_64::oneshot(body).to_le_bytes();
    whole.then(|| body.to_vec())
}

/// Writes a table in the place of another, whole or not at all.
pub(super) fn write_table(path: &Path, magic: &[u8; 8], content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(magic)?;
    file.write_all(&(content.len() as u64).to_le_bytes())?;
    file.write_all(&XxHash3_64::oneshot(content).to_le_bytes())?;
    file.write_all(content)?;
    file.persist(path)?;
    Ok(())
}

/// A state of a file, and a place in it.
pub(super) struct About {
    path: Vec<u8>,
    stamp: Stamp,
    start: u64,
}

impl About {
    pub(super) fn of(path: &Path, stamp: Stamp, start: u64) -> About {
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        About { path: whole.into_os_string().into_encoded_bytes(), stamp, start }
    }

    /// The same for the same path and place.
    pub(super) fn name(&self) -> u64 {
        XxHash3_64::oneshot_with_seed(self.start, &self.path)
    }

    /// The file's length.
    pub(super) fn length(&self) -> u64 {
        self.stamp.len
    }

    pub(super) fn put(&self, to: &mut Vec<u8>, made: SystemTime) {
        put_bytes(to, &self.path);
        put_stamp(to, &self.stamp);
        put(to, self.start);
        put(to, since_1970(made).as_secs());
    }

    /// Whether what follows is about this very state: made some time after the file was last written.
    pub(super) fn is(&self, from: &mut NumberReader<'_>) -> bool {
        let same = from.bytes().is_some_and(|path| path == self.path)
            && from.stamp().is_some_and(|stamp| same_file(&stamp, &self.stamp))
            && from.number() == Some(self.start);
        let made = from.number().map(Duration::from_secs);
        same && made.is_some_and(|made| made >= self.stamp.changed.saturating_add(MOMENT))
    }
}

/// Whether two stamps are of one state. Devices are numbered anew when they are mounted.
pub(super) fn same_file(one: &Stamp, other: &Stamp) -> bool {
    one.len == other.len && one.changed == other.changed && one.inode == other.inode
}

pub(super) fn put(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

pub(super) fn put_stamp(to: &mut Vec<u8>, stamp: &Stamp) {
    let changed = stamp.changed;
    for number in [stamp.len, changed.as_secs(), u64::from(changed.subsec_nanos()), stamp.inode] {
        put(to, number);
    }
}

/// Takes kept numbers apart; `None` as soon as something does not fit.
pub(super) struct NumberReader<'a>(pub(super) &'a [u8]);

impl<'a> NumberReader<'a> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub(super) fn float(&mut self) -> Option<f64> {
        self.number().map(f64::from_bits)
    }

    /// A count of things of which each takes `bytes` at least: no more than there can be.
    pub(super) fn count(&mut self, bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len() / bytes).then_some(count)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.count(1)?;
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn stamp(&mut self) -> Option<Stamp> {
        let len = self.number()?;
        let seconds = self.number()?;
        let nanos = u32::try_from(self.number()?).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Stamp {
            len,
            changed: Duration::new(seconds, nanos),
            device: 0,
            inode: self.number()?,
        })
    }
}
