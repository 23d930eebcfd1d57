//! Opening sources of encoded samples: long, so without the GIL, with a count, and open to Ctrl-C.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use feedline::sources::{Encoded, Parts, SourceError, Watch, tar};
use feedline::{Counter, SampleIndex};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::source::Source;

/// Opens something without the GIL, open to Ctrl-C. What is counted meanwhile is shown by `counter`.
pub(crate) fn watched<T: Send, E: std::error::Error + Send + 'static>(
    py: Python<'_>,
    mut counter: Option<Counter>,
    open: impl FnOnce(Watch<'_>) -> Result<T, E> + Send,
) -> PyResult<T> {
    let mut interrupt = None;
    let mut watch = |count| {
        if let Some(counter) = &mut counter {
            counter.show(count);
        }
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(signal) => {
                interrupt = Some(signal);
                ControlFlow::Break(())
            }
        }
    };
    let opened = py.detach(|| open(&mut watch));
    if let Some(interrupt) = interrupt {
        return Err(interrupt);
    }
    opened.map_err(|e| errors::source_error(&e))
}

/// Opens a source and reads its parts as their names say. `what` is counted while it is opened, on
/// standard error if `progress` asks for it.
pub(crate) fn open<E: Encoded>(
    py: Python<'_>,
    what: &str,
    progress: bool,
    open: impl FnOnce(Watch<'_>) -> Result<E, SourceError> + Send,
) -> PyResult<Source> {
    let counter = progress.then(|| Counter::new(what));
    let encoded: Arc<dyn Encoded> = Arc::new(watched(py, counter, open)?);
    let parts = py.detach(|| Parts::by_name(Arc::clone(&encoded)));
    let parts = parts.map_err(|cause| {
        let first = encoded.origin(SampleIndex(0)).unwrap_or_default();
        PyValueError::new_err(format!("{first}: {cause}"))
    })?;
    Ok(Source::of_encoded(encoded, parts))
}

/// Tar shards in webdataset's layout. `window` and `buffer` are for streaming.
#[pyfunction]
#[pyo3(signature = (paths, parts, cache_dir, max_bytes, streaming, window, buffer, progress))]
#[expect(clippy::too_many_arguments, reason = "what the Python side has, one by one")]
pub(crate) fn open_tar(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    parts: Option<Vec<String>>,
    cache_dir: Option<PathBuf>,
    max_bytes: u64,
    streaming: bool,
    window: Option<u64>,
    buffer: u64,
    progress: bool,
) -> PyResult<Source> {
    let options = tar::TarOptions { parts, cache_dir, max_bytes };
    if streaming {
        let streaming = tar::Streaming { window, buffer };
        let open_shards =
            |watch: Watch<'_>| tar::Streamed::open(&paths, &options, &streaming, watch);
        return open(py, "members", progress, open_shards);
    }
    open(py, "members", progress, |watch: Watch<'_>| tar::Shards::open(&paths, &options, watch))
}

/// The names that a pattern such as `shard-{000..015}.tar` stands for.
#[pyfunction]
pub(crate) fn expand_braces(pattern: &str) -> PyResult<Vec<String>> {
    tar::expand(pattern).map_err(|e| PyValueError::new_err(e.to_string()))
}
