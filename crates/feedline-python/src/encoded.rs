//! Opening sources of encoded samples: long, so without the GIL, with a count, and open to Ctrl-C.

use std::ops::ControlFlow;
use std::sync::Arc;

use feedline::Counter;
use feedline::sources::{Encoded, Parts, SourceError, Watch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::source::Source;

/// Opens a source and reads its parts as their names say. `what` is counted while it is opened, on
/// standard error if `progress` asks for it.
pub(crate) fn open<E: Encoded>(
    py: Python<'_>,
    what: &str,
    progress: bool,
    open: impl FnOnce(Watch<'_>) -> Result<E, SourceError> + Send,
) -> PyResult<Source> {
    let mut counter = progress.then(|| Counter::new(what));
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
    let encoded: Arc<dyn Encoded> = Arc::new(opened.map_err(|e| errors::source_error(&e))?);
    let parts = py.detach(|| Parts::by_name(Arc::clone(&encoded)));
    let parts = parts.map_err(|cause| PyValueError::new_err(cause.to_string()))?;
    Ok(Source::of_encoded(encoded, parts))
}
