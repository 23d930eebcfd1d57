//! One file of lines, open or to be opened: where its bytes are, and where its lines.
//!
//! | file | its bytes are |
//! | --- | --- |
//! | plain | held in memory as long as there is room, otherwise read where they are |
//! | gzip or zstd | unpacked into memory as long as there is room, otherwise once into the cache folder, and read there |
//! | plain, an object of a store | held in memory as long as there is room, read once for that and for its lines; otherwise each line is a request |
//!
//! There is room for [`TextOptions::held`] bytes of all files together.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use feedline_core::Cause;

use super::compression::Compression;
use super::decoding::{MARK, foreign};
use super::kept_table::KeptTable;
use super::line_table::LineTable;
use super::lines::TextOptions;
use super::scan::{ScannedStretch, join};
use crate::SourceError;
use crate::crowd::Stop;
use crate::read_at::open_plain;
use crate::source_file::{Forward, SourceFile};
use crate::stamp::Stamp;
use crate::sync::lock;

/// Files that are kept open.
const OPEN: usize = 128;
/// Bytes that are unpacked between two looks at the watcher.
const BLOCK: usize = 1 << 20;

/// A file whose lines are known.
#[derive(Debug)]
pub(super) struct LinesFile {
    pub(super) path: PathBuf,
    stamp: Stamp,
    bytes: TextBytes,
    pub(super) table: LineTable,
}

#[derive(Debug)]
enum TextBytes {
    /// All of them.
    Held(Vec<u8>),
    /// In this file, which is kept open if there are few; in the state of the stamp.
    InFile { file: Option<SourceFile>, path: PathBuf, stamp: Stamp },
    /// In a file of the cache folder that is opened when it is read, as there are many. Somebody who unpacks the same file may put
    /// another one in its place; then in the state of that one.
    Replaceable { path: PathBuf, stamp: Mutex<Stamp> },
}

/// The bytes that may still be held in memory, of all files. Relaxed: it is a number and publishes nothing.
pub(super) struct HeldRoom(AtomicU64);

impl HeldRoom {
    pub(super) fn new(bytes: u64) -> HeldRoom {
        HeldRoom(AtomicU64::new(bytes))
    }

    /// Takes so many bytes if there are as many.
    fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A file before its lines are known.
pub(super) struct BegunText {
    pub(super) path: PathBuf,
    pub(super) file: SourceFile,
    /// All of it, where it was read as a whole already.
    held: Option<Vec<u8>>,
    stamp: Stamp,
    pub(super) kept: Option<KeptTable>,
    pub(super) state: BegunState,
    made: SystemTime,
}

pub(super) enum BegunState {
    /// Everything is known.
    Known(LineTable),
    /// To be looked through from this byte on.
    Plain { first: u64 },
    /// To be unpacked.
    Packed(Compression),
}

impl BegunText {
    /// Opens a file and looks whether its table is there.
    pub(super) fn open(
        path: &Path,
        folder: Option<&Path>,
        room: &HeldRoom,
        seen: &AtomicU64,
    ) -> Result<BegunText, SourceError> {
        let cannot = |source| SourceError::Io { doing: "open", path: path.to_path_buf(), source };
        let made = SystemTime::now();
        let (file, stamp) = SourceFile::open(path).map_err(cannot)?;
        let mut start = [0; 4];
        let start = &mut start[..stamp.len.min(4) as usize];
        file.read_exact_at(start, 0).map_err(cannot)?;
        if let Some(what) = foreign(start) {
            let path = path.to_path_buf();
            return Err(SourceError::NotUtf8Text { path, what });
        }
        let kept = folder.map(|folder| KeptTable::of(folder, path));
        let state = match Compression::of_file(&file, stamp.len).map_err(cannot)? {
            Some(compression) => BegunState::Packed(compression),
            None => {
                let table = kept.as_ref().and_then(|kept| kept.read(&stamp));
                match table.and_then(|table| LineTable::from_bytes(&table)) {
                    Some(table) => BegunState::Known(table),
                    None => BegunState::Plain { first: mark_of(start) },
                }
            }
        };
        let begun =
            BegunText { path: path.to_path_buf(), file, held: None, stamp, kept, state, made };
        if begun.file.is_far() { begun.held_at_once(room, seen) } else { Ok(begun) }
    }

    /// Reads an object as a whole where there is room, and finds its lines there, so that it is not fetched for each.
    fn held_at_once(mut self, room: &HeldRoom, seen: &AtomicU64) -> Result<BegunText, SourceError> {
        if matches!(self.state, BegunState::Packed(_)) || !room.take(self.stamp.len) {
            return Ok(self);
        }
        let mut held = Vec::new();
        self.file.append_whole(&mut held, self.stamp.len).map_err(self.cannot("read"))?;
        seen.fetch_add(held.len() as u64, Ordering::Relaxed);
        if let BegunState::Plain { first } = self.state {
            let mut stretch = ScannedStretch::default();
            stretch.add(&held[first as usize..]);
            let table = self.joined(first, &[stretch])?;
            self.keep(&table);
            self.state = BegunState::Known(table);
        }
        self.held = Some(held);
        Ok(self)
    }

    fn keep(&self, table: &LineTable) {
        if let Some(kept) = &self.kept {
            kept.write(&self.stamp, &table.to_bytes(), self.made);
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.stamp.len
    }

    /// A plain file with what was found in it.
    pub(super) fn scanned(
        self,
        stretches: &[ScannedStretch],
        room: &HeldRoom,
    ) -> Result<LinesFile, SourceError> {
        let first = match self.state {
            BegunState::Plain { first } => first,
            _ => 0,
        };
        let table = self.joined(first, stretches)?;
        self.unchanged()?;
        self.keep(&table);
        self.with_table(table, room)
    }

    /// A file whose table was there.
    pub(super) fn known(self, room: &HeldRoom) -> Result<LinesFile, SourceError> {
        let known = BegunText { state: BegunState::Plain { first: 0 }, ..self };
        let BegunState::Known(table) = self.state else {
            return Err(SourceError::Interrupted);
        };
        known.with_table(table, room)
    }

    /// Unpacks a compressed one.
    pub(super) fn unpacked(
        self,
        compression: Compression,
        options: &TextOptions,
        room: &HeldRoom,
        seen: &AtomicU64,
        stop: &Stop<'_>,
    ) -> Result<LinesFile, SourceError> {
        if let Some(found) = self.unpacked_before() {
            return Ok(found);
        }
        let mut unpacking = UnpackingText { begun: &self, room, held: Vec::new(), spilled: None };
        let mut from =
            compression.reader(Forward::new(&self.file)).map_err(|e| self.cannot("unpack")(e))?;
        let (mut stretch, mut first, mut total) = (ScannedStretch::default(), None, 0_u64);
        let mut block = vec![0; BLOCK];
        loop {
            stop.check()?;
            let read = fill(&mut *from, &mut block).map_err(|e| self.cannot("unpack")(e))?;
            let bytes = &block[..read];
            let skipped = match first {
                None => {
                    if let Some(what) = foreign(bytes) {
                        return Err(SourceError::NotUtf8Text { path: self.path.clone(), what });
                    }
                    *first.insert(mark_of(bytes))
                }
                Some(_) => 0,
            };
            stretch.add(&bytes[skipped as usize..]);
            total += read as u64;
            if total > options.max_unpacked {
                let (path, most) = (self.path.clone(), options.max_unpacked);
                return Err(SourceError::UnpacksToMore { path, most });
            }
            unpacking.add(bytes)?;
            seen.fetch_add(read as u64, Ordering::Relaxed);
            if read < block.len() {
                break;
            }
        }
        drop(from);
        let (held, spilled) = (unpacking.held, unpacking.spilled);
        let table = self.joined(first.unwrap_or(0), &[stretch])?;
        self.unchanged()?;
        let bytes = match spilled {
            None => TextBytes::Held(held),
            Some(file) => {
                let path = self.unpacked_path().ok_or(SourceError::Interrupted)?;
                let _locked = self.kept.as_ref().and_then(KeptTable::lock);
                // Others may have been faster, and read theirs by now.
                if let Some(found) = self.unpacked_before() {
                    return Ok(found);
                }
                let meta = file.as_file().metadata().map_err(|e| self.cannot("unpack")(e))?;
                let stamp = Stamp::of(&meta);
                // The table before its file: who finds a file in place of his own finds what it is.
                if let Some(kept) = &self.kept {
                    let mut content = stamp_bytes(&stamp);
                    content.extend_from_slice(&table.to_bytes());
                    kept.write(&self.stamp, &content, self.made);
                }
                let file = file.persist(&path).map_err(|e| self.cannot("unpack")(e.error))?;
                TextBytes::InFile { file: Some(SourceFile::Disk(file)), path, stamp }
            }
        };
        Ok(LinesFile { path: self.path, stamp: self.stamp, bytes, table })
    }

    /// Where a large one is unpacked to.
    fn unpacked_path(&self) -> Option<PathBuf> {
        self.kept.as_ref().map(|kept| kept.beside(".unpacked"))
    }

    /// What was unpacked at an earlier start, if it is still what it was.
    fn unpacked_before(&self) -> Option<LinesFile> {
        let content = self.kept.as_ref()?.read(&self.stamp)?;
        let path = self.unpacked_path()?;
        let (file, meta) = open_plain(&path).ok()?;
        let stamp = Stamp::of(&meta);
        let table = content.strip_prefix(&*stamp_bytes(&stamp))?;
        let table = LineTable::from_bytes(table)?;
        let bytes = TextBytes::InFile { file: Some(SourceFile::Disk(file)), path, stamp };
        Some(LinesFile { path: self.path.clone(), stamp: self.stamp, bytes, table })
    }

    fn joined(&self, first: u64, stretches: &[ScannedStretch]) -> Result<LineTable, SourceError> {
        join(first, stretches).ok_or_else(|| SourceError::TooManyLines { path: self.path.clone() })
    }

    fn with_table(self, table: LineTable, room: &HeldRoom) -> Result<LinesFile, SourceError> {
        let bytes = if let Some(held) = self.held {
            TextBytes::Held(held)
        } else if !self.file.is_far() && room.take(self.stamp.len) {
            let mut held = Vec::new();
            self.file
                .append_at(&mut held, 0, self.stamp.len as usize)
                .map_err(self.cannot("read"))?;
            self.unchanged()?;
            TextBytes::Held(held)
        } else {
            TextBytes::InFile { path: self.path.clone(), stamp: self.stamp, file: Some(self.file) }
        };
        Ok(LinesFile { path: self.path, stamp: self.stamp, bytes, table })
    }

    fn unchanged(&self) -> Result<(), SourceError> {
        match self.file.change(&self.stamp).map_err(self.cannot("read"))? {
            None => Ok(()),
            Some(what) => Err(SourceError::Changed { path: self.path.clone(), what }),
        }
    }

    pub(super) fn cannot(&self, doing: &'static str) -> impl Fn(io::Error) -> SourceError + use<> {
        let path = self.path.clone();
        move |source| SourceError::Io { doing, path: path.clone(), source }
    }
}

/// Where unpacked bytes go: into memory, and when they are too many into a file.
struct UnpackingText<'a> {
    begun: &'a BegunText,
    room: &'a HeldRoom,
    held: Vec<u8>,
    spilled: Option<tempfile::NamedTempFile>,
}

impl UnpackingText<'_> {
    fn add(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        if self.spilled.is_none() && self.room.take(bytes.len() as u64) {
            self.held.extend_from_slice(bytes);
            return Ok(());
        }
        let cannot = self.begun.cannot("unpack");
        if self.spilled.is_none() {
            let Some(kept) = &self.begun.kept else {
                return Err(SourceError::NoCacheFolder { path: self.begun.path.clone() });
            };
            fs::create_dir_all(kept.folder()).map_err(&cannot)?;
            let mut file = tempfile::NamedTempFile::new_in(kept.folder()).map_err(&cannot)?;
            file.write_all(&self.held).map_err(&cannot)?;
            self.room.give_back(self.held.len() as u64);
            self.held = Vec::new();
            self.spilled = Some(file);
        }
        match &mut self.spilled {
            Some(file) => file.write_all(bytes).map_err(cannot),
            None => Ok(()),
        }
    }
}

/// Reads until the buffer is full or nothing is left.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match from.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn mark_of(start: &[u8]) -> u64 {
    if start.starts_with(MARK) { MARK.len() as u64 } else { 0 }
}

fn stamp_bytes(stamp: &Stamp) -> Vec<u8> {
    let changed = stamp.changed;
    let numbers = [stamp.len, changed.as_secs(), u64::from(changed.subsec_nanos()), stamp.inode];
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Appends some bytes of a file that is still in the state of the stamp.
fn append_unchanged(
    file: &SourceFile,
    stamp: &Stamp,
    start: u64,
    len: usize,
    raw: &mut Vec<u8>,
) -> Result<(), Cause> {
    let read = file.append_at(raw, start, len);
    // Whatever came of it, first whether the file is still what the table was made of.
    let change = file.change(stamp).map_err(|e| format!("cannot read it: {e}"))?;
    if let Some(what) = change {
        return Err(format!(
            "the file has changed since it was opened: {what}; open it again (to replace a file that is in use, rename \
             another over it)"
        )
        .into());
    }
    read.map_err(|e| format!("cannot read it: {e}").into())
}

impl LinesFile {
    /// Closes it until it is asked for, where there are many files.
    pub(super) fn close_if_many(&mut self, files: usize) {
        if files > OPEN
            && let TextBytes::InFile { file, path, stamp } = &mut self.bytes
            && !file.as_ref().is_some_and(SourceFile::is_far)
        {
            match *path == self.path {
                true => *file = None,
                false => {
                    let (path, stamp) = (std::mem::take(path), Mutex::new(*stamp));
                    self.bytes = TextBytes::Replaceable { path, stamp };
                }
            }
        }
    }

    /// Opens what was unpacked: the file that was there, or one that somebody else unpacked of the same file into the same lines.
    fn open_unpacked(
        &self,
        path: &Path,
        stamp: &Mutex<Stamp>,
    ) -> Result<(SourceFile, Stamp), Cause> {
        /// Others replace file and table one after the other; in between they do not match.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let (file, meta) = open_plain(path).map_err(|e| format!("cannot open it: {e}"))?;
            let (file, now) = (SourceFile::Disk(file), Stamp::of(&meta));
            if now == *lock(stamp) {
                return Ok((file, now));
            }
            let kept = KeptTable::of(path.parent().unwrap_or(Path::new("")), &self.path);
            let _locked = kept.lock();
            let lines = [stamp_bytes(&now), self.table.to_bytes()].concat();
            if kept.written(&self.stamp).is_some_and(|(_, content)| content == lines) {
                *lock(stamp) = now;
                return Ok((file, now));
            }
        }
        let path = path.display();
        Err(format!("what was unpacked into `{path}` has changed; open the texts again").into())
    }

    /// Appends a line's bytes to `raw`.
    pub(super) fn read(&self, start: u64, len: usize, raw: &mut Vec<u8>) -> Result<(), Cause> {
        match &self.bytes {
            TextBytes::Held(bytes) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                let line = bytes.get(start..).and_then(|rest| rest.get(..len));
                raw.extend_from_slice(line.ok_or("the line lies outside of the file")?);
                Ok(())
            }
            TextBytes::Replaceable { path, stamp } => {
                let (file, stamp) = self.open_unpacked(path, stamp)?;
                append_unchanged(&file, &stamp, start, len, raw)
            }
            TextBytes::InFile { file, path, stamp } => {
                let opened;
                let file = match file {
                    Some(file) => file,
                    None => {
                        let file = open_plain(path).map_err(|e| format!("cannot open it: {e}"))?.0;
                        opened = SourceFile::Disk(file);
                        &opened
                    }
                };
                append_unchanged(file, stamp, start, len, raw)
            }
        }
    }

    /// How many lines ahead it wants to be told of.
    pub(super) fn look_ahead(&self) -> usize {
        match &self.bytes {
            TextBytes::InFile { file: Some(file), .. } => file.look_ahead(),
            _ => 0,
        }
    }

    /// Told that a line is read soon.
    pub(super) fn expect(&self, start: u64, len: u64) {
        if let TextBytes::InFile { file: Some(file), .. } = &self.bytes {
            file.expect(start, len);
        }
    }

    /// Bytes of memory that are held.
    pub(super) fn held(&self) -> u64 {
        match &self.bytes {
            TextBytes::Held(bytes) => bytes.len() as u64,
            TextBytes::InFile { .. } | TextBytes::Replaceable { .. } => 0,
        }
    }

    pub(super) fn stamp_len(&self) -> u64 {
        self.stamp.len
    }
}
