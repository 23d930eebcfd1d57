//! Samples kept in a folder, which several processes may share.
//!
//! ```text
//! folder/
//!   about.txt     what the samples are: refuses a folder that holds others
//!   used          8 bytes: bytes kept so far; locked for a moment by whoever changes it
//!   open          empty; locked, together, by all who have the folder open
//!   3f/…063.sample   one sample: checksum, what it is, content
//! ```
//!
//! A sample is written to a file of its own name and then renamed, so a reader sees a whole file or
//! none, whoever writes and whoever dies. Two processes that make the same sample write the same
//! content; the later rename wins. An entry says which sample of which pipeline it is, and its checksum
//! is of that and the content: one that is damaged, of another length, or of another sample counts as
//! absent and is written anew.
//!
//! The count of bytes is added to before a sample is written. A process that dies in between leaves
//! it too high; the next one to open the folder while nobody else has it open counts the files
//! again. It is read and written, not mapped: a mapped file on a full disk, or one that
//! somebody shortens, kills the process. A count that cannot be read or written ends the keeping,
//! not the reading.
//!
//! A folder that is filled but may not be written to, or whose disk is full, is read and left as it is.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use feedline_core::{Dataset, SampleIndex};
use twox_hash::XxHash3_64;

use super::Store;
use crate::read_at::{append_at, open_plain, plain, read_exact_at};
use crate::{SourceError, Watch};

/// Samples are spread over this many folders.
const FANOUT: u64 = 256;
/// A note that is longer than this and than the one that is wanted is not read.
const LONGEST_NOTE: u64 = 1 << 20;
/// How long a lock is waited for before somebody is asked whether to go on.
const PAUSE: Duration = Duration::from_millis(10);
/// How often the lock of the count is tried. It is held for microseconds; only by a process that was
/// stopped right then for longer.
const TRIES: u32 = 100;

/// Keeps samples in a folder, up to a number of bytes.
pub struct DiskStore {
    folder: PathBuf,
    /// What the samples are, in 64 bits.
    pipeline: u64,
    /// `None` where the folder may not be written to.
    used_bytes: Option<UsedBytes>,
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
        let watch = &mut |_| ControlFlow::Continue(());
        DiskStore::open_watched(folder, dataset, recipe, limit, watch)
    }

    /// The same; `watch` is told how many samples were counted so far. Counting takes long where there
    /// are many, and so may waiting for another process that counts.
    pub fn open_watched(
        folder: &Path,
        dataset: &dyn Dataset,
        recipe: &str,
        limit: u64,
        watch: Watch<'_>,
    ) -> Result<DiskStore, SourceError> {
        fs::create_dir_all(folder).map_err(refuse("make", folder))?;
        let about = describe(dataset, recipe);
        check_recipe(folder, &about)?;
        let used_bytes = match UsedBytes::open(folder, watch) {
            Err(SourceError::Io { source, .. }) if cannot_be_written(&source) => None,
            opened => Some(opened?),
        };
        Ok(DiskStore {
            folder: folder.to_path_buf(),
            pipeline: XxHash3_64::oneshot(about.as_bytes()),
            refused: AtomicBool::new(used_bytes.is_none()),
            used_bytes,
            limit,
        })
    }

    fn path(&self, index: SampleIndex) -> PathBuf {
        subfolder(&self.folder, index.0 % FANOUT).join(format!("{:020}.sample", index.0))
    }

    fn write(&self, index: SampleIndex, sample: &[u8]) -> io::Result<()> {
        let path = self.path(index);
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let label = EntryLabel { pipeline: self.pipeline, index, length: sample.len() as u64 };
        let mut file = File::create_new(&temporary)?;
        let written = file.write_all(&label.with(sample)).and_then(|()| file.write_all(sample));
        drop(file);
        let written = written.and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Appends the sample to `out`; `None` if it is not there, damaged, or another one.
    fn read(&self, index: SampleIndex, out: &mut Vec<u8>) -> Option<()> {
        let (file, meta) = open_plain(&self.path(index)).ok()?;
        let mut header = [0; EntryLabel::BYTES];
        read_exact_at(&file, &mut header, 0).ok()?;
        // The length that the entry has and the one that it says must agree before anything is
        // allocated: a file that grew is not read.
        let length = meta.len().checked_sub(header.len() as u64)?;
        let label = EntryLabel { pipeline: self.pipeline, index, length };
        if header[8..] != label.bytes() {
            return None;
        }
        let start = out.len();
        append_at(&file, out, header.len() as u64, usize::try_from(length).ok()?).ok()?;
        (header == label.with(&out[start..])).then_some(())
    }
}

/// What an entry is.
struct EntryLabel {
    pipeline: u64,
    index: SampleIndex,
    length: u64,
}

impl EntryLabel {
    /// The checksum, and what it is.
    const BYTES: usize = 32;

    fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (place, number) in
            bytes.chunks_exact_mut(8).zip([self.pipeline, self.index.0, self.length])
        {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// What stands before the content: the checksum of the label and the content, and the label.
    fn with(&self, sample: &[u8]) -> [u8; EntryLabel::BYTES] {
        let label = self.bytes();
        let content = XxHash3_64::oneshot(sample);
        let checksum = XxHash3_64::oneshot_with_seed(content, &label);
        let mut header = [0; EntryLabel::BYTES];
        header[..8].copy_from_slice(&checksum.to_le_bytes());
        header[8..].copy_from_slice(&label);
        header
    }
}

impl Store for DiskStore {
    fn get(&self, index: SampleIndex, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let whole = self.read(index, out).is_some();
        if !whole {
            out.truncate(start);
        }
        whole
    }

    fn put(&self, index: SampleIndex, sample: &[u8]) {
        let Some(used_bytes) =
            self.used_bytes.as_ref().filter(|_| !self.refused.load(Ordering::Relaxed))
        else {
            return;
        };
        let bytes = (EntryLabel::BYTES + sample.len()) as u64;
        // A damaged entry, or one that another process has made meanwhile: it is replaced.
        let replaced = fs::symlink_metadata(self.path(index)).map_or(0, |file| file.len());
        let room = used_bytes.change(|used| {
            let after = used.saturating_add(bytes);
            (after.saturating_sub(replaced) <= self.limit).then_some(after)
        });
        let kept = room.and_then(|room| {
            if !room {
                return Ok(());
            }
            let written = self.write(index, sample);
            let off = if written.is_ok() { replaced } else { bytes };
            if off > 0 {
                used_bytes.change(|used| Some(used.saturating_sub(off)))?;
            }
            match written {
                Err(error) if concerns_one(&error) => Ok(()),
                written => written,
            }
        });
        // A full or read-only disk stays so, and so does a count that cannot be read: trying for each
        // sample would only cost time. A lock that is taken is given back.
        let refuses = kept.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
        self.refused.fetch_or(refuses, Ordering::Relaxed);
    }

    fn used(&self) -> u64 {
        let counted = || count_files(&self.folder, false, &mut |_| ControlFlow::Continue(()));
        let noted = self.used_bytes.as_ref().and_then(|used_bytes| used_bytes.read().ok());
        noted.unwrap_or_else(|| counted().unwrap_or(0))
    }
}

/// The count of bytes that all processes share, and the lock that says the folder is in use.
struct UsedBytes {
    used: PathBuf,
    _open: File,
}

impl UsedBytes {
    fn open(folder: &Path, watch: Watch<'_>) -> Result<UsedBytes, SourceError> {
        let path = folder.join("open");
        let open = open_writable(&path).map_err(refuse("open", &path))?;
        let alone = open.try_lock().is_ok();
        let used_bytes = UsedBytes { used: folder.join("used"), _open: open };
        if alone {
            let count = count_files(folder, true, watch)?;
            let used = &used_bytes.used;
            let count_is = |file: &File| write_count(file, count).and_then(|()| file.set_len(8));
            open_writable(used).and_then(|file| count_is(&file)).map_err(refuse("write", used))?;
        }
        // From exclusive to shared, so others may come now; or behind the one who counts.
        loop {
            match used_bytes._open.try_lock_shared() {
                Ok(()) => return Ok(used_bytes),
                Err(TryLockError::WouldBlock) if watch(0).is_break() => {
                    return Err(SourceError::Interrupted);
                }
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(refuse("lock", &path)(error)),
            }
        }
    }

    /// Gives the count another value, as a whole, whoever else wants to: `None` leaves it and is
    /// `false`.
    ///
    /// The file is opened each time, so that its lock is this call's alone: those of one open file
    /// are shared by threads and forked children. That takes some microseconds; writing a sample takes more.
    fn change(&self, value: impl FnOnce(u64) -> Option<u64>) -> io::Result<bool> {
        let (file, _) = plain(File::options().read(true).write(true), &self.used)?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE / 10),
                Err(TryLockError::Error(error)) => return Err(error),
                Ok(()) => {
                    // Closing the file gives the lock back.
                    let after = value(read_count(&file)?);
                    after.map(|after| write_count(&file, after)).transpose()?;
                    return Ok(after.is_some());
                }
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn read(&self) -> io::Result<u64> {
        read_count(&open_plain(&self.used)?.0)
    }
}

fn read_count(file: &File) -> io::Result<u64> {
    let mut count = [0; 8];
    read_exact_at(file, &mut count, 0)?;
    Ok(u64::from_le_bytes(count))
}

fn write_count(mut file: &File, count: u64) -> io::Result<()> {
    io::Seek::rewind(&mut file)?;
    file.write_all(&count.to_le_bytes())
}

/// Opens a file of ours for writing, or makes it.
fn open_writable(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    plain(options.read(true).write(true).create(true).truncate(false), path).map(|opened| opened.0)
}

fn refuse(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SourceError {
    let path = path.to_path_buf();
    move |source| SourceError::Io { doing, path, source }
}

/// Whether an entry cannot be written and others can: somebody made a folder of its name, or the
/// temporary name is taken by another machine's process with this one's number.
fn concerns_one(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory)
}

fn cannot_be_written(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull | QuotaExceeded)
}

fn describe(dataset: &dyn Dataset, recipe: &str) -> String {
    let fields: Vec<String> = dataset
        .fields()
        .iter()
        .map(|f| format!("{} {} {:?}", f.name(), f.dtype(), f.form()))
        .collect();
    format!(
        "feedline cache 2\nsamples: {}\nfields: {}\nmade by: {recipe}\n",
        dataset.len(),
        fields.join("; ")
    )
}

/// Leaves a note of what the samples are, or compares with the one that is there.
fn check_recipe(folder: &Path, about: &str) -> Result<(), SourceError> {
    let path = folder.join("about.txt");
    if fs::symlink_metadata(&path).is_err() {
        leave_note(folder, &path, about).map_err(refuse("write", &path))?;
    }
    let (file, meta) = open_plain(&path).map_err(refuse("read", &path))?;
    let longest = LONGEST_NOTE.max(about.len() as u64);
    if meta.len() > longest {
        let what = format!("it has {} bytes, and a cache's note has less; remove it", meta.len());
        return Err(refuse("read", &path)(io::Error::new(io::ErrorKind::InvalidData, what)));
    }
    let mut there = Vec::new();
    append_at(&file, &mut there, 0, meta.len() as usize).map_err(refuse("read", &path))?;
    if there == about.as_bytes() {
        return Ok(());
    }
    Err(SourceError::OtherCache {
        folder: folder.to_path_buf(),
        there: String::from_utf8_lossy(&there).into_owned(),
        wanted: about.to_string(),
    })
}

/// Writes the note. If another process was first, its note stays.
fn leave_note(folder: &Path, path: &Path, about: &str) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("about.").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Less the umask, as for any new file; the default would be readable by the owner only.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(about.as_bytes())?;
    match file.persist_noclobber(path) {
        Err(failed) if failed.error.kind() != io::ErrorKind::AlreadyExists => Err(failed.error),
        _ => Ok(()),
    }
}

/// One of the folders in the folder.
fn subfolder(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:02x}"))
}

/// Bytes of all samples in the folder. `tidy` removes what processes that died have left, which only
/// one that is alone may do. What is not ours is left alone.
fn count_files(folder: &Path, tidy: bool, watch: Watch<'_>) -> Result<u64, SourceError> {
    let (mut bytes, mut files) = (0_u64, 0_u64);
    for number in 0..FANOUT {
        for file in fs::read_dir(subfolder(folder, number)).into_iter().flatten().flatten() {
            files += 1;
            if files.is_multiple_of(1024) && watch(files).is_break() {
                return Err(SourceError::Interrupted);
            }
            let name = file.file_name();
            let (index, rest) = name.as_encoded_bytes().split_at_checked(20).unwrap_or_default();
            if !index.iter().all(u8::is_ascii_digit) {
                continue;
            }
            if rest == b".sample" {
                bytes = bytes.saturating_add(file.metadata().map_or(0, |meta| meta.len()));
            } else if tidy && rest.starts_with(b".") && rest.ends_with(b".tmp") {
                let _ = fs::remove_file(file.path());
            }
        }
    }
    Ok(bytes)
}
