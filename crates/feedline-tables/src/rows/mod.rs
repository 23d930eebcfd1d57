//! Files of rows in text: where each row begins, and reading it.

mod scan;
mod starts;
mod value;

use std::path::{Path, PathBuf};

use feedline_core::{Cause, SampleIndex};
use feedline_sources::Watch;

use crate::TableError;
use crate::open_file::OpenFile;

pub(crate) use scan::{Quoting, RowSyntax};
pub(crate) use value::{NumberFault, write_number};

use starts::{RowStarts, StartsFile};

/// What rows are in files of text, and where tables of their beginnings are kept.
#[derive(Clone, Debug)]
pub struct RowOptions {
    /// Where tables of row starts are kept; by default `feedline/tables` in the user's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// A row of more bytes is an error and not read.
    pub max_bytes: u64,
    /// Bytes of all objects of a table that are held in memory, rather than each row being a request.
    pub held: u64,
}

impl Default for RowOptions {
    fn default() -> RowOptions {
        RowOptions { cache_dir: None, max_bytes: 16 << 20, held: 128 << 20 }
    }
}

/// One file of rows.
pub(crate) struct RowFile {
    pub(crate) file: OpenFile,
    starts: RowStarts,
}

impl RowFile {
    /// Opens a file and finds its rows, or reads what was found before. Rows begin at `from`, on line `line`.
    pub(crate) fn open(
        file: OpenFile,
        (from, line): (u64, u64),
        syntax: &RowSyntax,
        options: &RowOptions,
        watch: Watch<'_>,
    ) -> Result<RowFile, TableError> {
        let folder = options.cache_dir.clone().or_else(starts::default_folder);
        let kept = folder.map(|folder| StartsFile::of(&folder, &file, syntax, from));
        if let Some(starts) = kept.as_ref().and_then(StartsFile::read) {
            return Ok(RowFile { file, starts });
        }
        let starts = RowStarts::find(&file, (from, line), syntax, kept.as_ref(), watch)?;
        Ok(RowFile { file, starts })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.starts.rows()
    }

    /// Appends the bytes of a row, with what ends it.
    pub(crate) fn read(
        &self,
        row: u64,
        max_bytes: u64,
        raw: &mut Vec<u8>,
    ) -> Result<(), TableError> {
        let io = |source| TableError::Io { doing: "read", path: self.path().to_path_buf(), source };
        let (start, end) = self.starts.get(row).map_err(io)?;
        let bytes = end.saturating_sub(start);
        if bytes > max_bytes {
            return Err(TableError::Row(format!(
                "the row has {bytes} bytes, more than max_bytes={max_bytes}; make that larger"
            )));
        }
        let read = self.file.append(raw, start, bytes as usize);
        self.file.check_unchanged()?;
        read.map_err(io)
    }

    /// Told that a row is read soon.
    fn expect(&self, row: u64, max_bytes: u64) {
        if self.file.is_far()
            && let Ok((start, end)) = self.starts.get(row)
            && end.saturating_sub(start) <= max_bytes
        {
            self.file.expect_just(start, end - start);
        }
    }

    /// The line that a row begins on, counted from 1.
    fn line(&self, row: u64) -> Option<u64> {
        let (first, line) = self.starts.line_before(row).ok()?;
        let (start, _) = self.starts.get(row).ok()?;
        // A few hundred rows at most; so that rows of many megabytes do not fill the memory, in pieces.
        let (mut at, mut lines, mut piece) = (first, line, Vec::new());
        while at < start {
            let length = (start - at).min(1 << 20);
            piece.clear();
            self.file.append(&mut piece, at, length as usize).ok()?;
            lines += memchr::memchr_iter(b'\n', &piece).count() as u64;
            at += length;
        }
        Some(lines)
    }
}

/// Files of rows, one after the other.
pub(crate) struct RowFiles {
    files: Vec<RowFile>,
    /// After the last row of each file.
    ends: Vec<u64>,
    max_bytes: u64,
}

impl RowFiles {
    pub(crate) fn new(files: Vec<RowFile>, max_bytes: u64) -> RowFiles {
        let ends = files.iter().scan(0u64, |end, file| {
            *end = end.saturating_add(file.rows());
            Some(*end)
        });
        RowFiles { ends: ends.collect(), files, max_bytes }
    }

    pub(crate) fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The file of a row, and its place there.
    pub(crate) fn locate(&self, index: SampleIndex) -> Option<(usize, u64)> {
        let file = self.ends.partition_point(|end| *end <= index.0);
        let before = if file == 0 { 0 } else { self.ends[file - 1] };
        (file < self.files.len()).then(|| (file, index.0 - before))
    }

    pub(crate) fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let missing = || format!("there is no row {}; there are {}", index.0, self.len());
        let (file, row) = self.locate(index).ok_or_else(missing)?;
        Ok(self.files[file].read(row, self.max_bytes, raw)?)
    }

    /// How many rows ahead they want to be told of.
    pub(crate) fn look_ahead(&self) -> usize {
        self.files.iter().map(|file| file.file.look_ahead()).max().unwrap_or(0)
    }

    pub(crate) fn expect(&self, indices: &[SampleIndex]) {
        for (file, row) in indices.iter().filter_map(|index| self.locate(*index)) {
            self.files[file].expect(row, self.max_bytes);
        }
    }

    pub(crate) fn origin(&self, index: SampleIndex) -> Option<String> {
        let (file, row) = self.locate(index)?;
        let file = &self.files[file];
        Some(match file.line(row) {
            Some(line) => format!("{}:{line}", file.path().display()),
            None => format!("{}[{row}]", file.path().display()),
        })
    }
}
