//! What was read, kept in a folder that all processes of a host share.
//!
//! ```text
//! folder/
//!   used            8 bytes: bytes kept so far; locked for a moment by whoever changes it
//!   evict           empty; locked by the one who removes what was not used for longest
//!   3f/3f8a….part   what was read: magic, second name, length, checksum of these; content; a checksum for
//!                   each 16 KiB of it
//!   3f/3f8a….tmp    one that is being written; locked by whoever writes it
//! ```
//!
//! An entry is one object, or one range of one, in one version: URL, version and range are its name, so a
//! new version of an object is another entry and the old one is never served for it. It is written to a file of its own
//! and renamed, so a reader sees all of it or nothing, whoever writes and whoever dies; two who write the same
//! one write the same bytes. Whatever is read is checked: an entry that is damaged or cut off there counts as
//! absent and is fetched again. Of a whole object any range is read without the rest.
//!
//! Bytes are booked in `used` before they are written, so all processes together keep to the limit. Where
//! there is no room, one of them counts all files and removes those that were not used for longest, down to nine
//! tenths; the others keep nothing meanwhile. What a process that died had booked, or left half written, is put
//! right by that count.
//!
//! A disk that is full, or may not be written to, ends the keeping, not the reading.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use crate::error::{Kind, StoreError};

/// Magic, second name, length, checksum.
const HEADER: usize = 32;
const MAGIC: &[u8; 8] = b"FLSTORE2";
/// So many bytes have a checksum of their own: a range costs no more than that on either side.
const CHUNK: usize = 16 << 10;
/// An entry's time of use is written anew when it is older.
const FRESH: Duration = Duration::from_secs(60);
/// A file that is half written, locked by nobody and so old was left by a process that died. (For a moment
/// after it was made, one is not locked yet.)
const LEFT: Duration = Duration::from_secs(60);
/// One that becomes so large is given its length at once, so that whoever counts meanwhile counts all of it.
const LARGE: u64 = 1 << 20;

/// How often the lock of the count is tried, with a pause before each. It is held for microseconds; only by a process
/// that was stopped right then for longer.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

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
        self.append(name, None, out)
    }

    /// The same for some bytes of an entry.
    pub(crate) fn get_part(&self, name: EntryName, range: (u64, u64), out: &mut Vec<u8>) -> bool {
        self.append(name, Some(range), out)
    }

    fn append(&self, name: EntryName, range: Option<(u64, u64)>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let whole = self.read(name, range, out).is_some();
        if !whole {
            out.truncate(start);
        }
        whole
    }

    fn read(&self, name: EntryName, range: Option<(u64, u64)>, out: &mut Vec<u8>) -> Option<()> {
        let mut file = File::open(self.path(name)).ok()?;
        let meta = file.metadata().ok()?;
        let mut header = [0; HEADER];
        file.read_exact(&mut header).ok()?;
        let length = length_of(&header, name).filter(|length| meta.len() == whole_of(*length))?;
        let (first, last) = range.unwrap_or((0, length));
        if first > last || last > length {
            return None;
        }
        // From chunk to chunk; then what was not asked for goes.
        let chunk = first / CHUNK as u64;
        let from = chunk * CHUNK as u64;
        let to = last.next_multiple_of(CHUNK as u64).min(length);
        let (begin, bytes) = (out.len(), usize::try_from(to - from).ok()?);
        let mut sums = vec![0; 8 * bytes.div_ceil(CHUNK)];
        out.try_reserve(bytes + sums.len()).ok()?;
        if from > 0 {
            file.seek(SeekFrom::Start(HEADER as u64 + from)).ok()?;
        }
        (&file).take(bytes as u64).read_to_end(out).ok()?;
        if to < length || from > 0 {
            file.seek(SeekFrom::Start(HEADER as u64 + length + 8 * chunk)).ok()?;
        }
        file.read_exact(&mut sums).ok()?;
        let content = out.get(begin..begin + bytes)?;
        let fits = |(n, (content, sum)): (usize, (&[u8], &[u8]))| {
            sum == sum_of(name, chunk + n as u64, content)
        };
        if !content.chunks(CHUNK).zip(sums.chunks(8)).enumerate().all(fits) {
            return None;
        }
        out.truncate(begin + (last - from) as usize);
        out.drain(begin..begin + (first - from) as usize);
        // For whoever removes what was not used for longest.
        let unused = meta.modified().ok().and_then(|used| used.elapsed().ok());
        if unused.is_some_and(|unused| unused > FRESH) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(())
    }

    /// Keeps what was read, if there is room or some can be made.
    pub(crate) fn put(&self, name: EntryName, content: &[u8]) {
        if let Some(mut keeping) = self.begin(name, content.len() as u64) {
            keeping.add(content);
            keeping.finish();
        }
    }

    /// Begins to keep what will have `length` bytes; `None` if there is no room, or the disk refuses.
    pub(crate) fn begin(&self, name: EntryName, length: u64) -> Option<Keeping<'_>> {
        let bytes = whole_of(length);
        if bytes > self.limit || self.refused.get().is_some() {
            return None;
        }
        let begun = self.book(bytes).and_then(|is_room| match is_room {
            false => Ok(None),
            true => self.create(name, length).map(Some).inspect_err(|_| self.unbook(bytes)),
        });
        begun.unwrap_or_else(|error| {
            self.refuse(&error);
            None
        })
    }

    fn create(&self, name: EntryName, length: u64) -> io::Result<Keeping<'_>> {
        let path = self.path(name);
        // In two containers a process may have the same number, and a fork has the same keys to hash with.
        let number = RandomState::new().build_hasher().finish();
        let temporary = path.with_extension(format!("{}-{number:016x}.tmp", std::process::id()));
        let mut made = File::create_new(&temporary);
        if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            made = File::create_new(&temporary);
        }
        let (file, state) = (made?, Ok(()));
        let mut keeping = Keeping {
            cache: self,
            name,
            file,
            temporary,
            length,
            added: 0,
            partial: Vec::new(),
            sums: Vec::new(),
            state,
            is_entry: false,
        };
        // As long as it is open, whoever else looks knows that somebody writes it.
        let locked = keeping.file.try_lock();
        keeping.state = match locked {
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        };
        if length >= LARGE {
            keeping.attempt(|it| it.file.set_len(whole_of(it.length)));
        }
        keeping.attempt(|it| it.file.write_all(&header_of(it.name, it.length)));
        Ok(keeping)
    }

    /// A full or read-only disk stays so: trying for each object would only cost time.
    fn refuse(&self, error: &io::Error) {
        // Not so a lock that somebody holds, a folder that somebody removes meanwhile, or a name that is taken.
        use io::ErrorKind::{AlreadyExists, NotFound, WouldBlock};
        if !matches!(error.kind(), WouldBlock | NotFound | AlreadyExists) {
            self.refused.get_or_init(|| format!("`{}`: {error}", self.folder.display()));
        }
    }

    fn unbook(&self, bytes: u64) {
        let _ = self.change(|used| Some(used.saturating_sub(bytes)));
    }

    /// Why nothing more is kept; `None` if all is well.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    /// Books bytes; removes others if there is no room.
    fn book(&self, bytes: u64) -> io::Result<bool> {
        let fits = |used: u64| used.checked_add(bytes).filter(|after| *after <= self.limit);
        if self.change(fits)? {
            return Ok(true);
        }
        Ok(self.evict(bytes)? && self.change(fits)?)
    }

    /// Gives the count another value, as a whole, whoever else wants to: `None` leaves it and is `false`.
    fn change(&self, value: impl FnOnce(u64) -> Option<u64>) -> io::Result<bool> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        // Opened each time, so that its lock is this call's alone, whatever threads and forks there are.
        let open = || options.open(self.folder.join("used"));
        let file = open().or_else(|error| match error.kind() {
            // Somebody has removed the folder.
            io::ErrorKind::NotFound => fs::create_dir_all(&self.folder).and_then(|()| open()),
            _ => Err(error),
        })?;
        let mut tries = 0;
        while let Err(error) = file.try_lock() {
            tries += 1;
            match error {
                TryLockError::WouldBlock if tries < TRIES => thread::sleep(PAUSE),
                TryLockError::WouldBlock => return Err(io::ErrorKind::WouldBlock.into()),
                TryLockError::Error(error) => return Err(error),
            }
        }
        let mut file = Locked(file);
        let mut count = [0; 8];
        // One that is new, or was cut off, begins at 0; the next count of all files puts it right.
        let used = match file.0.read_exact(&mut count) {
            Ok(()) => u64::from_le_bytes(count),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        let after = value(used);
        if let Some(after) = after {
            file.0.rewind()?;
            file.0.write_all(&after.to_le_bytes())?;
        }
        Ok(after.is_some())
    }

    /// Counts all files, and removes those that were not used for longest until there is `room`. `false` if another is
    /// at it.
    fn evict(&self, room: u64) -> io::Result<bool> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let lock = options.open(self.folder.join("evict"))?;
        if lock.try_lock().is_err() {
            return Ok(false);
        }
        let _lock = Locked(lock);
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
                    Some("tmp") if used.elapsed().is_ok_and(|age| age > LEFT) && is_free(&path) => {
                        let _ = fs::remove_file(path);
                    }
                    Some("tmp") => bytes = bytes.saturating_add(meta.len()),
                    _ => {}
                }
            }
        }
        files.sort_unstable();
        let aim = self.limit.saturating_sub(room.max(self.limit / 10));
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

/// A file whose lock is given back, not only closed: a process that was forked meanwhile has it open as well, and
/// would hold the lock for as long as it lives.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// An entry that is being written. Until it is finished there is none; if it never is, what was written goes.
#[derive(Debug)]
pub(crate) struct Keeping<'a> {
    cache: &'a DiskCache,
    name: EntryName,
    file: File,
    temporary: PathBuf,
    length: u64,
    added: u64,
    /// What came since the last full chunk.
    partial: Vec<u8>,
    sums: Vec<u8>,
    /// The first thing that went wrong; from then on nothing is written.
    state: io::Result<()>,
    is_entry: bool,
}

impl Keeping<'_> {
    /// Adds what comes next.
    pub(crate) fn add(&mut self, mut content: &[u8]) {
        self.attempt(|it| it.file.write_all(content));
        self.added += content.len() as u64;
        while !content.is_empty() {
            if self.partial.is_empty() && content.len() >= CHUNK {
                let (chunk, rest) = content.split_at(CHUNK);
                self.sum(chunk);
                content = rest;
                continue;
            }
            let (more, rest) = content.split_at(content.len().min(CHUNK - self.partial.len()));
            self.partial.extend_from_slice(more);
            content = rest;
            if self.partial.len() == CHUNK {
                self.sum_partial();
            }
        }
    }

    /// Makes it an entry, if all of it came.
    pub(crate) fn finish(mut self) -> bool {
        if !self.partial.is_empty() {
            self.sum_partial();
        }
        if self.added == self.length {
            self.attempt(|it| it.file.write_all(&it.sums));
            self.attempt(|it| fs::rename(&it.temporary, it.cache.path(it.name)));
            self.is_entry = self.state.is_ok();
        }
        self.is_entry
    }

    fn sum(&mut self, chunk: &[u8]) {
        let number = self.sums.len() as u64 / 8;
        self.sums.extend(sum_of(self.name, number, chunk));
    }

    fn sum_partial(&mut self) {
        let mut chunk = std::mem::take(&mut self.partial);
        self.sum(&chunk);
        chunk.clear();
        self.partial = chunk;
    }

    fn attempt(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.state.is_ok() {
            self.state = work(self);
        }
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        if self.is_entry {
            return;
        }
        let _ = fs::remove_file(&self.temporary);
        self.cache.unbook(whole_of(self.length));
        if let Err(error) = &self.state {
            self.cache.refuse(error);
        }
    }
}

/// Whether nobody has locked a file.
fn is_free(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Bytes of the checksums of so much content.
fn sums_of(length: u64) -> usize {
    8 * length.div_ceil(CHUNK as u64) as usize
}

/// Bytes of an entry with so much content.
fn whole_of(length: u64) -> u64 {
    length.saturating_add((HEADER + sums_of(length)) as u64)
}

fn sum_of(name: EntryName, chunk: u64, content: &[u8]) -> [u8; 8] {
    XxHash3_64::oneshot_with_seed(name.1.wrapping_add(chunk), content).to_le_bytes()
}

fn header_of(name: EntryName, length: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&name.1.to_le_bytes());
    header[16..24].copy_from_slice(&length.to_le_bytes());
    let sum = XxHash3_64::oneshot(&header[..24]);
    header[24..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// The length that an entry of this name says it has.
fn length_of(header: &[u8; HEADER], name: EntryName) -> Option<u64> {
    let length = u64::from_le_bytes(header[16..24].try_into().ok()?);
    (*header == header_of(name, length)).then_some(length)
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
    fn any_part_of_an_entry_is_read_and_none_that_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 1 << 20).unwrap();
        let content: Vec<u8> = (0..3 * CHUNK + 77).map(|i| ((i * 31) >> 3) as u8).collect();
        let mut keeping = cache.begin(name(1), content.len() as u64).unwrap();
        content.chunks(5000).for_each(|piece| keeping.add(piece));
        assert!(!cache.has(name(1)), "it is not finished");
        assert!(keeping.finish());
        let length = content.len() as u64;
        let edge = CHUNK as u64;
        for (start, end) in [
            (0, length),
            (0, 0),
            (1, 2),
            (edge - 1, edge + 1),
            (edge, 2 * edge),
            (3 * edge, length),
            (length, length),
        ] {
            let mut out = b"before".to_vec();
            assert!(cache.get_part(name(1), (start, end), &mut out), "{start}..{end}");
            assert!(out[6..] == content[start as usize..end as usize], "{start}..{end}");
        }
        let mut out = Vec::new();
        assert!(!cache.get_part(name(1), (length, length + 1), &mut out) && out.is_empty());
        let path = cache.path(name(1));
        let mut damaged = fs::read(&path).unwrap();
        damaged[HEADER + CHUNK + 5] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert!(!cache.get_part(name(1), (edge + 9000, edge + 9001), &mut out) && out.is_empty());
        assert!(cache.get_part(name(1), (0, edge), &mut out), "another chunk");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 1 << 30).unwrap();
        let mut keeping = cache.begin(name(1), 2 << 20).unwrap();
        keeping.add(&[1; 1 << 20]);
        assert!(!keeping.finish(), "half of it is missing");
        drop(cache.begin(name(2), 100).unwrap());
        assert!(!cache.has(name(1)) && !cache.has(name(2)));
        assert_eq!((cache.refused(), bytes_on_disk(dir.path())), (None, 0));
        let used = fs::read(dir.path().join("used")).unwrap();
        assert_eq!(used, 0_u64.to_le_bytes(), "nothing is booked");
    }

    #[test]
    fn what_a_process_that_died_left_is_removed_and_what_somebody_writes_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 10_000).unwrap();
        let mut keeping = cache.begin(name(1), 3000).unwrap();
        let long_ago = SystemTime::now() - 2 * LEFT;
        keeping.file.set_modified(long_ago).unwrap();
        let folder = keeping.temporary.parent().unwrap().to_path_buf();
        let left = folder.join("left.tmp");
        fs::write(&left, [0; 3000]).unwrap();
        File::options().write(true).open(&left).unwrap().set_modified(long_ago).unwrap();
        // More than fits, so that somebody counts.
        for number in 2..6 {
            cache.put(name(number), &[0; 3000]);
        }
        assert!(!left.exists());
        keeping.add(&[5; 3000]);
        assert!(keeping.finish() && cache.get(name(1), &mut Vec::new()));
    }

    #[test]
    fn a_folder_that_was_removed_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(&dir.path().join("kept"), 10_000).unwrap();
        cache.put(name(1), b"hello");
        fs::remove_dir_all(dir.path().join("kept")).unwrap();
        assert!(!cache.get(name(1), &mut Vec::new()));
        cache.put(name(1), b"hello");
        assert!(cache.get(name(1), &mut Vec::new()));
        assert_eq!(cache.refused(), None);
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
        let limit = 10 * 140;
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
        assert!(bytes_on_disk(dir.path()) <= 1000 + 140, "{}", bytes_on_disk(dir.path()));
    }

    #[test]
    fn one_that_takes_most_of_the_limit_has_room_made_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 10 * 140).unwrap();
        for number in 0..10 {
            cache.put(name(number), &[0; 100]);
        }
        cache.put(name(10), &[0; 1000]);
        assert!(cache.has(name(10)) && bytes_on_disk(dir.path()) <= 10 * 140);
    }

    #[test]
    fn a_lock_is_free_again_though_a_fork_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 1000).unwrap();
        let open = || File::options().read(true).write(true).open(dir.path().join("used"));
        cache.put(name(1), b"hello");
        let file = open().unwrap();
        file.try_lock().unwrap();
        // As a fork has it: the same open file by another number.
        let forked = file.try_clone().unwrap();
        drop(Locked(file));
        assert!(open().unwrap().try_lock().is_ok());
        drop(forked);
    }

    #[test]
    fn writers_of_many_threads_keep_to_the_limit_together() {
        let dir = tempfile::tempdir().unwrap();
        let limit = 50 * 140;
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
        // But for what the three others had booked and not yet begun to write when one of them counted.
        assert!(bytes_on_disk(dir.path()) <= limit + 3 * 140);
    }
}
