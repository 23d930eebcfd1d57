//! Text: opening files, vocabularies and tokenizers, sequences of tokens.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use feedline::sources::text::{
    OnBadText, PackedRows, PackedRowsOptions, PadLength, SequenceOptions, SequencePadding,
    Sequences, TextEncoding, TextFiles, TextFilesOptions, TextLines, TextOptions, count_words,
    measure,
};
use feedline::sources::tokens::{
    TokenDocuments, TokenHeader, TokenOptions, TokenType, TokenWindows, WindowOptions, WindowOrder,
};
use feedline::sources::{Select, Watch};
use feedline::text::packing::PackingMethod;
use feedline::text::{Encode, TextError, Vocabulary, VocabularyOptions, WordCounts, is_word};
#[cfg(feature = "tokenizers")]
use feedline::text::{FileTokenizer, TokenizerOptions};
use feedline::{Counter, DType, Dataset};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::encoded::watched;
use crate::errors;
use crate::settings::SettingsDict;
use crate::source::Source;
use crate::sync::lock;

const ENCODINGS: [(&str, TextEncoding); 2] =
    [("utf-8", TextEncoding::Utf8), ("latin-1", TextEncoding::Latin1)];
const ERRORS: [(&str, OnBadText); 2] =
    [("strict", OnBadText::Refuse), ("replace", OnBadText::Replace)];
const METHODS: [(&str, PackingMethod); 2] =
    [("best_fit", PackingMethod::BestFit), ("concatenate", PackingMethod::Concatenate)];

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Lines of files. `skip_empty` leaves out those without a byte.
#[pyfunction]
#[pyo3(signature = (paths, settings: "dict[str, object]", skip_empty, progress))]
pub(crate) fn open_text_lines(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    settings: &Bound<'_, PyDict>,
    skip_empty: bool,
    progress: bool,
) -> PyResult<Source> {
    let settings = SettingsDict::new("text", settings);
    let options = TextOptions {
        encoding: settings.choice("encoding", &ENCODINGS)?,
        on_bad: settings.choice("errors", &ERRORS)?,
        max_bytes: settings.get("max_bytes")?,
        max_unpacked: settings.get("max_unpacked")?,
        cache_dir: settings.get_if("cache")?,
        held: settings.get("buffer")?,
        ..TextOptions::default()
    };
    settings.finish()?;
    let counter = progress.then(|| Counter::new("bytes"));
    let open = |watch: Watch<'_>| TextLines::open(&paths, &options, watch);
    let lines = watched(py, counter, open)?;
    if !skip_empty || lines.lengths().all(|length| length > 0) {
        return Ok(Source::of(lines));
    }
    let kept: Arc<[u64]> =
        (0..).zip(lines.lengths()).filter(|(_, l)| *l > 0).map(|(i, _)| i).collect();
    let select = Select::new(Arc::new(lines) as Arc<dyn Dataset>, kept);
    select.map(Source::of).map_err(|e| errors::source_error(&e))
}

/// Whole files below a folder, whose folders are labels or not.
#[pyfunction]
#[pyo3(signature = (root, settings: "dict[str, object]", progress))]
pub(crate) fn open_text_files(
    py: Python<'_>,
    root: PathBuf,
    settings: &Bound<'_, PyDict>,
    progress: bool,
) -> PyResult<Source> {
    let settings = SettingsDict::new("text", settings);
    let options = TextFilesOptions {
        extensions: settings.get("extensions")?,
        labels: settings.get("labels")?,
        chosen: settings.get_if::<Vec<OsString>>("chosen")?,
        encoding: settings.choice("encoding", &ENCODINGS)?,
        on_bad: settings.choice("errors", &ERRORS)?,
        max_bytes: settings.get("max_bytes")?,
    };
    settings.finish()?;
    let counter = progress.then(|| Counter::new("files"));
    let files = watched(py, counter, |watch: Watch<'_>| TextFiles::open(root, &options, watch))?;
    let classes = files.classes().map(<[OsString]>::to_vec);
    Ok(Source::of_classes(files, classes))
}

/// How often each word occurs.
#[pyclass(frozen, module = "feedline._feedline")]
pub(crate) struct NativeWordCounts(std::sync::Mutex<WordCounts>);

#[pymethods]
impl NativeWordCounts {
    /// Nothing is counted yet.
    #[new]
    fn new() -> NativeWordCounts {
        NativeWordCounts(std::sync::Mutex::default())
    }

    /// The words of a text field of all samples.
    #[staticmethod]
    fn of(
        py: Python<'_>,
        source: &Bound<'_, Source>,
        field: &str,
        progress: bool,
    ) -> PyResult<NativeWordCounts> {
        let source = source.get();
        let (dataset, number) = (source.dataset(), source.field(field)?);
        let is_text =
            matches!(dataset.fields()[number].form(), feedline::Form::Bytes { text: true });
        if !is_text {
            return Err(PyValueError::new_err(format!("field {field:?} is no text")));
        }
        let counter = progress.then(|| Counter::new("samples"));
        let counts =
            watched(py, counter, |watch: Watch<'_>| count_words(&*dataset, number, watch))?;
        Ok(NativeWordCounts(std::sync::Mutex::new(counts)))
    }

    /// Counts the words of a text.
    fn add(&self, text: &str) {
        lock(&self.0).add(text);
    }

    /// Each word and how often it was seen.
    fn items(&self) -> Vec<(String, u64)> {
        lock(&self.0).iter().map(|(word, count)| (word.to_string(), count)).collect()
    }
}

/// Words by number.
#[pyclass(frozen, module = "feedline._feedline")]
pub(crate) struct NativeVocabulary(Arc<Vocabulary>);

#[pymethods]
impl NativeVocabulary {
    /// The words that were counted; what was counted is gone then.
    #[staticmethod]
    #[pyo3(signature = (counts, settings: "dict[str, object]"))]
    fn build(
        py: Python<'_>,
        counts: &Bound<'_, NativeWordCounts>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<NativeVocabulary> {
        let settings = SettingsDict::new("Vocabulary", settings);
        let options = VocabularyOptions {
            size: settings.get_if("size")?,
            min_count: settings.get("min_count")?,
            pad: settings.get_if("pad")?,
            unknown: settings.get_if("unknown")?,
            specials: settings.get("specials")?,
        };
        settings.finish()?;
        let counts = std::mem::take(&mut *lock(&counts.get().0));
        let built = py.detach(|| Vocabulary::build(counts, &options));
        built.map(|made| NativeVocabulary(Arc::new(made))).map_err(value_error)
    }

    /// Tokens in the order of their ids.
    #[staticmethod]
    fn of(
        tokens: Vec<String>,
        pad: Option<&str>,
        unknown: Option<&str>,
    ) -> PyResult<NativeVocabulary> {
        let made = Vocabulary::of(tokens.iter().map(String::as_str), pad, unknown);
        made.map(|made| NativeVocabulary(Arc::new(made))).map_err(value_error)
    }

    /// Reads what `to_json` wrote.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &str) -> PyResult<NativeVocabulary> {
        let read = py.detach(|| Vocabulary::from_json(json));
        read.map(|made| NativeVocabulary(Arc::new(made))).map_err(value_error)
    }

    /// The vocabulary as text.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// All tokens in the order of their ids.
    fn tokens(&self) -> Vec<String> {
        self.0.tokens().map(str::to_string).collect()
    }

    /// The id of a token, as it is.
    fn id(&self, token: &str) -> Option<u32> {
        self.0.id(token)
    }

    /// The token of an id.
    fn token(&self, id: u32) -> Option<String> {
        self.0.token(id).map(str::to_string)
    }

    /// The id that rows are padded with.
    #[getter]
    fn pad(&self) -> Option<u32> {
        self.0.pad()
    }

    /// The id of words that are not in the vocabulary.
    #[getter]
    fn unknown(&self) -> Option<u32> {
        self.0.unknown()
    }

    /// The ids of a text.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        py.detach(|| encoded(&*self.0, text)).map_err(value_error)
    }

    /// The field of a source as sequences of ids.
    #[pyo3(signature = (source, field, settings: "dict[str, object]"))]
    fn sequences(
        &self,
        py: Python<'_>,
        source: &Bound<'_, Source>,
        field: &str,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Source> {
        sequences(py, source.get(), field, Some(Arc::clone(&self.0) as Arc<dyn Encode>), settings)
    }
}

/// What a `tokenizer.json` says.
#[cfg(feature = "tokenizers")]
#[pyclass(frozen, module = "feedline._feedline")]
pub(crate) struct NativeTokenizer(Arc<FileTokenizer>);

#[cfg(feature = "tokenizers")]
#[pymethods]
impl NativeTokenizer {
    /// Reads the content of a `tokenizer.json`.
    #[new]
    #[pyo3(signature = (json, settings: "dict[str, object]"))]
    fn new(py: Python<'_>, json: &str, settings: &Bound<'_, PyDict>) -> PyResult<NativeTokenizer> {
        let settings = SettingsDict::new("tokenize", settings);
        let options = TokenizerOptions {
            add_special_tokens: settings.get("add_special_tokens")?,
            max_length: settings.get_if("max_length")?,
            left: settings.get("left")?,
            forget_truncation: settings.get("forget_truncation")?,
        };
        settings.finish()?;
        let read = py.detach(|| FileTokenizer::from_json(json, &options));
        read.map(|made| NativeTokenizer(Arc::new(made))).map_err(value_error)
    }

    /// The id that the file pads with, if it says so.
    #[getter]
    fn pad(&self) -> Option<u32> {
        self.0.pad()
    }

    /// The id of a token, as it is.
    fn id(&self, token: &str) -> Option<u32> {
        self.0.id(token)
    }

    /// The ids of a text.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        py.detach(|| encoded(&*self.0, text)).map_err(value_error)
    }

    /// The field of a source as sequences of ids.
    #[pyo3(signature = (source, field, settings: "dict[str, object]"))]
    fn sequences(
        &self,
        py: Python<'_>,
        source: &Bound<'_, Source>,
        field: &str,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Source> {
        sequences(py, source.get(), field, Some(Arc::clone(&self.0) as Arc<dyn Encode>), settings)
    }
}

fn encoded(encoder: &dyn Encode, text: &str) -> Result<Vec<u32>, TextError> {
    let mut ids = Vec::new();
    encoder.encode(text, usize::MAX, &mut ids)?;
    Ok(ids)
}

/// Sequences that a field holds already, cut and padded.
#[pyfunction]
#[pyo3(signature = (source, field, settings: "dict[str, object]"))]
pub(crate) fn cut_sequences(
    py: Python<'_>,
    source: &Bound<'_, Source>,
    field: &str,
    settings: &Bound<'_, PyDict>,
) -> PyResult<Source> {
    sequences(py, source.get(), field, None, settings)
}

fn sequences(
    py: Python<'_>,
    source: &Source,
    field: &str,
    encoder: Option<Arc<dyn Encode>>,
    settings: &Bound<'_, PyDict>,
) -> PyResult<Source> {
    let settings = SettingsDict::new("sequences", settings);
    let dtype: String = settings.get("dtype")?;
    let Some(dtype) = DType::from_name(&dtype) else {
        return Err(PyTypeError::new_err(format!("there is no dtype {dtype}")));
    };
    let padding = match (settings.get_if("length")?, settings.get_if("multiple")?) {
        (Some(length), _) => Some(PadLength::Exactly(length)),
        (None, Some(multiple)) => Some(PadLength::LongestOf(multiple)),
        (None, None) => None,
    };
    let (left, fill, mask) = (settings.get("left")?, settings.get("fill")?, settings.get("mask")?);
    let options = SequenceOptions {
        encoder,
        dtype,
        max_length: settings.get_if("max_length")?,
        keep_end: settings.get("keep_end")?,
        padding: padding.map(|to| SequencePadding { to, left, fill, mask }),
    };
    settings.finish()?;
    let made = Sequences::new(source.dataset(), source.field(field)?, options);
    Ok(source.then(py, made.map_err(value_error)?))
}

/// The length of a field in each sample, as bytes of uint32: of all samples made once.
#[pyfunction]
pub(crate) fn sequence_lengths<'py>(
    py: Python<'py>,
    source: &Bound<'py, Source>,
    field: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let source = source.get();
    let (dataset, field) = (source.dataset(), source.field(field)?);
    let lengths = watched(py, None, |watch: Watch<'_>| measure(&*dataset, field, watch))?;
    let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_ne_bytes()).collect();
    Ok(PyBytes::new(py, &bytes))
}

/// The sequences of a field packed into rows. Also returns how many places hold no token.
#[pyfunction]
#[pyo3(signature = (source, field, lengths, settings: "dict[str, object]"))]
pub(crate) fn pack_sequences(
    py: Python<'_>,
    source: &Bound<'_, Source>,
    field: &str,
    lengths: &Bound<'_, PyBytes>,
    settings: &Bound<'_, PyDict>,
) -> PyResult<(Source, u64)> {
    let source = source.get();
    let settings = SettingsDict::new("pack", settings);
    let options = PackedRowsOptions {
        length: settings.get("length")?,
        method: settings.choice("method", &METHODS)?,
        fill: settings.get("fill")?,
        end: settings.get_if("end")?,
        reshuffle: settings.get("reshuffle")?,
    };
    settings.finish()?;
    let lengths = crate::settings::unpacked(lengths.as_bytes(), u32::from_ne_bytes);
    let (dataset, field) = (source.dataset(), source.field(field)?);
    let rows = py.detach(|| PackedRows::new(dataset, field, lengths, options));
    let rows = rows.map_err(value_error)?;
    let padding = rows.packing().padding();
    Ok((source.regrouped(py, rows), padding))
}

/// Windows or documents of token shards. Also returns how many tokens there are, for windows.
#[pyfunction]
#[pyo3(signature = (paths, settings: "dict[str, object]"))]
pub(crate) fn open_tokens(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    settings: &Bound<'_, PyDict>,
) -> PyResult<(Source, u64)> {
    let settings = SettingsDict::new("tokens", settings);
    let header = match (settings.get("llmc")?, settings.get::<u64>("header")?) {
        (true, _) => TokenHeader::Llmc,
        (false, 0) => TokenHeader::None,
        (false, bytes) => TokenHeader::Skipped(bytes),
    };
    let dtype = settings.choice_if("dtype", &TokenType::ALL)?;
    let options = TokenOptions { dtype, header, held: settings.get("buffer")? };
    let order = match settings.get::<String>("windows")?.as_str() {
        "random" => Some(WindowOrder::Random(settings.get_if("samples")?)),
        "sequential" => Some(WindowOrder::Sequential),
        _ => None,
    };
    let _: Option<u64> = settings.get_if("samples")?;
    let (length, targets) = (settings.get("length")?, settings.get("targets")?);
    settings.finish()?;
    let Some(order) = order else {
        let documents = py.detach(|| TokenDocuments::open(&paths, &options));
        return Ok((Source::of(documents.map_err(|e| errors::source_error(&e))?), 0));
    };
    let windows = WindowOptions { length, order, targets };
    let windows = py.detach(|| TokenWindows::open(&paths, &options, windows));
    let windows = windows.map_err(|e| errors::source_error(&e))?;
    let tokens = windows.tokens();
    Ok((Source::of(windows), tokens))
}

/// The version of Unicode that says what a letter is.
#[pyfunction]
pub(crate) fn text_unicode_version() -> &'static str {
    feedline::text::UNICODE_VERSION
}

/// The code points that belong to words.
#[pyfunction]
pub(crate) fn word_letters() -> Vec<u32> {
    ('\0'..=char::MAX).filter(|letter| is_word(*letter)).map(u32::from).collect()
}
