//! A shard's table kept on disk, so that the shard is gone through once and not at every start.
//!
//! ```text
//! magic "FLTARIX1"   checksum of all that follows (xxh3)
//! what it is about   path, length, time of change, inode; when the table was made
//! the table          extensions, keys, samples, members; numbers as 8 bytes, little-endian
//! ```
//!
//! A table counts only for the very file it was made of. It is written aside and renamed, so a reader
//! sees a whole one or none, and two processes that make the same one do not disturb each other. What
//! is read is checked: the checksum, every length against what is there, every offset against the
//! archive's length. Anything amiss makes the table again. Where the folder cannot be written to, the
//! table is made at every start.
//!
//! A file that was written within the same moment as its table may change again without a new time;
//! such a table is not trusted (the "racy" files of git).

use std::fs::{self, Metadata};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use twox_hash::XxHash3_64;

use super::table::{Entry, Place, Table};

const MAGIC: &[u8; 8] = b"FLTARIX1";
/// File systems tell times no coarser than that.
const MOMENT: Duration = Duration::from_secs(2);

/// The state a file is in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) len: u64,
    /// Since 1970.
    changed: Duration,
    inode: u64,
}

impl Signature {
    pub(super) fn of(meta: &Metadata) -> Signature {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(meta);
        #[cfg(not(unix))]
        let inode = 0;
        let changed = meta.modified().map_or(Duration::ZERO, since_1970);
        Signature { len: meta.len(), changed, inode }
    }
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

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
    pub(super) fn read(&self, signature: &Signature) -> Option<Table> {
        let (file, meta) = crate::read_at::open_plain(&self.path()).ok()?;
        let mut bytes = Vec::new();
        let len = usize::try_from(meta.len()).ok()?;
        crate::read_at::append_at(&file, &mut bytes, 0, len).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (checksum, rest) = rest.split_first_chunk::<8>()?;
        if *checksum != XxHash3_64::oneshot(rest).to_le_bytes() {
            return None;
        }
        let mut from = Reader(rest);
        let about = from.bytes()? == self.shard
            && from.number()? == signature.len
            && from.number()? == signature.changed.as_secs()
            && from.number()? == u64::from(signature.changed.subsec_nanos())
            && from.number()? == signature.inode;
        let made = Duration::from_secs(from.number()?);
        if !about || made < signature.changed.saturating_add(MOMENT) {
            return None;
        }
        from.table().filter(|_| from.0.is_empty())
    }

    /// Keeps the table, if the folder lets it. `made` is when its making began.
    pub(super) fn write(&self, signature: &Signature, table: &Table, made: SystemTime) {
        let mut to = Vec::new();
        put_bytes(&mut to, &self.shard);
        let changed = signature.changed;
        let made = since_1970(made).as_secs();
        for number in [
            signature.len,
            changed.as_secs(),
            u64::from(changed.subsec_nanos()),
            signature.inode,
            made,
        ] {
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

fn put_table(to: &mut Vec<u8>, table: &Table) {
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

    fn table(&mut self) -> Option<Table> {
        let archive_bytes = self.number()?;
        let mut table = Table { archive_bytes, ..Table::default() };
        for _ in 0..self.count(8)? {
            table.extensions.push(std::str::from_utf8(self.bytes()?).ok()?.to_string());
        }
        table.keys = self.bytes()?.to_vec();
        for _ in 0..self.count(16)? {
            let (key_end, members_end) = (self.number()?, self.number()?);
            table.samples.push(Entry { key_end, members_end });
        }
        for _ in 0..self.count(24)? {
            let extension = u32::try_from(self.number()?).ok()?;
            let (offset, size) = (self.number()?, self.number()?);
            let within = offset.checked_add(size)? <= archive_bytes;
            if !within || extension as usize >= table.extensions.len() {
                return None;
            }
            table.members.push(Place { extension, offset, size });
        }
        let ends = |end: fn(&Entry) -> u64, last: usize| {
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
    use super::*;

    fn table() -> Table {
        Table {
            extensions: vec!["jpg".to_string(), "cls".to_string()],
            keys: b"ab".to_vec(),
            samples: vec![
                Entry { key_end: 1, members_end: 1 },
                Entry { key_end: 2, members_end: 3 },
            ],
            members: vec![
                Place { extension: 0, offset: 512, size: 10 },
                Place { extension: 0, offset: 1536, size: 20 },
                Place { extension: 1, offset: 2560, size: 1 },
            ],
            archive_bytes: 4096,
        }
    }

    fn signature() -> Signature {
        Signature { len: 4096, changed: Duration::from_secs(1000), inode: 7 }
    }

    #[test]
    fn what_is_kept_is_what_is_read_and_only_for_the_very_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::of(dir.path(), Path::new("/a.tar"));
        assert_eq!(file.read(&signature()), None);
        file.write(&signature(), &table(), SystemTime::now());
        assert_eq!(file.read(&signature()), Some(table()));
        let other = Signature { len: 4097, ..signature() };
        assert_eq!(file.read(&other), None);
        let other = Signature { changed: Duration::new(1000, 1), ..signature() };
        assert_eq!(file.read(&other), None);
        assert_eq!(file.read(&Signature { inode: 8, ..signature() }), None);
        let elsewhere = IndexFile::of(dir.path(), Path::new("/b.tar"));
        assert_eq!(elsewhere.read(&signature()), None);
    }

    #[test]
    fn a_table_made_in_the_moment_of_a_change_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::of(dir.path(), Path::new("/a.tar"));
        let changed = UNIX_EPOCH + Duration::from_secs(1000);
        file.write(&signature(), &table(), changed + Duration::from_secs(1));
        assert_eq!(file.read(&signature()), None);
        file.write(&signature(), &table(), changed + Duration::from_secs(2));
        assert_eq!(file.read(&signature()), Some(table()));
    }

    #[test]
    fn no_damaged_byte_goes_unnoticed() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::of(dir.path(), Path::new("/a.tar"));
        file.write(&signature(), &table(), SystemTime::now());
        let whole = fs::read(file.path()).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x40;
            fs::write(file.path(), &damaged).unwrap();
            assert_eq!(file.read(&signature()), None, "byte {at}");
            fs::write(file.path(), &whole[..at]).unwrap();
            assert_eq!(file.read(&signature()), None, "cut at {at}");
        }
    }

    #[test]
    fn a_lying_table_with_a_right_checksum_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = IndexFile::of(dir.path(), Path::new("/a.tar"));
        let lies: [fn(&mut Table); 6] = [
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
            file.write(&signature(), &table, SystemTime::now());
            assert_eq!(file.read(&signature()), None, "lie {i}");
        }
    }
}
