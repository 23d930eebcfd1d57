//! Whole files as samples, in folders that are labels.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use feedline_core::{Cause, DType, Dataset, Field, Sample, SampleIndex};

use super::compression::Compression;
use super::decoding::{MARK, OnBadText, TextEncoding, decoded, foreign};
use super::lines::not_text;
use crate::files::{FileOptions, Files};
use crate::{Encoded, SourceError, Watch, escaped};

/// How files are read.
#[derive(Clone, Debug)]
pub struct TextFilesOptions {
    /// Endings of the names that count, compared without regard to case.
    pub extensions: Vec<String>,
    /// Whether the folders in the folder are labels.
    pub labels: bool,
    /// The folders that are taken, in the order of their labels; `None`: all, in the order of their names.
    pub chosen: Option<Vec<OsString>>,
    /// How bytes are text.
    pub encoding: TextEncoding,
    /// What becomes of bytes that are not.
    pub on_bad: OnBadText,
    /// A file with more bytes, packed or unpacked, is an error of its sample.
    pub max_bytes: u64,
}

impl Default for TextFilesOptions {
    fn default() -> TextFilesOptions {
        TextFilesOptions {
            extensions: [".txt", ".gz", ".zst"].map(str::to_string).to_vec(),
            labels: true,
            chosen: None,
            encoding: TextEncoding::default(),
            on_bad: OnBadText::default(),
            max_bytes: 64 << 20,
        }
    }
}

/// Files below a folder as a dataset of the fields `text` and, with labels, `label` (an int64): the layout of
/// the IMDB reviews (`train/pos/0_9.txt`).
///
/// Which files there are, and in which order, is as for [`Files`].
#[derive(Debug)]
pub struct TextFiles {
    listed: Arc<Listed>,
    options: TextFilesOptions,
}

#[derive(Debug)]
struct Listed {
    files: Files,
    /// Neighbouring files of one label: the number of the first among the samples, and among all files; the label.
    runs: Vec<(u64, u64, i64)>,
    len: u64,
    classes: Option<Vec<OsString>>,
}

impl TextFiles {
    /// Lists the folder; `watch` is told how many files were found so far.
    pub fn open(
        root: impl Into<PathBuf>,
        options: &TextFilesOptions,
        watch: Watch<'_>,
    ) -> Result<TextFiles, SourceError> {
        let root = root.into();
        let listing = FileOptions {
            extensions: options.extensions.clone(),
            classes: options.labels,
            // One that is not chosen may be.
            allow_empty: options.chosen.is_some(),
            max_bytes: options.max_bytes,
        };
        let files = Files::open(&root, &listing, watch)?;
        let Some(classes) = files.classes().filter(|_| options.labels) else {
            let len = Encoded::len(&files);
            let listed = Listed { files, runs: vec![(0, 0, 0)], len, classes: None };
            return Ok(TextFiles { listed: Arc::new(listed), options: options.clone() });
        };
        let all = classes.to_vec();
        let chosen = options.chosen.clone().unwrap_or_else(|| all.clone());
        let (mut runs, mut len) = (Vec::new(), 0);
        for (label, name) in chosen.iter().enumerate() {
            let Some(class) = all.iter().position(|class| class == name) else {
                let name = escaped(name.as_encoded_bytes()).to_string();
                return Err(SourceError::NoSuchLabel { path: root, name });
            };
            let start = first_of(&files, class as i64);
            let count = first_of(&files, class as i64 + 1) - start;
            if count == 0 {
                let classes = escaped(name.as_encoded_bytes()).to_string();
                let extensions = options.extensions.join(", ");
                return Err(SourceError::EmptyClasses { path: root, classes, extensions });
            }
            runs.push((len, start, label as i64));
            len += count;
        }
        let listed = Listed { files, runs, len, classes: Some(chosen) };
        Ok(TextFiles { listed: Arc::new(listed), options: options.clone() })
    }

    /// The names of the folders, in the order of their labels.
    #[must_use]
    pub fn classes(&self) -> Option<&[OsString]> {
        self.listed.classes.as_deref()
    }
}

/// The number of the first file of a class or of a later one: files come by class.
fn first_of(files: &Files, class: i64) -> u64 {
    let (mut low, mut high) = (0, Encoded::len(files));
    while low < high {
        let middle = low + (high - low) / 2;
        match files.label(SampleIndex(middle)).is_some_and(|label| label < class) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

impl Listed {
    /// The number of a sample's file, and its label.
    fn find(&self, index: SampleIndex) -> Option<(SampleIndex, i64)> {
        if index.0 >= self.len {
            return None;
        }
        let run = self.runs.partition_point(|(first, ..)| *first <= index.0).checked_sub(1)?;
        let (first, start, label) = self.runs[run];
        Some((SampleIndex(start + (index.0 - first)), label))
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.files.origin(self.find(index)?.0)
    }
}

impl Dataset for TextFiles {
    fn len(&self) -> u64 {
        self.listed.len
    }

    fn fields(&self) -> Vec<Field> {
        let label = self.listed.classes.as_ref().map(|_| Field::fixed("label", DType::I64, []));
        std::iter::once(Field::text("text")).chain(label).collect()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let (file, _) = self.listed.find(index).ok_or("there is no such file")?;
        self.listed.files.load(file, raw)?;
        let Some(compression) = Compression::of(raw) else { return Ok(()) };
        let (packed, most) = (std::mem::take(raw), self.options.max_bytes);
        let cannot = |error: std::io::Error| format!("cannot unpack it: {error}");
        let unpacked = compression.reader(&*packed).map_err(cannot)?;
        unpacked.take(most.saturating_add(1)).read_to_end(raw).map_err(cannot)?;
        if raw.len() as u64 > most {
            return Err(format!(
                "the file unpacks to more than the {most} bytes that a sample may have; raise max_bytes if it is \
                 what it should be"
            )
            .into());
        }
        Ok(())
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        if let Some(what) = foreign(raw) {
            return Err(format!("the file is {what}; convert it to UTF-8").into());
        }
        let bytes = raw.strip_prefix(MARK).unwrap_or(raw);
        match decoded(bytes, self.options.encoding, self.options.on_bad) {
            Ok(text) => sample.put_bytes(0, text.as_bytes())?,
            Err(at) => return Err(not_text("file", bytes, at)),
        }
        if self.listed.classes.is_some()
            && let Some((_, label)) = self.listed.find(sample.index())
        {
            sample.put(1, &[label])?;
        }
        Ok(())
    }

    /// Labels, without reading files.
    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let labels = fields == [1] && self.listed.classes.is_some();
        labels.then(|| Arc::new(FolderLabels(Arc::clone(&self.listed))) as Arc<dyn Dataset>)
    }

    fn look_ahead(&self) -> usize {
        self.listed.files.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        let files: Vec<_> =
            indices.iter().filter_map(|i| self.listed.find(*i)).map(|found| found.0).collect();
        self.listed.files.expect(&files);
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.listed.files.cost_hint(self.listed.find(index)?.0)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.listed.origin(index)
    }
}

/// The labels alone.
struct FolderLabels(Arc<Listed>);

impl Dataset for FolderLabels {
    fn len(&self) -> u64 {
        self.0.len
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("label", DType::I64, [])]
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let (_, label) = self.0.find(sample.index()).ok_or("there is no such file")?;
        Ok(sample.put(0, &[label])?)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.0.origin(index)
    }
}
