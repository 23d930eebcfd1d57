//! The table of where rows begin, kept on disk so that a file is gone through once and not at every start.
//!
//! ```text
//! header   magic "FLROWS01", checksum of the rest; hash of the path and syntax; the file's length, time, inode; when
//!          the table was made; rows; where the last one ends
//! blocks   for each 512 rows: the line of the first, 512 starts and the start after them, checksum (xxh3)
//! ```
//!
//! All numbers have 8 bytes, little-endian. A table counts only for the very file it was made of, and is not trusted if that
//! was written within the same moment. It is written aside and renamed. Small tables are held in memory, large ones are read block by block, so that
//! a file of any length is shuffled with flat memory. Where the folder cannot be written to, the table is made at every
//! start and held.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use feedline_sources::Watch;
use feedline_sources::plain_file::{append_at, open_plain, read_exact_at, since_1970};
use tempfile::NamedTempFile;
use twox_hash::XxHash3_64;

use super::scan::{AfterPiece, RowScan, RowSyntax};
use crate::TableError;
use crate::open_file::OpenFile;

const MAGIC: u64 = u64::from_le_bytes(*b"FLROWS01");
/// Rows of a block.
const BLOCK: usize = 512;
/// The line, the starts, the start after them, the checksum.
const WORDS: usize = BLOCK + 3;
const BLOCK_BYTES: usize = WORDS * 8;
const HEADER_WORDS: usize = 10;
const HEADER_BYTES: u64 = HEADER_WORDS as u64 * 8;
/// Tables of up to this many bytes are held in memory: those of 16 million rows.
const HELD: u64 = 128 << 20;
/// File systems tell times no coarser than that.
const MOMENT: Duration = Duration::from_secs(2);
/// So much of a file is gone through at once.
const PIECE: usize = 4 << 20;

/// The folder of tables that nothing else was said of: `feedline/tables` in the user's cache folder.
pub(super) fn default_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("feedline/tables"))
}

/// Where the rows of a file begin.
pub(crate) struct RowStarts {
    rows: u64,
    blocks: Blocks,
}

enum Blocks {
    Held(Vec<u64>),
    Kept(File),
}

impl RowStarts {
    /// Goes through a file, from a place on that is on this line; keeps what it finds, if it may.
    pub(crate) fn find(
        file: &OpenFile,
        (from, line): (u64, u64),
        syntax: &RowSyntax,
        kept: Option<&StartsFile>,
        watch: Watch<'_>,
    ) -> Result<RowStarts, TableError> {
        let io = |source| TableError::Io { doing: "read", path: file.path().to_path_buf(), source };
        let made = SystemTime::now();
        let length = file.stamp().len;
        let mut writer = BlockWriter::new(kept.and_then(StartsFile::begin));
        let mut scan = RowScan::new(syntax, from, line);
        let (mut at, mut piece) = (from, Vec::new());
        loop {
            let mut found = |start, line| writer.row(start, line);
            let after = if at >= length {
                match scan.finish(&mut found) {
                    AfterPiece::Continue => break,
                    after => after,
                }
            } else {
                piece.clear();
                let read = (length - at).min(PIECE as u64);
                file.append(&mut piece, at, read as usize).map_err(io)?;
                at += read;
                scan.piece(&piece, &mut found)
            };
            if let AfterPiece::Back(to) = after {
                at = to;
            }
            if watch(at).is_break() {
                return Err(TableError::Interrupted);
            }
        }
        file.check_unchanged()?;
        Ok(writer.finish(length, kept, made))
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Where a row begins, and where the next one does.
    pub(crate) fn get(&self, row: u64) -> io::Result<(u64, u64)> {
        let (block, place) = (row / BLOCK as u64, (row % BLOCK as u64) as usize);
        self.with_block(block, |words| (words[1 + place], words[2 + place]))
    }

    /// Where the block of a row begins, and on which line.
    pub(crate) fn line_before(&self, row: u64) -> io::Result<(u64, u64)> {
        self.with_block(row / BLOCK as u64, |words| (words[1], words[0]))
    }

    fn with_block<R>(&self, block: u64, work: impl FnOnce(&[u64]) -> R) -> io::Result<R> {
        let damaged = || {
            let what = "the table of its rows in the cache folder was damaged; open it again";
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        match &self.blocks {
            Blocks::Held(words) => {
                let at = usize::try_from(block).ok().and_then(|block| block.checked_mul(WORDS));
                let block = at.and_then(|at| words.get(at..at + WORDS));
                Ok(work(block.ok_or_else(damaged)?))
            }
            Blocks::Kept(file) => {
                let mut bytes = [0; BLOCK_BYTES];
                let at = HEADER_BYTES + block * BLOCK_BYTES as u64;
                read_exact_at(file, &mut bytes, at)?;
                let words = checked(&bytes).ok_or_else(damaged)?;
                Ok(work(&words))
            }
        }
    }
}

/// The words of a block, if they are what was written.
fn checked(bytes: &[u8]) -> Option<Vec<u64>> {
    let words: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let content = bytes.get(..BLOCK_BYTES - 8)?;
    (words.last() == Some(&XxHash3_64::oneshot(content))).then_some(words)
}

/// Where the table of a file is kept.
pub(crate) struct StartsFile {
    path: PathBuf,
    /// What it must be about: all that is in the header before the rows.
    about: [u64; 5],
    changed: Duration,
    length: u64,
}

impl StartsFile {
    pub(crate) fn of(folder: &Path, file: &OpenFile, syntax: &RowSyntax, from: u64) -> StartsFile {
        let whole =
            std::fs::canonicalize(file.path()).unwrap_or_else(|_| file.path().to_path_buf());
        let mut name = whole.into_os_string().into_encoded_bytes();
        name.extend(format!("\0{syntax:?}\0{from}").into_bytes());
        let hash = XxHash3_64::oneshot(&name);
        let stamp = file.stamp();
        let changed = stamp.changed;
        let nanos = u64::from(changed.subsec_nanos());
        StartsFile {
            path: folder.join(format!("{hash:016x}.rows")),
            about: [hash, stamp.len, changed.as_secs(), nanos, stamp.inode],
            changed,
            length: stamp.len,
        }
    }

    /// The table, if there is one and it is about the file in this state.
    pub(crate) fn read(&self) -> Option<RowStarts> {
        let (file, meta) = open_plain(&self.path).ok()?;
        let mut header = [0; HEADER_BYTES as usize];
        read_exact_at(&file, &mut header, 0).ok()?;
        let words: Vec<u64> =
            header.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let right = words[0] == MAGIC && words[1] == XxHash3_64::oneshot(&header[16..]);
        let (made, rows, end) = (Duration::from_secs(words[7]), words[8], words[9]);
        if !right
            || words[2..7] != self.about
            || made < self.changed.saturating_add(MOMENT)
            || end != self.length
        {
            return None;
        }
        let bytes = rows.div_ceil(BLOCK as u64).checked_mul(BLOCK_BYTES as u64)?;
        if meta.len() != HEADER_BYTES.checked_add(bytes)? {
            return None;
        }
        if bytes > HELD {
            return Some(RowStarts { rows, blocks: Blocks::Kept(file) });
        }
        let mut content = Vec::new();
        append_at(&file, &mut content, HEADER_BYTES, bytes as usize).ok()?;
        let mut words = Vec::with_capacity(content.len() / 8);
        for block in content.chunks_exact(BLOCK_BYTES) {
            words.extend(checked(block)?);
        }
        Some(RowStarts { rows, blocks: Blocks::Held(words) })
    }

    /// A file that becomes the table when it is finished; `None` where the folder does not let it.
    fn begin(&self) -> Option<BufWriter<NamedTempFile>> {
        let folder = self.path.parent()?;
        std::fs::create_dir_all(folder).ok()?;
        let mut file = BufWriter::with_capacity(1 << 20, NamedTempFile::new_in(folder).ok()?);
        file.write_all(&[0; HEADER_BYTES as usize]).ok()?;
        Some(file)
    }

    /// Failing to keep it costs time at the next start and nothing else.
    fn keep(
        &self,
        file: BufWriter<NamedTempFile>,
        rows: u64,
        end: u64,
        made: SystemTime,
    ) -> Option<File> {
        let mut file = file.into_inner().ok()?;
        let mut words = vec![MAGIC, 0];
        words.extend(self.about);
        words.extend([since_1970(made).as_secs(), rows, end]);
        let bytes = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        words[1] = XxHash3_64::oneshot(&bytes(&words[2..]));
        file.seek(SeekFrom::Start(0)).ok()?;
        file.write_all(&bytes(&words)).ok()?;
        file.persist(&self.path).ok()
    }
}

/// Puts starts into blocks: in memory, on disk, or both while they are few.
struct BlockWriter {
    block: Vec<u64>,
    rows: u64,
    held: Option<Vec<u64>>,
    file: Option<BufWriter<NamedTempFile>>,
    last: (u64, u64),
}

impl BlockWriter {
    fn new(file: Option<BufWriter<NamedTempFile>>) -> BlockWriter {
        BlockWriter {
            block: Vec::with_capacity(WORDS),
            rows: 0,
            held: Some(Vec::new()),
            file,
            last: (0, 0),
        }
    }

    fn row(&mut self, start: u64, line: u64) {
        if self.block.len() == BLOCK + 1 {
            self.put_block(start);
        }
        if self.block.is_empty() {
            self.block.push(line);
        }
        self.block.push(start);
        self.rows += 1;
        self.last = (start, line);
    }

    /// A full block; `next` is where the row after it begins.
    fn put_block(&mut self, next: u64) {
        self.block.resize(WORDS - 1, next);
        let mut bytes: Vec<u8> = self.block.iter().flat_map(|word| word.to_le_bytes()).collect();
        let checksum = XxHash3_64::oneshot(&bytes);
        bytes.extend(checksum.to_le_bytes());
        if self.file.as_mut().is_some_and(|file| file.write_all(&bytes).is_err()) {
            self.file = None;
        }
        if let Some(held) = &mut self.held {
            held.extend_from_slice(&self.block);
            held.push(checksum);
            if self.file.is_some() && held.len() as u64 * 8 > HELD {
                self.held = None;
            }
        }
        self.block.clear();
    }

    fn finish(mut self, end: u64, kept: Option<&StartsFile>, made: SystemTime) -> RowStarts {
        if !self.block.is_empty() {
            self.put_block(end);
        }
        let rows = self.rows;
        let file = kept.zip(self.file).and_then(|(kept, file)| kept.keep(file, rows, end, made));
        let blocks = match (self.held, file) {
            (Some(held), _) => Blocks::Held(held),
            (None, Some(file)) => Blocks::Kept(file),
            (None, None) => Blocks::Held(Vec::new()),
        };
        RowStarts { rows, blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::scan::Quoting;

    fn lines() -> RowSyntax {
        RowSyntax { quoted: None, max_open: 1 << 20 }
    }

    #[test]
    fn a_table_that_was_kept_is_the_one_that_was_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.txt");
        let texts: Vec<String> = (0..3000).map(|i| "x".repeat(i % 7 + 1)).collect();
        std::fs::write(&path, texts.join("\n")).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(100);
        File::options().append(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        let file = OpenFile::open(&path).unwrap();
        let kept = StartsFile::of(dir.path(), &file, &lines(), 0);
        assert!(kept.read().is_none());
        let watch: Watch<'_> = &mut |_| std::ops::ControlFlow::Continue(());
        let found = RowStarts::find(&file, (0, 1), &lines(), Some(&kept), watch).unwrap();
        let again = kept.read().expect("kept");
        assert_eq!((found.rows(), again.rows()), (3000, 3000));
        let mut start = 0;
        for (row, text) in texts.iter().enumerate() {
            let end = if row == 2999 { start + text.len() } else { start + text.len() + 1 };
            let expected = (start as u64, end as u64);
            assert_eq!(found.get(row as u64).unwrap(), expected);
            assert_eq!(again.get(row as u64).unwrap(), expected);
            start = end;
        }
        // Another syntax, or another state of the file, has another table.
        let quoted = Some(Quoting { quote: b'"', delimiter: b',' });
        let other = RowSyntax { quoted, ..lines() };
        assert!(StartsFile::of(dir.path(), &file, &other, 0).read().is_none());
        std::fs::write(&path, "other").unwrap();
        let changed = OpenFile::open(&path).unwrap();
        assert!(StartsFile::of(dir.path(), &changed, &lines(), 0).read().is_none());
    }

    #[test]
    fn a_damaged_table_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.txt");
        std::fs::write(&path, "a\nb\nc\n").unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(100);
        File::options().append(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        let file = OpenFile::open(&path).unwrap();
        let kept = StartsFile::of(dir.path(), &file, &lines(), 0);
        let watch: Watch<'_> = &mut |_| std::ops::ControlFlow::Continue(());
        RowStarts::find(&file, (0, 1), &lines(), Some(&kept), watch).unwrap();
        let whole = std::fs::read(&kept.path).unwrap();
        assert!(kept.read().is_some());
        for at in [0, 9, 20, 70, 100, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&kept.path, damaged).unwrap();
            assert!(kept.read().is_none(), "byte {at}");
        }
        std::fs::write(&kept.path, &whole[..whole.len() - 1]).unwrap();
        assert!(kept.read().is_none());
    }
}
