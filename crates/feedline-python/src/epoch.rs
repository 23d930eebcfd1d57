//! The iterator over one epoch.
//!
//! Waiting happens without the GIL and in slices, so that signals (Ctrl-C) are looked at.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use feedline::{EpochToken, Figures, Form, Meter, Next};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use smallvec::SmallVec;

use crate::batch_function::BatchFunction;
use crate::call::Functions;
use crate::closing;
use crate::errors;
use crate::function::take_interrupt;
use crate::output::Output;
use crate::sync::lock;
use crate::trim;

/// How long a wait may go on before signals are looked at.
const PATIENCE: Duration = Duration::from_millis(50);

/// The batches of one epoch.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct NativeEpoch {
    pub(crate) loader: Option<Arc<feedline::Loader>>,
    pub(crate) token: EpochToken,
    pub(crate) meter: Option<Mutex<Meter>>,
    /// What shows the meter's figures, if the meter does not itself.
    pub(crate) show: Option<Py<PyAny>>,
    pub(crate) output: Arc<Output>,
    pub(crate) named: bool,
    /// Whether any field is text or bytes.
    pub(crate) has_strings: bool,
    /// How many bytes of them the last batch had, which the user may have dropped by now. Relaxed: an estimate.
    pub(crate) strings: AtomicUsize,
    pub(crate) remade: Option<Arc<BatchFunction>>,
    pub(crate) functions: Functions,
}

impl Drop for NativeEpoch {
    fn drop(&mut self) {
        if self.show.is_some() {
            Python::try_attach(|py| {
                // The loop may have been left by an exception, which must stay as it is.
                let pending = PyErr::take(py);
                self.tell(py, Meter::left);
                if let Some(pending) = pending {
                    pending.restore(py);
                }
            });
        }
        if let Some(loader) = &self.loader {
            loader.cancel(self.token);
        }
        closing::release(self.loader.take());
    }
}

#[pymethods]
impl NativeEpoch {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.show)?;
        self.functions.traverse(&visit)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.take(py, None)
    }

    /// The next batch, or `None` at the end. Raises `TimeoutError` if it takes longer than `timeout`
    /// seconds; it may be asked for again then.
    fn take<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let asked = Instant::now();
        if self.has_strings {
            trim::dropped(self.strings.swap(0, Ordering::Relaxed));
        }
        // Releasing the GIL and taking it back costs more than looking.
        match self.loader().next_ready(self.token) {
            Some(Next::Batch(Ok(batch))) => self.deliver(py, asked, batch),
            ready => self.wait(py, timeout, asked, ready),
        }
    }
}

impl NativeEpoch {
    fn loader(&self) -> &feedline::Loader {
        self.loader.as_ref().expect("taken only by drop")
    }

    /// Whatever is not a batch that is there already. Kept apart, so that it takes up none of the cache lines
    /// that such a batch runs through: after a training step, each is a miss.
    #[cold]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        asked: Instant,
        mut ready: Option<Next>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        loop {
            let next = match ready.take() {
                Some(next) => next,
                None => py.detach(|| self.loader().next_within(self.token, patience(limit, asked))),
            };
            // Only a thread that works itself is interrupted in a function.
            take_interrupt().map_or(Ok(()), Err)?;
            match next {
                Next::Batch(Ok(batch)) => return self.deliver(py, asked, batch),
                Next::Pending => {
                    py.check_signals()?;
                    if limit.is_some_and(|limit| asked.elapsed() >= limit) {
                        return Err(PyTimeoutError::new_err("no batch within the time"));
                    }
                }
                Next::End => {
                    self.tell(py, |meter| meter.ended(asked));
                    return Ok(None);
                }
                Next::Batch(Err(error)) => {
                    if matches!(error, feedline::Error::Closed) {
                        closing::stop_if_at_exit(py);
                    }
                    self.tell(py, |meter| meter.delivered(asked, 0));
                    return Err(errors::batch_error(py, &error));
                }
            }
        }
    }

    fn deliver<'py>(
        &self,
        py: Python<'py>,
        asked: Instant,
        batch: feedline::Batch,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.tell(py, |meter| meter.delivered(asked, batch.len() as u64));
        self.hand_over(py, batch).map(Some)
    }

    fn tell(&self, py: Python<'_>, what: impl FnOnce(&mut Meter) -> Option<Figures>) {
        let Some(meter) = &self.meter else { return };
        // Not under the lock: it is Python code that shows them.
        let figures = what(&mut lock(meter));
        if let (Some(show), Some(figures)) = (&self.show, figures) {
            let shown = show.bind(py).call1((figures.done, figures.to_string(), figures.over));
            if let Err(error) = shown {
                // A batch must not be lost because a bar cannot be drawn.
                error.write_unraisable(py, Some(show.bind(py)));
            }
        }
    }

    /// The batch as Python gets it: arrays as views, text and bytes as lists.
    fn hand_over<'py>(
        &self,
        py: Python<'py>,
        batch: feedline::Batch,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut arrays = batch.into_arrays().into_iter();
        let dict = self.named.then(|| PyDict::new(py));
        let mut values: SmallVec<[_; 4]> = SmallVec::new();
        while let Some(array) = arrays.next() {
            let name = self.named.then(|| PyString::new(py, array.name()));
            let value = match self.kind(array.name()) {
                None => self.output.view(py, array)?,
                Some(text) => {
                    let offsets = arrays.next();
                    self.strings.fetch_add(array.byte_len(), Ordering::Relaxed);
                    strings(py, &array, offsets.as_ref(), text)?.into_any()
                }
            };
            match (&dict, name) {
                (Some(dict), Some(name)) => dict.set_item(name, value)?,
                _ => values.push(value),
            }
        }
        match dict {
            Some(dict) => Ok(dict.into_any()),
            None => Ok(PyTuple::new(py, values)?.into_any()),
        }
    }

    /// Whether a field is text (`true`) or bytes; `None` for numbers.
    fn kind(&self, name: &str) -> Option<bool> {
        if !self.has_strings {
            return None;
        }
        if let Some(function) = &self.remade {
            return function.strings(name);
        }
        let field = self.loader().fields().iter().find(|field| field.name() == name)?;
        match field.form() {
            Form::Bytes { text } => Some(*text),
            _ => None,
        }
    }
}

/// How long to wait before signals, and the time limit, are looked at again.
fn patience(limit: Option<Duration>, since: Instant) -> Duration {
    limit.map_or(PATIENCE, |limit| limit.saturating_sub(since.elapsed()).min(PATIENCE))
}

/// Packed bytes and their offsets as a list of `str` or `bytes`.
pub(crate) fn strings<'py>(
    py: Python<'py>,
    packed: &feedline::Array,
    offsets: Option<&feedline::Array>,
    text: bool,
) -> PyResult<Bound<'py, PyList>> {
    let offsets = offsets.and_then(|offsets| offsets.as_slice::<i64>().ok()).unwrap_or(&[]);
    let bytes = packed.as_bytes();
    let list = PyList::empty(py);
    for pair in offsets.windows(2) {
        let value = &bytes[pair[0] as usize..pair[1] as usize];
        if text {
            list.append(PyString::new(py, &String::from_utf8_lossy(value)))?;
        } else {
            list.append(PyBytes::new(py, value))?;
        }
    }
    Ok(list)
}
