//! What was found in a file, kept on disk so that the file is gone through once and not at every start.
//!
//! ```text
//! magic "FLLINES1"   bytes of all that follows the checksum, and their checksum (xxh3)
//! what it is about   path, length, time of change, inode; when it was made
//! content            the table
//! ```
//!
//! The rules are those of tar's tables: it counts only for the very file it was made of, in the state it was in; it is written aside and
//! renamed; whatever is amiss with it makes it again; a file that was written within the same moment is not trusted.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use crate::read_at::{append_at, open_plain, read_exact_at};
use crate::stamp::{Stamp, since_1970};

const MAGIC: &[u8; 8] = b"FLLINES1";
/// Magic, length and checksum.
const HEADER: usize = 24;
/// File systems tell times no coarser than that.
const MOMENT: Duration = Duration::from_secs(2);

/// The folder that nothing else was said of: `feedline/text` in the user's cache folder.
pub(super) fn default_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("feedline/text"))
}

/// Where what is known of a file is kept.
pub(super) struct KeptTable {
    folder: PathBuf,
    file: Vec<u8>,
}

impl KeptTable {
    pub(super) fn of(folder: &Path, file: &Path) -> KeptTable {
        let whole = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
        let file = whole.into_os_string().into_encoded_bytes();
        KeptTable { folder: folder.to_path_buf(), file }
    }

    /// The folder it is kept in.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file beside it, for something else about the same file.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{:016x}{ending}", XxHash3_64::oneshot(&self.file)))
    }

    /// What is kept, if it is about the file in this state.
    pub(super) fn read(&self, stamp: &Stamp) -> Option<Vec<u8>> {
        let (made, content) = self.written(stamp)?;
        (made >= stamp.changed.saturating_add(MOMENT)).then_some(content)
    }

    /// The same, though it may have been made in the moment in which the file was written; and when.
    pub(super) fn written(&self, stamp: &Stamp) -> Option<(Duration, Vec<u8>)> {
        let (file, meta) = open_plain(&self.beside(".lines")).ok()?;
        let mut header = [0; HEADER];
        read_exact_at(&file, &mut header, 0).ok()?;
        let rest = header.strip_prefix(MAGIC)?;
        let (length, checksum) = rest.split_first_chunk::<8>()?;
        let length = u64::from_le_bytes(*length);
        if meta.len().checked_sub(HEADER as u64) != Some(length) {
            return None;
        }
        let mut bytes = Vec::new();
        append_at(&file, &mut bytes, HEADER as u64, usize::try_from(length).ok()?).ok()?;
        if checksum != XxHash3_64::oneshot(&bytes).to_le_bytes() {
            return None;
        }
        let about = self.about(stamp);
        let rest = bytes.strip_prefix(&*about)?;
        let (made, content) = rest.split_first_chunk::<8>()?;
        Some((Duration::from_secs(u64::from_le_bytes(*made)), content.to_vec()))
    }

    /// Keeps it, if the folder lets it. `made` is when its making began.
    pub(super) fn write(&self, stamp: &Stamp, content: &[u8], made: SystemTime) {
        let mut bytes = self.about(stamp);
        bytes.extend_from_slice(&since_1970(made).as_secs().to_le_bytes());
        bytes.extend_from_slice(content);
        // Failing to keep it costs time at the next start and nothing else.
        let _ = self.replace(&bytes);
    }

    /// Waits until nobody else replaces what is kept of this file; until it is dropped nobody else does. `None` where the folder
    /// does not let it.
    pub(super) fn lock(&self) -> Option<File> {
        fs::create_dir_all(&self.folder).ok()?;
        let path = self.beside(".lock");
        let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
        file.lock().ok()?;
        Some(file)
    }

    fn replace(&self, content: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&(content.len() as u64).to_le_bytes())?;
        file.write_all(&XxHash3_64::oneshot(content).to_le_bytes())?;
        file.write_all(content)?;
        file.persist(self.beside(".lines"))?;
        Ok(())
    }

    /// What it must say it is about.
    fn about(&self, stamp: &Stamp) -> Vec<u8> {
        let mut bytes = (self.file.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.file);
        let changed = stamp.changed;
        for number in [stamp.len, changed.as_secs(), u64::from(changed.subsec_nanos()), stamp.inode]
        {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}
