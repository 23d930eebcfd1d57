//! The loader: the one door between Python and the engine.

use std::ffi::CString;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use feedline::{CudaHostMemory, Form, Meter, NoDriver, Order};
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use crate::batch_function::BatchFunction;
use crate::call::Functions;
use crate::closing;
use crate::describe::describe;
use crate::epoch::NativeEpoch;
use crate::errors::{self, SampleException};
use crate::measures::Measures;
use crate::output::Output;
use crate::settings::{SettingsDict, unpacked};
use crate::source::Source;
use crate::state;

/// The engine's loader.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct NativeLoader {
    /// `None` only while it is being dropped.
    loader: Option<Arc<feedline::Loader>>,
    output: Arc<Output>,
    /// Whether batches are dicts by name rather than tuples.
    named: bool,
    /// Where each epoch shows how far it is.
    display: ProgressTo,
    /// Set where batches are what a Python function has made of them.
    remade: Option<Arc<BatchFunction>>,
    /// What its workers call.
    functions: Functions,
}

/// Where epochs show how far they are.
enum ProgressTo {
    Nowhere,
    /// On standard error: a bar, or lines in a log.
    Stderr,
    /// By a Python function: `begin(count)` returns `show(done, text, over)`.
    Python(Py<PyAny>),
}

impl ProgressTo {
    fn of(given: Option<Bound<'_, PyAny>>) -> PyResult<ProgressTo> {
        Ok(match given {
            None => ProgressTo::Nowhere,
            Some(begin) if begin.is_callable() => ProgressTo::Python(begin.unbind()),
            Some(whether) if whether.extract()? => ProgressTo::Stderr,
            Some(_) => ProgressTo::Nowhere,
        })
    }
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
        closing::release(self.loader.take());
    }
}

#[pymethods]
impl NativeLoader {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let ProgressTo::Python(begin) = &self.display {
            visit.call(begin)?;
        }
        self.functions.traverse(&visit)
    }

    #[new]
    #[pyo3(signature = (source, named, output, settings: "dict[str, object]"))]
    fn new(
        py: Python<'_>,
        source: &Source,
        named: bool,
        output: &str,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<NativeLoader> {
        let output = Arc::new(Output::named(py, output)?);
        let settings = SettingsDict::new("a loader", settings);
        let mut builder = describe(source, &settings)?;
        let pinned = settings.get_if("pin_memory")?.unwrap_or(false);
        let progress: Option<Bound<'_, PyAny>> = settings.get_if("progress")?;
        let display = ProgressTo::of(progress)?;
        settings.finish()?;
        if pinned {
            match CudaHostMemory::open(None) {
                Ok(memory) => builder = builder.page_lock(memory),
                Err(reason) => warn_unpinned(py, &reason)?,
            }
        }
        let loader = py.detach(|| builder.build()).map_err(|e| errors::build_error(py, &e))?;
        let loader = Arc::new(loader);
        closing::note(&loader);
        let (functions, remade) = (source.functions(py), source.remade());
        Ok(NativeLoader { loader: Some(loader), output, named, display, remade, functions })
    }

    /// Batches per epoch.
    fn __len__(&self) -> PyResult<usize> {
        if self.loader().plan().is_unbounded() {
            return Err(PyTypeError::new_err(
                "a loader of an iterable pipeline has no length: its samples are not counted before they come",
            ));
        }
        Ok(usize::try_from(self.loader().len()).unwrap_or(usize::MAX))
    }

    /// Begins the next epoch.
    fn epoch(&self, py: Python<'_>) -> PyResult<NativeEpoch> {
        let loader = Arc::clone(self.loader());
        self.check(py)?;
        if loader.is_closed() {
            return Err(errors::batch_error(py, &feedline::Error::Closed));
        }
        let token = loader.start_epoch();
        let (meter, show) = match &self.display {
            ProgressTo::Nowhere => (None, None),
            ProgressTo::Stderr => (Some(Meter::new(loader.left())), None),
            ProgressTo::Python(begin) => {
                let show = begin.bind(py).call1((loader.left(),))?.unbind();
                (Some(Meter::told(loader.left())), Some(show))
            }
        };
        let is_string = |field: &feedline::Field| matches!(field.form(), Form::Bytes { .. });
        let has_strings = self.remade.is_some() || loader.fields().iter().any(is_string);
        Ok(NativeEpoch {
            loader: Some(loader),
            token,
            meter: meter.map(Mutex::new),
            show,
            output: Arc::clone(&self.output),
            named: self.named,
            has_strings,
            strings: AtomicUsize::new(0),
            remade: self.remade.clone(),
            functions: self.functions.clone_ref(py),
        })
    }

    /// Everything that was measured.
    fn measures(&self, py: Python<'_>) -> PyResult<Measures> {
        self.check(py)?;
        Ok(Measures::new(py.detach(|| self.loader().stats())))
    }

    /// Samples that could not be made, as exceptions.
    fn errors(&self, py: Python<'_>) -> PyResult<Vec<SampleException>> {
        self.check(py)?;
        Ok(self.loader().errors().into_iter().map(SampleException).collect())
    }

    /// Where delivery is, as a dict.
    #[pyo3(signature = () -> "dict[str, object]")]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check(py)?;
        state::to_dict(py, &self.loader().state())
    }

    /// Goes on where a state, given as JSON, was taken. `indices`: the samples of its epoch, as 64-bit
    /// integers, where each has an order of its own.
    #[pyo3(signature = (json, force, indices = None))]
    fn load_state(
        &self,
        py: Python<'_>,
        json: &str,
        force: bool,
        indices: Option<&[u8]>,
    ) -> PyResult<()> {
        self.check(py)?;
        let state = state::from_json(py, json)?;
        let loader = self.loader();
        let loaded = py.detach(|| match indices {
            None => Ok(loader.load_state(&state, force)?),
            Some(indices) => loader.load_state_in(listed(indices), &state, force),
        });
        loaded.map_err(|e| errors::build_error(py, &e))
    }

    /// Gives the next epoch an order of its own: these samples, as 64-bit integers.
    fn set_order(&self, py: Python<'_>, indices: &[u8]) -> PyResult<()> {
        self.check(py)?;
        let set = py.detach(|| self.loader().set_order(listed(indices)));
        set.map_err(|e| errors::build_error(py, &e))
    }

    /// Ends all work; the threads are gone afterwards, unless one hangs in a function.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.loader().close());
    }

    /// The epoch of the next batch.
    #[getter]
    fn current_epoch(&self) -> u64 {
        self.loader().current_epoch()
    }

    /// The epoch that is begun next.
    #[getter]
    fn next_epoch(&self) -> u64 {
        self.loader().next_epoch()
    }

    /// Delivered orders of the last epochs in ready order, each as JSON.
    fn order_logs(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.check(py)?;
        let logs = py.detach(|| self.loader().order_logs());
        let logs = logs.iter().map(serde_json::to_string).collect::<Result<_, _>>();
        logs.map_err(|e| PyValueError::new_err(e.to_string()))
    }

    /// How many threads make samples.
    #[getter]
    fn workers(&self) -> usize {
        self.loader().workers()
    }
}

/// torch's own warning, with the reason behind it.
fn warn_unpinned(py: Python<'_>, reason: &NoDriver) -> PyResult<()> {
    let text = format!(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory \
         won't be used. ({reason})"
    );
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)
}

/// These samples, given as 64-bit integers, in this order.
fn listed(indices: &[u8]) -> Order {
    Order::Subset { indices: unpacked(indices, u64::from_ne_bytes), shuffle: false }
}
