//! Lines of one or many files.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use feedline_core::{Cause, Dataset, Field, Sample, SampleIndex};

use super::decoding::{OnBadText, TextEncoding, decoded};
use super::kept_table::default_folder;
use super::opened::{BegunState, BegunText, HeldRoom, LinesFile};
use super::scan::{STRETCH, ScannedStretch, look_through};
use crate::crowd::{Watch, each, each_far};
use crate::source_file::is_url;
use crate::sync::lock;
use crate::{SourceError, escaped};

/// How lines are read.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// How bytes are text.
    pub encoding: TextEncoding,
    /// What becomes of bytes that are not.
    pub on_bad: OnBadText,
    /// A line with more bytes is an error of its sample, not read.
    pub max_bytes: u64,
    /// What a compressed file may unpack to.
    pub max_unpacked: u64,
    /// Where tables of lines and unpacked files are kept; `None`: `feedline/text` in the user's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// Bytes of all files that are held in memory rather than read line by line: for lines of the usual length a system call takes a
    /// good part of the time that making tokens of them does, and of an object each is a request.
    pub held: u64,
    /// What the field is called.
    pub field: String,
}

impl Default for TextOptions {
    fn default() -> TextOptions {
        TextOptions {
            encoding: TextEncoding::default(),
            on_bad: OnBadText::default(),
            max_bytes: 64 << 20,
            max_unpacked: 64 << 30,
            cache_dir: None,
            held: 128 << 20,
            field: "text".to_string(),
        }
    }
}

/// Lines of files as a dataset of one field: sample i is line i, files in the order they were given.
///
/// Lines end by `\n` or `\r\n`, which is no part of them; a `\r` elsewhere is a letter like others. What follows the last `\n` is a line
/// if it has any bytes. An empty line is a sample like others. A byte order mark before the first is left out.
///
/// Each file is looked through once, when it is first opened; where its lines are is kept in the cache folder, in about two bytes a
/// line, and used until the file changes. Up to [`held`](TextOptions::held) bytes of all files are held in memory. gzip and zstd are known by their first bytes;
/// what they unpack to is held, too, as far as there is room, and otherwise unpacked once into the cache folder. Of an object that is
/// not held, a line is a request.
#[derive(Debug)]
pub struct TextLines {
    files: Vec<LinesFile>,
    /// The number of each file's first line; then how many lines there are.
    firsts: Vec<u64>,
    options: TextOptions,
}

impl TextLines {
    /// Opens files; `watch` is told how many bytes were looked through so far.
    pub fn open(
        paths: &[PathBuf],
        options: &TextOptions,
        watch: Watch<'_>,
    ) -> Result<TextLines, SourceError> {
        if paths.is_empty() {
            return Err(SourceError::NothingToJoin { what: "text" });
        }
        let folder = options.cache_dir.clone().or_else(default_folder);
        let mut files = Vec::with_capacity(paths.len());
        let room = HeldRoom::new(options.held);
        // As many at a time as may be open.
        for paths in paths.chunks(64) {
            files.extend(open_some(paths, folder.as_deref(), options, &room, watch)?);
            let count = files.len().max(paths.len());
            files.iter_mut().for_each(|file: &mut LinesFile| file.close_if_many(count));
        }
        let mut firsts = Vec::with_capacity(files.len() + 1);
        let mut first = 0_u64;
        for file in &files {
            firsts.push(first);
            first = first.checked_add(file.table.len()).ok_or(SourceError::TooManySamples)?;
        }
        firsts.push(first);
        Ok(TextLines { files, firsts, options: options.clone() })
    }

    /// The file of a line, and the line's number there, counted from 0.
    #[must_use]
    pub fn place(&self, index: SampleIndex) -> Option<(&Path, u64)> {
        let (file, line) = self.find(index)?;
        Some((&file.path, line))
    }

    /// The bytes of each line, without its ending, known without reading.
    pub fn lengths(&self) -> impl Iterator<Item = u64> {
        self.files.iter().flat_map(|file| file.table.lengths())
    }

    /// Bytes of files that are held in memory.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.files.iter().map(LinesFile::held).sum()
    }

    /// Bytes of all files, as they are on disk.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(LinesFile::stamp_len).sum()
    }

    fn find(&self, index: SampleIndex) -> Option<(&LinesFile, u64)> {
        let file = match self.files.len() {
            1 => 0,
            _ => self.firsts.partition_point(|first| *first <= index.0).checked_sub(1)?,
        };
        Some((self.files.get(file)?, index.0 - self.firsts[file]))
    }
}

/// Opens files at once, and the stretches of large ones.
fn open_some(
    paths: &[PathBuf],
    folder: Option<&Path>,
    options: &TextOptions,
    room: &HeldRoom,
    watch: Watch<'_>,
) -> Result<Vec<LinesFile>, SourceError> {
    let seen = AtomicU64::new(0);
    let is_far = paths.iter().any(|path| is_url(path));
    let begun = each_far(is_far, paths.len(), &seen, watch, |job, _| {
        BegunText::open(&paths[job], folder, room, &seen)
    })?;
    // What is to be done: stretches of plain files, compressed ones as a whole.
    let mut jobs = Vec::new();
    for (number, file) in begun.iter().enumerate() {
        match &file.state {
            BegunState::Known(_) => {}
            BegunState::Plain { first } => {
                let mut at = *first;
                while at < file.len() {
                    let end = at.saturating_add(STRETCH).min(file.len());
                    jobs.push((number, Some((*first, at..end))));
                    at = end;
                }
            }
            BegunState::Packed(_) => jobs.push((number, None)),
        }
    }
    let unpacked: Vec<_> = begun.iter().map(|_| Mutex::new(None)).collect();
    let begun: Vec<_> = begun.into_iter().map(|file| Mutex::new(Some(file))).collect();
    let found = each(jobs.len(), &seen, watch, |job, stop| {
        let (number, range) = &jobs[job];
        match range {
            Some((first, range)) => {
                // Another handle, so that stretches of one file are read at once.
                let file = lock(&begun[*number]).as_ref().map(|file| file.file.another());
                let file = file.transpose().map_err(|source| cannot(&paths[*number], source))?;
                let Some(file) = file else { return Ok(None) };
                let found = look_through(&file, range.clone(), *first, &seen, stop)
                    .map_err(|source| cannot(&paths[*number], source))?;
                found.map(Some).ok_or(SourceError::Interrupted)
            }
            None => {
                let Some(file) = lock(&begun[*number]).take() else { return Ok(None) };
                if let BegunState::Packed(compression) = file.state {
                    let file = file.unpacked(compression, options, room, &seen, stop)?;
                    *lock(&unpacked[*number]) = Some(file);
                }
                Ok(None)
            }
        }
    })?;
    let mut stretches: Vec<Vec<ScannedStretch>> = begun.iter().map(|_| Vec::new()).collect();
    for ((number, _), found) in jobs.iter().zip(found) {
        stretches[*number].extend(found);
    }
    let mut files = Vec::with_capacity(begun.len());
    for ((begun, unpacked), stretches) in begun.into_iter().zip(unpacked).zip(stretches) {
        if let Some(file) = unpacked.into_inner().unwrap_or_else(PoisonError::into_inner) {
            files.push(file);
            continue;
        }
        let Some(file) = begun.into_inner().unwrap_or_else(PoisonError::into_inner) else {
            return Err(SourceError::Interrupted);
        };
        files.push(match file.state {
            BegunState::Known(_) => file.known(room)?,
            _ => file.scanned(&stretches, room)?,
        });
    }
    Ok(files)
}

fn cannot(path: &Path, source: std::io::Error) -> SourceError {
    SourceError::Io { doing: "read", path: path.to_path_buf(), source }
}

impl Dataset for TextLines {
    fn len(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::text(&self.options.field)]
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let (file, line) = self.find(index).ok_or("there is no such line")?;
        let place = file.table.line(line).ok_or("there is no such line")?;
        if place.len > self.options.max_bytes {
            return Err(format!(
                "the line has {} bytes, more than the {} that a sample may have; raise max_bytes if it is what \
                 it should be",
                place.len, self.options.max_bytes
            )
            .into());
        }
        file.read(place.start, place.len as usize, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        match decoded(raw, self.options.encoding, self.options.on_bad) {
            Ok(text) => Ok(sample.put_bytes(0, text.as_bytes())?),
            Err(at) => Err(not_text("line", raw, at)),
        }
    }

    fn look_ahead(&self) -> usize {
        self.files.iter().map(LinesFile::look_ahead).max().unwrap_or(0)
    }

    fn expect(&self, indices: &[SampleIndex]) {
        for index in indices {
            if let Some((file, line)) = self.find(*index)
                && let Some(place) = file.table.line(line)
                && place.len <= self.options.max_bytes
            {
                file.expect(place.start, place.len);
            }
        }
    }

    /// The line's bytes, where those are what is delivered.
    fn known_length(&self, index: SampleIndex, _field: usize) -> Option<u64> {
        let as_it_is = (TextEncoding::Utf8, OnBadText::Refuse);
        let delivered = (self.options.encoding, self.options.on_bad) == as_it_is;
        self.cost_hint(index).filter(|_| delivered)
    }

    /// The line's bytes.
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        let (file, line) = self.find(index)?;
        file.table.line(line).map(|place| place.len)
    }

    /// The file and the line, counted from 1.
    fn origin(&self, index: SampleIndex) -> Option<String> {
        let (file, line) = self.find(index)?;
        let path = escaped(file.path.as_os_str().as_encoded_bytes()).to_string();
        Some(format!("{path}:{}", line + 1))
    }
}

/// The error of a sample that is no text from byte `at` on.
pub(super) fn not_text(what: &str, raw: &[u8], at: usize) -> Cause {
    let byte = raw.get(at).copied().unwrap_or(0);
    format!(
        "the {what} is not UTF-8: byte {at} of it is 0x{byte:02x}; convert the file, pass encoding=\"latin-1\" if it is \
         that, or errors=\"replace\""
    )
    .into()
}
