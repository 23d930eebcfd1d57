//! Samples kept in a folder, which several processes may share.
//!
//! ```text
//! folder/
//!   about.txt     what the samples are: refuses a folder that holds others
//!   used          8 bytes, mapped by every process: bytes kept so far
//!   3f/…063.sample   one sample: checksum, length, content
//! ```
//!
//! A sample is written to a file of its own name and then renamed, so a reader sees a whole file or
//! none, whoever writes and whoever dies. Two processes that make the same sample write the same
//! content; the later rename wins. What is read is checked against its checksum, and a damaged file
//! counts as absent and is written anew.
//!
//! The count of bytes is shared memory, added to before a sample is written. A process that dies in
//! between leaves it too high; the next one to open the folder while nobody else has it open (it holds
//! a lock on `used`) counts the files again.
//!
//! A folder that is filled but may not be written to is read and left as it is.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use feedline_core::{Dataset, SampleIndex};
use memmap2::MmapRaw;
use twox_hash::XxHash3_64;

use super::Store;
use crate::SourceError;

/// Checksum and length before the content.
const HEADER: usize = 16;
/// Samples are spread over this many folders.
const FANOUT: u64 = 256;

/// Keeps samples in a folder, up to a number of bytes.
pub struct DiskStore {
    folder: PathBuf,
    /// `None` where the folder may not be written to.
    ledger: Option<Ledger>,
    limit: u64,
    /// Set when the disk refuses: reading goes on, writing does not.
    refused: AtomicBool,
}

/// Numbers temporary files, whichever store of this process writes them.
static NAMES: AtomicU64 = AtomicU64::new(0);

impl DiskStore {
    /// Opens or makes the folder for the samples of `dataset`. `recipe` tells what made them; a folder
    /// whose samples were made otherwise is refused.
    pub fn open(
        folder: &Path,
        dataset: &dyn Dataset,
        recipe: &str,
        limit: u64,
    ) -> Result<DiskStore, SourceError> {
        let refuse = |doing, path: &Path| {
            let path = path.to_path_buf();
            move |source| SourceError::Io { doing, path, source }
        };
        fs::create_dir_all(folder).map_err(refuse("make", folder))?;
        check_recipe(folder, &describe(dataset, recipe))?;
        let ledger = match Ledger::open(folder) {
            Err(SourceError::Io { source, .. }) if is_forbidden(&source) => None,
            opened => Some(opened?),
        };
        Ok(DiskStore {
            folder: folder.to_path_buf(),
            refused: AtomicBool::new(ledger.is_none()),
            ledger,
            limit,
        })
    }

    fn path(&self, index: SampleIndex) -> PathBuf {
        self.folder
            .join(format!("{:02x}", index.0 % FANOUT))
            .join(format!("{:020}.sample", index.0))
    }

    fn write(&self, index: SampleIndex, sample: &[u8]) -> io::Result<()> {
        let path = self.path(index);
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&XxHash3_64::oneshot(sample).to_le_bytes());
        header[8..].copy_from_slice(&(sample.len() as u64).to_le_bytes());
        let mut file = File::create_new(&temporary)?;
        let written = file.write_all(&header).and_then(|()| file.write_all(sample));
        drop(file);
        let written = written.and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

impl Store for DiskStore {
    fn get(&self, index: SampleIndex, out: &mut Vec<u8>) -> bool {
        let Ok(mut file) = File::open(self.path(index)) else { return false };
        let mut header = [0; HEADER];
        if file.read_exact(&mut header).is_err() {
            return false;
        }
        let (checksum, length) = header.split_at(8);
        let start = out.len();
        // What is there is read, not what the header claims: a damaged length allocates nothing.
        let whole = file.read_to_end(out).is_ok()
            && length == ((out.len() - start) as u64).to_le_bytes()
            && checksum == XxHash3_64::oneshot(&out[start..]).to_le_bytes();
        if !whole {
            out.truncate(start);
        }
        whole
    }

    fn put(&self, index: SampleIndex, sample: &[u8]) {
        let Some(ledger) = self.ledger.as_ref().filter(|_| !self.refused.load(Ordering::Relaxed))
        else {
            return;
        };
        let bytes = (HEADER + sample.len()) as u64;
        // A damaged entry, or one that another process has made meanwhile: it is replaced.
        let replaced = fs::metadata(self.path(index)).map_or(0, |file| file.len());
        if ledger.add(bytes).saturating_sub(replaced) > self.limit {
            ledger.take(bytes);
            return;
        }
        match self.write(index, sample) {
            Ok(()) => ledger.take(replaced),
            Err(error) => {
                ledger.take(bytes);
                // A full or read-only disk stays so: trying for each sample would only cost time. (A
                // temporary name that is taken is another machine's process with this one's number.)
                let refuses = error.kind() != io::ErrorKind::AlreadyExists;
                self.refused.fetch_or(refuses, Ordering::Relaxed);
            }
        }
    }

    fn used(&self) -> u64 {
        match &self.ledger {
            Some(ledger) => ledger.count().load(Ordering::Relaxed),
            None => count_files(&self.folder, false),
        }
    }
}

/// The count of bytes that all processes share, and the lock that says the folder is in use.
struct Ledger {
    used: MmapRaw,
    _lock: File,
}

impl Ledger {
    fn open(folder: &Path) -> Result<Ledger, SourceError> {
        let path = folder.join("used");
        let refuse = |doing| {
            let path = path.clone();
            move |source| SourceError::Io { doing, path, source }
        };
        let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let lock = open.map_err(refuse("open"))?;
        let alone = lock.try_lock().is_ok();
        if alone {
            lock.set_len(8).map_err(refuse("write"))?;
        } else {
            lock.lock_shared().map_err(refuse("lock"))?;
        }
        let used = MmapRaw::map_raw(&lock).map_err(refuse("map"))?;
        if used.len() < 8 {
            let short = "it must have 8 bytes; remove it";
            return Err(refuse("read")(io::Error::new(io::ErrorKind::InvalidData, short)));
        }
        let ledger = Ledger { used, _lock: lock };
        if alone {
            ledger.count().store(count_files(folder, true), Ordering::Relaxed);
            // From exclusive to shared: others may come now.
            ledger._lock.lock_shared().map_err(refuse("lock"))?;
        }
        Ok(ledger)
    }

    /// The shared count. Relaxed throughout: a sum that nothing else is published by.
    fn count(&self) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned, at least 8 bytes long, writable and lives as long as
        // `self`; other processes access it atomically too.
        unsafe { AtomicU64::from_ptr(self.used.as_mut_ptr().cast()) }
    }

    /// Adds bytes before they are written, so that the limit holds however many come at once. Returns
    /// the sum.
    fn add(&self, bytes: u64) -> u64 {
        self.count().fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Takes bytes off again.
    fn take(&self, bytes: u64) {
        let less = |count: u64| Some(count.saturating_sub(bytes));
        let _ = self.count().fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn describe(dataset: &dyn Dataset, recipe: &str) -> String {
    let fields: Vec<String> = dataset
        .fields()
        .iter()
        .map(|f| format!("{} {} {:?}", f.name(), f.dtype(), f.form()))
        .collect();
    format!(
        "feedline cache 1\nsamples: {}\nfields: {}\nmade by: {recipe}\n",
        dataset.len(),
        fields.join("; ")
    )
}

/// Leaves a note of what the samples are, or compares with the one that is there.
fn check_recipe(folder: &Path, about: &str) -> Result<(), SourceError> {
    let path = folder.join("about.txt");
    let refuse = |doing| {
        let path = path.clone();
        move |source| SourceError::Io { doing, path, source }
    };
    let temporary = folder.join(format!("about.{}.tmp", std::process::id()));
    if !path.exists() {
        // Linked rather than renamed: if another process was first, its note stays.
        fs::write(&temporary, about).map_err(refuse("write"))?;
        let linked = fs::hard_link(&temporary, &path);
        let _ = fs::remove_file(&temporary);
        if let Err(error) = linked
            && !path.exists()
        {
            return Err(refuse("write")(error));
        }
    }
    let there = fs::read_to_string(&path).map_err(refuse("read"))?;
    if there == about {
        return Ok(());
    }
    Err(SourceError::OtherCache { folder: folder.to_path_buf(), there, wanted: about.to_string() })
}

/// Bytes of all samples in the folder. `tidy` removes what processes that died have left, which only
/// one that is alone may do.
fn count_files(folder: &Path, tidy: bool) -> u64 {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    list(folder)
        .flat_map(|shard| list(&shard.path()).collect::<Vec<_>>())
        .map(|file| {
            let path = file.path();
            if path.extension().is_some_and(|e| e == "tmp") {
                if tidy {
                    let _ = fs::remove_file(&path);
                }
                return 0;
            }
            file.metadata().map_or(0, |m| m.len())
        })
        .sum()
}
