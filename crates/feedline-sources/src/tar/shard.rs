//! One shard: its file, how it is compressed, and where the wanted parts of its samples are.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::archive::{ArchiveError, FarTape, FileTape, Member, StreamTape, members};
use super::compression::Compression;
use super::index_file::IndexFile;
use super::table::{ShardTable, Tabulator};
use crate::KEY;
use crate::crowd::Stop;
use crate::source_file::SourceFile;
use crate::stamp::Stamp;

/// Parts that lie this close together are read at once, with what is between them.
const GAP: u64 = 16 << 10;

/// A shard, and its samples' wanted parts.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) path: PathBuf,
    pub(super) compression: Compression,
    stamp: Stamp,
    /// The object that it is, where it is in a store: it takes no place among the files that a process may have open.
    object: Option<Arc<SourceFile>>,
    keys: Vec<u8>,
    key_ends: Vec<u64>,
    /// Each sample's wanted parts, in their order; how many there are is the same for all.
    spans: Vec<Span>,
    parts: usize,
}

/// Where a part is. A part that is missing has no place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    offset: u64,
    size: u64,
}

impl Span {
    const MISSING: Span = Span { offset: u64::MAX, size: 0 };
    /// The sample's key, which is no member.
    const KEY: Span = Span { offset: u64::MAX - 1, size: 0 };

    fn is_member(self) -> bool {
        self.offset < Span::KEY.offset
    }

    fn end(self) -> u64 {
        self.offset + self.size
    }
}

/// What a part is called, and the extensions that it may have.
#[derive(Clone, Debug)]
pub(super) struct PartNames {
    pub(super) name: String,
    extensions: Vec<String>,
}

impl PartNames {
    /// Of `jpg;jpeg;png`: the first is the name.
    pub(super) fn new(part: &str) -> PartNames {
        let extensions: Vec<String> = part.split(';').map(|e| e.trim().to_lowercase()).collect();
        PartNames { name: extensions[0].clone(), extensions }
    }

    /// Whether any sample of the shard has such a part.
    pub(super) fn is_in(&self, table: &ShardTable) -> bool {
        self.extensions.iter().any(|extension| table.extensions.contains(extension))
    }
}

/// A shard's table and state, made or read.
pub(super) struct OpenedShard {
    pub(super) path: PathBuf,
    pub(super) compression: Compression,
    stamp: Stamp,
    object: Option<Arc<SourceFile>>,
    pub(super) table: ShardTable,
}

impl OpenedShard {
    /// Reads the shard's table, or goes through the shard to make it. `seen` counts members.
    pub(super) fn open(
        path: &Path,
        cache: Option<&Path>,
        seen: &AtomicU64,
        stop: &Stop<'_>,
    ) -> Result<OpenedShard, ArchiveError> {
        let made = SystemTime::now();
        let (file, stamp) = SourceFile::open(path)?;
        // What is read ahead of an object now is let go with this handle; the other one is for its samples.
        let (file, reading) = match file.again() {
            Some(again) => (Arc::new(file), Arc::new(again)),
            None => {
                let file = Arc::new(file);
                (Arc::clone(&file), file)
            }
        };
        let compression = Compression::of(&reading, stamp.len)?;
        let object = file.is_far().then(|| Arc::clone(&file));
        let index = cache.map(|folder| IndexFile::of(folder, path));
        let path = path.to_path_buf();
        let opened = |table| OpenedShard { path, compression, stamp, object, table };
        if let Some(table) = index.as_ref().and_then(|index| index.read(&stamp)) {
            seen.fetch_add(table.members.len() as u64, Ordering::Relaxed);
            // Of a compressed archive the length is known only from the table itself.
            if compression != Compression::None || table.archive_bytes == stamp.len {
                return Ok(opened(table));
            }
        }
        let is_far = file.is_far() && compression == Compression::None;
        let mut tabulator = Tabulator::default();
        let visit = |member: Member<'_>| {
            seen.fetch_add(1, Ordering::Relaxed);
            tabulator.add(&member)
        };
        // What is fetched for its headers is fetched for its samples, too, where it can be kept.
        let is_near = !is_far || reading.keep(|| stop.is_asked())?;
        let length = match compression {
            Compression::None if is_near => {
                members(&mut FileTape::new(&reading, stamp.len), stop, visit)
            }
            Compression::None => members(&mut FarTape::new(&reading, stamp.len, stop), stop, visit),
            compressed => {
                let reader = compressed.reader(Arc::clone(&reading), Some(stop))?;
                members(&mut StreamTape { reader, stop: Some(stop) }, stop, visit)
            }
        };
        if stop.is_asked() {
            return Err(ArchiveError::Interrupted);
        }
        // Before what else may be wrong: while somebody writes it, anything may.
        if let Some(what) = file.change(&stamp)? {
            return Err(ArchiveError::Changed { what });
        }
        let length = length.map_err(|error| match error {
            ArchiveError::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                ArchiveError::Truncated { end: stamp.len, within: "within compressed data".into() }
            }
            error => error,
        })?;
        let table = tabulator.finish(length);
        if let Some(index) = index {
            index.write(&stamp, &table, made);
        }
        Ok(opened(table))
    }

    /// Keeps what is wanted of the table.
    pub(super) fn select(self, wanted: &[PartNames]) -> Shard {
        let OpenedShard { path, compression, stamp, object, table } = self;
        // For each wanted part the numbers of its extensions, the preferred first.
        let known: HashMap<&str, usize> =
            table.extensions.iter().enumerate().map(|(n, name)| (name.as_str(), n)).collect();
        let number = |name: &String| known.get(name.as_str()).copied();
        let numbers: Vec<Vec<u32>> = wanted
            .iter()
            .map(|part| part.extensions.iter().filter_map(number).map(|n| n as u32).collect())
            .collect();
        let mut spans = Vec::with_capacity(table.samples.len() * wanted.len());
        for at in 0..table.samples.len() {
            let (_, members) = table.sample(at);
            for (part, numbers) in wanted.iter().zip(&numbers) {
                let member = |n: &u32| members.iter().find(|member| member.extension == *n);
                let span = match numbers.iter().find_map(member) {
                    Some(member) => Span { offset: member.offset, size: member.size },
                    None if part.name == KEY => Span::KEY,
                    None => Span::MISSING,
                };
                spans.push(span);
            }
        }
        let key_ends = table.samples.iter().map(|sample| sample.key_end).collect();
        let (keys, parts) = (table.keys, wanted.len());
        Shard { path, compression, stamp, object, keys, key_ends, spans, parts }
    }
}

impl Shard {
    pub(super) fn len(&self) -> u64 {
        self.key_ends.len() as u64
    }

    /// Opens the file again and makes sure that it is the one that was looked through.
    pub(super) fn file(&self) -> Result<SourceFile, ArchiveError> {
        if let Some(object) = self.object.as_ref().and_then(|object| object.again()) {
            return Ok(object);
        }
        let (file, now) = SourceFile::open(&self.path)?;
        match self.stamp.difference(&now) {
            None => Ok(file),
            Some(what) => Err(ArchiveError::Changed { what }),
        }
    }

    /// The object that it is, where it is in a store.
    pub(super) fn object(&self) -> Option<&Arc<SourceFile>> {
        self.object.as_ref()
    }

    /// How much of the file must be read, from its beginning, to have a sample; of a compressed one, about how much.
    pub(super) fn reach(&self, sample: u64) -> u64 {
        if self.compression == Compression::None {
            return self.layout(sample).pieces().map(|piece| piece.end).max().unwrap_or(0);
        }
        let share = (sample + 1) as f64 / self.len().max(1) as f64;
        (share * self.stamp.len as f64) as u64
    }

    /// Makes sure that what was just read of the open file is what was looked through.
    pub(super) fn unchanged(&self, file: &SourceFile) -> Result<(), ArchiveError> {
        match file.change(&self.stamp)? {
            None => Ok(()),
            Some(what) => Err(ArchiveError::Changed { what }),
        }
    }

    pub(super) fn key(&self, sample: u64) -> &[u8] {
        let at = sample as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start as usize..self.key_ends[at] as usize]
    }

    pub(super) fn layout(&self, sample: u64) -> TableLayout<'_> {
        let at = sample as usize * self.parts;
        TableLayout { spans: &self.spans[at..at + self.parts] }
    }
}

/// How a sample's parts lie in the archive, and in what was read of them.
///
/// Parts that lie close together are read as one piece; others one by one, in the archive's order.
/// Both follow from the places alone, so whoever builds the sample knows it as well.
#[derive(Copy, Clone)]
pub(super) struct TableLayout<'a> {
    spans: &'a [Span],
}

impl TableLayout<'_> {
    fn members(&self) -> impl Iterator<Item = Span> {
        self.spans.iter().copied().filter(|span| span.is_member())
    }

    /// Whether the sample lacks a part.
    pub(super) fn lacks(&self, part: usize) -> bool {
        self.spans.get(part).is_none_or(|span| *span == Span::MISSING)
    }

    /// Bytes of a part; none of one that is no member.
    pub(super) fn part_bytes(&self, part: usize) -> u64 {
        self.place(part).map_or(0, |place| place.end - place.start)
    }

    /// Bytes of the parts.
    pub(super) fn bytes(&self) -> u64 {
        self.members().fold(0, |sum, span| sum.saturating_add(span.size))
    }

    /// The pieces to be read, in the archive's order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Range<u64>> {
        let whole = self.whole();
        let mut single: Vec<Range<u64>> = Vec::new();
        if whole.is_none() {
            single.extend(self.members().map(|span| span.offset..span.end()));
            single.sort_unstable_by_key(|piece| piece.start);
            // Two parts may be one member: `jpg;png` and `png;jpg`.
            single.dedup();
        }
        whole.into_iter().chain(single)
    }

    /// Everything at once, if the parts lie close together.
    fn whole(&self) -> Option<Range<u64>> {
        let start = self.members().map(|span| span.offset).min()?;
        let end = self.members().map(Span::end).max()?;
        (end - start <= self.bytes().saturating_add(GAP)).then_some(start..end)
    }

    /// Where a part is in the archive; `None` for one that is no member.
    pub(super) fn place(&self, part: usize) -> Option<Range<u64>> {
        let span = self.spans.get(part).filter(|span| span.is_member())?;
        Some(span.offset..span.end())
    }

    /// Where a part is in what was read; `None` for one that is no member.
    pub(super) fn part(&self, part: usize) -> Option<Range<usize>> {
        let span = *self.spans.get(part).filter(|span| span.is_member())?;
        let from = match self.whole() {
            Some(whole) => span.offset - whole.start,
            None => {
                let before = self.pieces().take_while(|piece| piece.start < span.offset);
                before.map(|piece| piece.end - piece.start).sum()
            }
        };
        Some(from as usize..(from + span.size) as usize)
    }
}
