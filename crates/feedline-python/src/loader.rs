//! The loader and its iterator: the one door between Python and the engine.
//!
//! Waiting happens without the GIL and in slices, so that signals (Ctrl-C) are looked at; dropping a
//! loader releases the GIL as well, since its workers may need it to end.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use feedline::{
    Boundary, Delivery, EpochToken, LoaderBuilder, Next, OnError, Order, PolicyKind, plan,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::Output;
use crate::errors;
use crate::source::Source;

/// How long a wait may go on before signals are looked at.
const PATIENCE: Duration = Duration::from_millis(50);

/// All loaders alive, so that they can be closed before the interpreter goes.
static LOADERS: Mutex<Vec<Weak<feedline::Loader>>> = Mutex::new(Vec::new());

/// The engine's loader.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct NativeLoader {
    /// `None` only while it is being dropped.
    loader: Option<Arc<feedline::Loader>>,
    output: Arc<Output>,
    /// Whether batches are dicts by name rather than tuples.
    named: bool,
}

impl NativeLoader {
    fn loader(&self) -> &Arc<feedline::Loader> {
        self.loader.as_ref().expect("taken only by drop")
    }

    /// Refuses to touch a loader whose threads are in another process.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.loader().check_process().map_err(|e| errors::batch_error(py, &e))
    }
}

impl Drop for NativeLoader {
    fn drop(&mut self) {
        release(self.loader.take());
    }
}

/// Drops a loader, waiting for its workers without the GIL.
fn release(loader: Option<Arc<feedline::Loader>>) {
    let Some(loader) = loader else { return };
    let mut loader = Some(loader);
    // Without an interpreter there is no GIL to release either; then it is dropped below.
    let _ = Python::try_attach(|py| py.detach(|| drop(loader.take())));
}

#[pymethods]
impl NativeLoader {
    #[new]
    #[pyo3(signature = (source, named, output, settings))]
    fn new(
        py: Python<'_>,
        source: &Source,
        named: bool,
        output: &str,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<NativeLoader> {
        let output = Arc::new(Output::named(py, output)?);
        let builder = describe(source, settings)?;
        let loader = py.detach(|| builder.build()).map_err(|e| errors::build_error(py, &e))?;
        let loader = Arc::new(loader);
        let mut loaders = LOADERS.lock().unwrap_or_else(PoisonError::into_inner);
        loaders.retain(|loader| loader.strong_count() > 0);
        loaders.push(Arc::downgrade(&loader));
        Ok(NativeLoader { loader: Some(loader), output, named })
    }

    /// Batches per epoch.
    fn __len__(&self) -> usize {
        usize::try_from(self.loader().len()).unwrap_or(usize::MAX)
    }

    /// Begins the next epoch.
    fn epoch(&self, py: Python<'_>) -> PyResult<NativeEpoch> {
        let loader = Arc::clone(self.loader());
        self.check(py)?;
        let token = loader.start_epoch();
        Ok(NativeEpoch {
            loader: Some(loader),
            token,
            output: Arc::clone(&self.output),
            named: self.named,
        })
    }

    /// Everything that was measured, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.check(py)?;
        let stats = py.detach(|| self.loader().stats());
        serde_json::to_string(&stats).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    /// The measurements in words.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        self.check(py)?;
        Ok(py.detach(|| self.loader().stats().explain()))
    }

    /// Samples that could not be made, as exceptions.
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.check(py)?;
        let errors = self.loader().errors();
        let exception = |e| errors::sample_error(py, e).into_value(py).into_bound(py).into_any();
        Ok(errors.iter().map(exception).collect())
    }

    /// How many threads make samples.
    #[getter]
    fn workers(&self) -> usize {
        self.loader().workers()
    }
}

/// The batches of one epoch.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct NativeEpoch {
    loader: Option<Arc<feedline::Loader>>,
    token: EpochToken,
    output: Arc<Output>,
    named: bool,
}

impl Drop for NativeEpoch {
    fn drop(&mut self) {
        if let Some(loader) = &self.loader {
            loader.cancel(self.token);
        }
        release(self.loader.take());
    }
}

#[pymethods]
impl NativeEpoch {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let loader = self.loader.as_ref().expect("taken only by drop");
        loop {
            match py.detach(|| loader.next_within(self.token, PATIENCE)) {
                Next::Pending => py.check_signals()?,
                Next::End => return Ok(None),
                Next::Batch(Ok(batch)) => return self.hand_over(py, batch).map(Some),
                Next::Batch(Err(error)) => return Err(errors::batch_error(py, &error)),
            }
        }
    }
}

impl NativeEpoch {
    fn hand_over<'py>(
        &self,
        py: Python<'py>,
        batch: feedline::Batch,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arrays = batch.into_arrays();
        if self.named {
            let dict = PyDict::new(py);
            for array in arrays {
                let name = array.name().to_string();
                dict.set_item(name, self.output.view(py, array)?)?;
            }
            return Ok(dict.into_any());
        }
        let views: Vec<_> =
            arrays.into_iter().map(|array| self.output.view(py, array)).collect::<PyResult<_>>()?;
        Ok(PyTuple::new(py, views)?.into_any())
    }
}

/// Closes all loaders; called when the interpreter is about to go.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let loaders = std::mem::take(&mut *LOADERS.lock().unwrap_or_else(PoisonError::into_inner));
    py.detach(|| {
        for loader in loaders.iter().filter_map(Weak::upgrade) {
            loader.close();
        }
    });
}

/// Turns the keyword arguments into a builder.
fn describe(source: &Source, settings: &Bound<'_, PyDict>) -> PyResult<LoaderBuilder> {
    let mut builder = feedline::Loader::builder(source.dataset());
    let shuffle: bool = setting(settings, "shuffle")?.unwrap_or(false);
    let order = match source.parts() {
        Some(parts) => Order::Mixed { parts: parts.to_vec(), samples: None },
        None if shuffle => Order::Shuffled,
        None => Order::Sequential,
    };
    builder = builder.order(order);
    if let Some(samples) = setting(settings, "batch_size")? {
        builder = builder.batch_size(samples);
    }
    if let Some(seed) = setting(settings, "seed")? {
        builder = builder.seed(seed);
    }
    if let Some(boundary) = setting::<String>(settings, "boundary")? {
        builder = builder.boundary(match &*boundary {
            "drop" => Boundary::Drop,
            "pad" => Boundary::Pad,
            _ => Boundary::Keep,
        });
    }
    if let Some((rank, world)) = setting(settings, "rank")? {
        builder = builder.rank(rank, world);
    }
    if let Some(threads) = setting(settings, "workers")? {
        builder = builder.workers(threads);
    }
    if let Some(threads) = setting(settings, "io_workers")? {
        builder = builder.io_workers(threads);
    }
    if let Some(name) = setting::<String>(settings, "policy")? {
        let policy = PolicyKind::from_name(&name).ok_or_else(|| {
            let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
            PyValueError::new_err(format!(
                "policy must be one of {}, got {name:?}",
                names.join(", ")
            ))
        })?;
        builder = builder.policy(policy);
    }
    if let Some(batches) = setting(settings, "prefetch")? {
        builder = builder.prefetch(batches);
    }
    if let Some(bytes) = setting(settings, "memory")? {
        builder = builder.memory(bytes);
    }
    if let Some(window) = setting(settings, "ready_window")? {
        builder = builder.delivery(Delivery::Ready { window });
    }
    if let Some(policy) = setting::<String>(settings, "on_error")? {
        builder = builder.on_error(match &*policy {
            "skip" => OnError::Skip,
            "replace" => OnError::Replace,
            _ => OnError::Raise,
        });
    }
    if let Some(samples) = setting(settings, "max_errors")? {
        builder = builder.max_errors(samples);
    }
    if let Some(seconds) = setting::<f64>(settings, "sample_timeout")? {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|_| {
            PyValueError::new_err(format!(
                "sample_timeout must be a number of seconds above 0, got {seconds}"
            ))
        })?;
        builder = builder.sample_timeout(limit);
    }
    if let Some(count) = setting(settings, "epochs")? {
        builder = builder.epochs(count);
    }
    Ok(builder)
}

fn setting<'py, T>(settings: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    match settings.get_item(name)? {
        Some(value) if !value.is_none() => match value.extract() {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let error: PyErr = error.into();
                Err(PyValueError::new_err(format!(
                    "{name}: {}, got {value:?}",
                    error.value(settings.py())
                )))
            }
        },
        _ => Ok(None),
    }
}

/// The parts of a mixture.
pub(crate) type Parts = Vec<plan::Part>;
