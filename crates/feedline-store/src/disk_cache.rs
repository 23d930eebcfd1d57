//! What was read, kept in a folder that all processes of a host share.
//!
//! ```text
//! folder/
//!   used            8 bytes: bytes kept so far; locked for a moment by whoever changes it
//!   evict           empty; locked by the one who removes what was not used for longest
//!   3f/3f8a….part   what one request gave: checksum, what it is, content
//! ```
//!
//! An entry is one object, or one range of one, in one version: URL, version and range are its name, so a
//! new version of an object is another entry and the old one is never served for it. It is written to a file of its own
//! and renamed, so a reader sees all of it or nothing, whoever writes and whoever dies; two who write the same
//! one write the same bytes. The checksum is of all of it: an entry that is damaged or cut off counts as
//! absent and is fetched again.
//!
//! Bytes are booked in `used` before they are written, so all processes together keep to the limit. Where
//! there is no room, one of them counts all files and removes those that were not used for longest, down to nine
//! tenths; the others keep nothing meanwhile. What a process that died had booked, or left half written, is put
//! right by that count.
//!
//! A disk that is full, or may not be written to, ends the keeping, not the reading.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use crate::error::{Kind, StoreError};

/// Magic, checksum, second name, length.
const HEADER: usize = 32;
const MAGIC: &[u8; 8] = b"FLSTORE1";
/// An entry's time of use is written anew when it is older.
const FRESH: Duration = Duration::from_secs(60);
/// A file that is half written and so old was left by a process that died.
const LEFT: Duration = Duration::from_secs(3600);

/// How often the lock of the count is tried, with a pause before each. It is held for microseconds; only by a process
/// that was stopped right then for longer.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// Numbers temporary files.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// What an entry is called: two hashes of URL, version and range.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryName(u64, u64);

impl EntryName {
    pub(crate) fn of(root: &str, key: &str, version: u64, range: Option<(u64, u64)>) -> EntryName {
        let (start, end) = range.unwrap_or((u64::MAX, u64::MAX));
        let whole = format!("{root}/{key}\n{version:x} {start:x} {end:x}");
        EntryName(
            XxHash3_64::oneshot(whole.as_bytes()),
            XxHash3_64::oneshot_with_seed(0x5eed, whole.as_bytes()),
        )
    }
}

/// A folder of entries, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct DiskCache {
    folder: PathBuf,
    limit: u64,
    /// Why, when the disk refuses: reading goes on, writing does not.
    refused: OnceLock<String>,
}

impl DiskCache {
    pub(crate) fn open(folder: &Path, limit: u64) -> Result<DiskCache, StoreError> {
        let refused = |error: io::Error| {
            let (url, what) = (folder.display().to_string(), error.to_string());
            let advice = "name a folder for cache_dir that may be written to";
            StoreError::new(Kind::Option, "keep objects in", url, what, advice)
        };
        fs::create_dir_all(folder).map_err(refused)?;
        Ok(DiskCache { folder: folder.to_path_buf(), limit, refused: OnceLock::new() })
    }

    fn path(&self, name: EntryName) -> PathBuf {
        self.folder.join(format!("{:02x}/{:016x}.part", name.0 >> 56, name.0))
    }

    /// Whether there seems to be such an entry.
    pub(crate) fn has(&self, name: EntryName) -> bool {
        self.path(name).is_file()
    }

    /// Appends the content of an entry to `out`; says `false`, and appends nothing, if it is not there whole.
    pub(crate) fn get(&self, name: EntryName, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let whole = self.read(name, out).is_some();
        if !whole {
            out.truncate(start);
        }
        whole
    }

    fn read(&self, name: EntryName, out: &mut Vec<u8>) -> Option<()> {
        let mut file = File::open(self.path(name)).ok()?;
        let meta = file.metadata().ok()?;
        let length = meta.len().checked_sub(HEADER as u64)?;
        let mut header = [0; HEADER];
        file.read_exact(&mut header).ok()?;
        if header[..8] != *MAGIC || header[16..] != label(name, length) {
            return None;
        }
        let start = out.len();
        let length = usize::try_from(length).ok()?;
        out.try_reserve(length).ok()?;
        (&file).take(length as u64).read_to_end(out).ok()?;
        if out.len() - start != length || header != header_of(name, &out[start..]) {
            return None;
        }
        // For whoever removes what was not used for longest.
        let unused = meta.modified().ok().and_then(|used| used.elapsed().ok());
        if unused.is_some_and(|unused| unused > FRESH) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(())
    }

    /// Keeps what was read, if there is room or some can be made.
    pub(crate) fn put(&self, name: EntryName, content: &[u8]) {
        let bytes = (HEADER + content.len()) as u64;
        if bytes > self.limit || self.refused.get().is_some() {
            return;
        }
        let kept = self.book(bytes).and_then(|is_room| match is_room {
            false => Ok(()),
            true => self.write(name, content).inspect_err(|_| {
                let _ = self.change(|used| Some(used.saturating_sub(bytes)));
            }),
        });
        // A full or read-only disk stays so: trying for each object would only cost time.
        if let Err(error) = kept
            && error.kind() != io::ErrorKind::WouldBlock
        {
            self.refused.get_or_init(|| format!("`{}`: {error}", self.folder.display()));
        }
    }

    /// Why nothing more is kept; `None` if all is well.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    fn write(&self, name: EntryName, content: &[u8]) -> io::Result<()> {
        let path = self.path(name);
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
        let mut made = File::create_new(&temporary);
        if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            made = File::create_new(&temporary);
        }
        let mut file = made?;
        let written = file.write_all(&header_of(name, content));
        let written = written.and_then(|()| file.write_all(content));
        drop(file);
        let written = written.and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Books bytes; removes others if there is no room.
    fn book(&self, bytes: u64) -> io::Result<bool> {
        let fits = |used: u64| used.checked_add(bytes).filter(|after| *after <= self.limit);
        if self.change(fits)? {
            return Ok(true);
        }
        Ok(self.evict()? && self.change(fits)?)
    }

    /// Gives the count another value, as a whole, whoever else wants to: `None` leaves it and is `false`.
    fn change(&self, value: impl FnOnce(u64) -> Option<u64>) -> io::Result<bool> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        // Opened each time, so that its lock is this call's alone, whatever threads and forks there are.
        let mut file = options.open(self.folder.join("used"))?;
        let mut tries = 0;
        while let Err(error) = file.try_lock() {
            tries += 1;
            match error {
                TryLockError::WouldBlock if tries < TRIES => thread::sleep(PAUSE),
                TryLockError::WouldBlock => return Err(io::ErrorKind::WouldBlock.into()),
                TryLockError::Error(error) => return Err(error),
            }
        }
        let mut count = [0; 8];
        // One that is new, or was cut off, begins at 0; the next count of all files puts it right.
        let used = match file.read_exact(&mut count) {
            Ok(()) => u64::from_le_bytes(count),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        let after = value(used);
        if let Some(after) = after {
            io::Seek::rewind(&mut file)?;
            file.write_all(&after.to_le_bytes())?;
        }
        Ok(after.is_some())
    }

    /// Counts all files, and removes those that were not used for longest. `false` if another is at it.
    fn evict(&self) -> io::Result<bool> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let lock = options.open(self.folder.join("evict"))?;
        if lock.try_lock().is_err() {
            return Ok(false);
        }
        let mut before = 0;
        self.change(|used| {
            before = used;
            None
        })?;
        let (mut files, mut bytes) = (Vec::new(), 0_u64);
        for number in 0..256 {
            let folder = self.folder.join(format!("{number:02x}"));
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(meta) = entry.metadata() else { continue };
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let path = entry.path();
                match path.extension().and_then(|ending| ending.to_str()) {
                    Some("part") => {
                        bytes = bytes.saturating_add(meta.len());
                        files.push((used, meta.len(), path));
                    }
                    Some("tmp") if used.elapsed().is_ok_and(|age| age > LEFT) => {
                        let _ = fs::remove_file(path);
                    }
                    _ => {}
                }
            }
        }
        files.sort_unstable();
        let aim = self.limit - self.limit / 10;
        for (_, length, path) in files {
            if bytes <= aim {
                break;
            }
            if fs::remove_file(path).is_ok() {
                bytes -= length;
            }
        }
        // What others have booked since counting began may be counted twice; the next count puts it right.
        self.change(|used| Some(bytes.saturating_add(used.saturating_sub(before))))?;
        Ok(true)
    }
}

/// What an entry says of itself.
fn label(name: EntryName, length: u64) -> [u8; 16] {
    let mut label = [0; 16];
    label[..8].copy_from_slice(&name.1.to_le_bytes());
    label[8..].copy_from_slice(&length.to_le_bytes());
    label
}

fn header_of(name: EntryName, content: &[u8]) -> [u8; HEADER] {
    let label = label(name, content.len() as u64);
    let checksum = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(content), &label);
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&checksum.to_le_bytes());
    header[16..].copy_from_slice(&label);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> EntryName {
        EntryName::of("s3://b", &format!("k{number}"), 7, None)
    }

    fn bytes_on_disk(folder: &Path) -> u64 {
        let parts = (0..256).flat_map(|n| fs::read_dir(folder.join(format!("{n:02x}"))));
        parts.flatten().flatten().map(|entry| entry.metadata().unwrap().len()).sum()
    }

    #[test]
    fn what_is_kept_is_what_was_read_of_that_version_and_range() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 1 << 20).unwrap();
        cache.put(name(1), b"hello");
        let mut out = b"before ".to_vec();
        assert!(cache.has(name(1)) && cache.get(name(1), &mut out));
        assert_eq!(out, b"before hello");
        for other in [
            EntryName::of("s3://b", "k1", 8, None),
            EntryName::of("s3://b", "k1", 7, Some((0, 5))),
            EntryName::of("s3://c", "k1", 7, None),
        ] {
            assert!(!cache.has(other) && !cache.get(other, &mut out), "{other:?}");
        }
    }

    #[test]
    fn no_damaged_or_shortened_entry_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 1 << 20).unwrap();
        cache.put(name(1), b"hello");
        let path = cache.path(name(1));
        let whole = fs::read(&path).unwrap();
        let mut out = Vec::new();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            assert!(!cache.get(name(1), &mut out) && out.is_empty(), "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(!cache.get(name(1), &mut out) && out.is_empty(), "cut at {at}");
        }
        cache.put(name(1), b"hello");
        assert!(cache.get(name(1), &mut out));
    }

    #[test]
    fn a_folder_that_refuses_is_told_of_and_what_it_has_is_still_read() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 1 << 20).unwrap();
        cache.put(name(1), b"hello");
        assert_eq!(cache.refused(), None);
        // A folder in the place of the count: as a disk does that lets nobody write, root or not.
        fs::remove_file(dir.path().join("used")).unwrap();
        fs::create_dir(dir.path().join("used")).unwrap();
        cache.put(name(2), b"there");
        let told = cache.refused().unwrap();
        assert!(told.contains(&dir.path().display().to_string()), "{told}");
        let mut out = Vec::new();
        assert!(cache.get(name(1), &mut out) && !cache.has(name(2)));
    }

    #[test]
    fn the_limit_holds_and_what_was_not_used_for_longest_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let limit = 10 * 132;
        let cache = DiskCache::open(dir.path(), limit).unwrap();
        let ago = |seconds| SystemTime::now() - Duration::from_secs(seconds);
        for number in 0..10 {
            cache.put(name(number), &[0; 100]);
            let file = File::options().write(true).open(cache.path(name(number))).unwrap();
            file.set_modified(ago(1000 - 10 * number)).unwrap();
        }
        // Using one makes it the last to go.
        assert!(cache.get(name(0), &mut Vec::new()));
        for number in 10..13 {
            cache.put(name(number), &[0; 100]);
            assert!(cache.has(name(number)) && bytes_on_disk(dir.path()) <= limit, "{number}");
        }
        assert!(cache.has(name(0)) && !cache.has(name(1)) && cache.has(name(9)));
        cache.put(name(99), &[0; 2000]);
        assert!(!cache.has(name(99)), "larger than the whole");
    }

    #[test]
    fn a_count_that_is_wrong_or_lost_is_put_right_when_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 1000).unwrap();
        fs::write(dir.path().join("used"), u64::MAX.to_le_bytes()).unwrap();
        cache.put(name(1), &[0; 100]);
        assert!(cache.has(name(1)), "a process that died had booked all");
        fs::write(dir.path().join("used"), b"cut").unwrap();
        for number in 2..30 {
            cache.put(name(number), &[0; 100]);
        }
        assert!(bytes_on_disk(dir.path()) <= 1000 + 132, "{}", bytes_on_disk(dir.path()));
    }

    #[test]
    fn writers_of_many_threads_keep_to_the_limit_together() {
        let dir = tempfile::tempdir().unwrap();
        let limit = 50 * 132;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = DiskCache::open(dir.path(), limit).unwrap();
                scope.spawn(move || {
                    for number in 0..100 {
                        cache.put(name(1000 * thread + number), &[thread as u8; 100]);
                        let mut out = Vec::new();
                        let found = cache.get(name(1000 * ((thread + 1) % 4) + number), &mut out);
                        assert!(!found || out == [((thread + 1) % 4) as u8; 100]);
                    }
                });
            }
        });
        assert!(bytes_on_disk(dir.path()) <= limit);
    }
}
