//! A shard's table kept on disk, so that the shard is gone through once and not at every start.
//!
//! ```text
//! magic "FLTARIX2"   bytes of all that follows the checksum, and their checksum (xxh3)
//! what it is about   path, length, time of change, inode; when the table was made
//! the table          extensions, keys, samples, members; numbers as 8 bytes, little-endian
//! ```
//!
//! A table counts only for the very file it was made of. It is written aside and renamed, so a reader
//! sees a whole one or none, and two processes that make the same one do not disturb each other. What
//! is read is checked: the length (before anything is allocated), the checksum, every count against what is there, every offset against the
//! archive's length. Anything amiss makes the table again. Where the folder cannot be written to, the
//! table is made at every start.
//!
//! A file that was written within the same moment as its table may change again without a new time;
//! such a table is not trusted (the "racy" files of git).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use super::table::{MemberPlace, SampleEntry, ShardTable};
use crate::read_at::{append_at, open_plain, read_exact_at};
use crate::stamp::{Stamp, since_1970};

const MAGIC: &[u8; 8] = b"FLTARIX2";
/// Magic, length and checksum.
const HEADER: usize = 24;
/// File systems tell times no coarser than that.
const MOMENT: Duration = Duration::from_secs(2);

/// The folder of tables that nothing else was said of: `feedline/tar` in the user's cache folder.
pub(super) fn default_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("feedline/tar"))
}

/// Where the table of a shard is kept.
pub(super) struct IndexFile {
    folder: PathBuf,
    shard: Vec<u8>,
}

impl IndexFile {
    pub(super) fn of(folder: &Path, shard: &Path) -> IndexFile {
        let whole = fs::canonicalize(shard).unwrap_or_else(|_| shard.to_path_buf());
        IndexFile {
            folder: folder.to_path_buf(),
            shard: whole.into_os_string().into_encoded_bytes(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{:016x}.index", XxHash3_64::oneshot(&self.shard)))
    }

    /// The table, if there is one and it is about the file in this state.
    pub(super) fn read(&self, stamp: &Stamp) -> Option<ShardTable> {
        let (file, meta) = open_plain(&self.path()).ok()?;
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
        let mut from = Reader(&bytes);
        let about = from.bytes()? == self.shard
            && from.number()? == stamp.len
            && from.number()? == stamp.changed.as_secs()
            && from.number()? == u64::from(stamp.changed.subsec_nanos())
            && from.number()? == stamp.inode;
        let made = Duration::from_secs(from.number()?);
        if !about || made < stamp.changed.saturating_add(MOMENT) {
            return None;
        }
        from.table().filter(|_| from.0.is_empty())
    }

    /// Keeps the table, if the folder lets it. `made` is when its making began.
    pub(super) fn write(&self, stamp: &Stamp, table: &ShardTable, made: SystemTime) {
        let mut to = Vec::new();
        put_bytes(&mut to, &self.shard);
        let changed = stamp.changed;
        let made = since_1970(made).as_secs();
        for number in
            [stamp.len, changed.as_secs(), u64::from(changed.subsec_nanos()), stamp.inode, made]
        {
            put(&mut to, number);
        }
        put_table(&mut to, table);
        // Failing to keep it costs time at the next start and nothing else.
        let _ = self.replace(&to);
    }

    fn replace(&self, content: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&(content.len() as u64).to_le_bytes())?;
        file.write_all(&XxHash3_64::oneshot(content).to_le_bytes())?;
        file.write_all(content)?;
        file.persist(self.path())?;
        Ok(())
    }
}

fn put(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

fn put_table(to: &mut Vec<u8>, table: &ShardTable) {
    put(to, table.archive_bytes);
    put(to, table.extensions.len() as u64);
    table.extensions.iter().for_each(|extension| put_bytes(to, extension.as_bytes()));
    put_bytes(to, &table.keys);
    put(to, table.samples.len() as u64);
    for sample in &table.samples {
        put(to, sample.key_end);
        put(to, sample.members_end);
    }
    put(to, table.members.len() as u64);
    for member in &table.members {
        put(to, u64::from(member.extension));
        put(to, member.offset);
        put(to, member.size);
    }
}

/// Takes a table apart; `None` as soon as something does not fit.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    /// A count of things of which each takes `bytes`: no more than there can be.
    fn count(&mut self, bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len() / bytes).then_some(count)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.count(1)?;
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn table(&mut self) -> Option<ShardTable> {
        let archive_bytes = self.number()?;
        let mut table = ShardTable { archive_bytes, ..ShardTable::default() };
        for _ in 0..self.count(8)? {
            table.extensions.push(std::str::from_utf8(self.bytes()?).ok()?.to_string());
        }
        table.keys = self.bytes()?.to_vec();
        for _ in 0..self.count(16)? {
            let (key_end, members_end) = (self.number()?, self.number()?);
            table.samples.push(SampleEntry { key_end, members_end });
        }
        for _ in 0..self.count(24)? {
            let extension = u32::try_from(self.number()?).ok()?;
            let (offset, size) = (self.number()?, self.number()?);
            let within = offset.checked_add(size)? <= archive_bytes;
            if !within || extension as usize >= table.extensions.len() {
                return None;
            }
            table.members.push(MemberPlace { extension, offset, size });
        }
        let ends = |end: fn(&SampleEntry) -> u64, last: usize| {
            table.samples.is_sorted_by_key(end)
                && table.samples.last().map_or(0, end) == last as u64
        };
        let fits =
            ends(|s| s.key_end, table.keys.len()) && ends(|s| s.members_end, table.members.len());
        fits.then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn table() -> ShardTable {
        ShardTable {
            extensions: vec!["jpg".to_string(), "cls".to_string()],
            keys: b"ab".to_vec(),
            samples: vec![
                SampleEntry { key_end: 1, members_end: 1 },
                SampleEntry { key_end: 2, members_end: 3 },
            ],
            members: vec![
                MemberPlace { extension: 0, offset: 512, size: 10 },
                MemberPlace { extension: 0, offset: 1536, size: 20 },
                MemberPlace { extension: 1, offset: 2560, size: 1 },
            ],
            archive_bytes: 4096,
        }
    }

    fn stamp() -> Stamp {
        Stamp { len: 4096, changed: Duration::from_secs(1000), device: 3, inode: 7 }
    }

    #[test]
    fn what_is_kept_is_what_is_read_and_only_for_the_very_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::of(dir.path(), Path::new("/a.tar"));
        assert_eq!(file.read(&stamp()), None);
        file.write(&stamp(), &table(), SystemTime::now());
        assert_eq!(file.read(&stamp()), Some(table()));
        let other = Stamp { len: 4097, ..stamp() };
        assert_eq!(file.read(&other), None);
        let other = Stamp { changed: Duration::new(1000, 1), ..stamp() };
        assert_eq!(file.read(&other), None);
        assert_eq!(file.read(&Stamp { inode: 8, ..stamp() }), None);
        // Devices are numbered anew when they are mounted.
        assert_eq!(file.read(&Stamp { device: 4, ..stamp() }), Some(table()));
        let elsewhere = IndexFile::of(dir.path(), Path::new("/b.tar"));
        assert_eq!(elsewhere.read(&stamp()), None);
    }

    #[test]
    fn a_table_made_in_the_moment_of_a_change_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::of(dir.path(), Path::new("/a.tar"));
        let changed = UNIX_EPOCH + Duration::from_secs(1000);
        file.write(&stamp(), &table(), changed + Duration::from_secs(1));
        assert_eq!(file.read(&stamp()), None);
        file.write(&stamp(), &table(), changed + Duration::from_secs(2));
        assert_eq!(file.read(&stamp()), Some(table()));
    }

    #[test]
    fn no_damaged_byte_goes_unnoticed() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::of(dir.path(), Path::new("/a.tar"));
        file.write(&stamp(), &table(), SystemTime::now());
        let whole = fs::read(file.path()).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x40;
            fs::write(file.path(), &damaged).unwrap();
            assert_eq!(file.read(&stamp()), None, "byte {at}");
            fs::write(file.path(), &whole[..at]).unwrap();
            assert_eq!(file.read(&stamp()), None, "cut at {at}");
        }
    }

    #[test]
    fn a_lying_table_with_a_right_checksum_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::of(dir.path(), Path::new("/a.tar"));
        let lies: [fn(&mut ShardTable); 6] = [
            |table| table.members[1].offset = u64::MAX - 5,
            |table| table.members[1].size = 4000,
            |table| table.members[2].extension = 2,
            |table| table.samples[0].members_end = 9,
            |table| table.samples[1].key_end = 1,
            |table| table.samples[0].key_end = 3,
        ];
        for (i, lie) in lies.iter().enumerate() {
            let mut table = table();
            lie(&mut table);
            file.write(&stamp(), &table, SystemTime::now());
            assert_eq!(file.read(&stamp()), None, "lie {i}");
        }
    }
}
