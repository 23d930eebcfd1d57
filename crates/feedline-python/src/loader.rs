//! The loader and its iterator: the one door between Python and the engine.
//!
//! Waiting happens without the GIL and in slices, so that signals (Ctrl-C) are looked at; dropping a
//! loader releases the GIL as well, since its workers may need it to end.

use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use feedline::{
    Boundary, CudaHostMemory, Delivery, EpochToken, Figures, Form, LoaderBuilder, Meter, Next,
    NoDriver, OnError, Order, PolicyKind, plan,
};
use pyo3::exceptions::{PyTimeoutError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use smallvec::SmallVec;

use crate::batch_function::BatchFunction;
use crate::call::Functions;
use crate::errors::{self, SampleException};
use crate::function::take_interrupt;
use crate::measures::Measures;
use crate::output::Output;
use crate::settings::{SettingsDict, unpacked};
use crate::source::Source;
use crate::state;
use crate::trim;

/// How long a wait may go on before signals are looked at.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long dropping a loader, or the end of the interpreter, waits for workers that are in a Python
/// function. What they make is not wanted any more, and the user is waiting.
const PARTING: Duration = Duration::from_secs(1);

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
        release(self.loader.take());
    }
}

/// Gives up one share of a loader. The last one closes it, waiting for its workers without the GIL.
fn release(loader: Option<Arc<feedline::Loader>>) {
    let Some(mut loader) = loader.and_then(Arc::into_inner).map(Some) else { return };
    let mut close = || loader.take().map(|loader| loader.close_within(PARTING));
    // Without an interpreter there is no GIL to release either.
    if Python::try_attach(|py| py.detach(&mut close)).is_none() {
        close();
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
        let mut loaders = LOADERS.lock().unwrap_or_else(PoisonError::into_inner);
        loaders.retain(|loader| loader.strong_count() > 0);
        loaders.push(Arc::downgrade(&loader));
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

/// The batches of one epoch.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct NativeEpoch {
    loader: Option<Arc<feedline::Loader>>,
    token: EpochToken,
    meter: Option<Mutex<Meter>>,
    /// What shows the meter's figures, if the meter does not itself.
    show: Option<Py<PyAny>>,
    output: Arc<Output>,
    named: bool,
    /// Whether any field is text or bytes.
    has_strings: bool,
    /// How many bytes of them the last batch had, which the user may have dropped by now. Relaxed: an estimate.
    strings: AtomicUsize,
    remade: Option<Arc<BatchFunction>>,
    functions: Functions,
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
        release(self.loader.take());
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
                        stop_if_at_exit(py);
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
        let figures = what(&mut meter.lock().unwrap_or_else(PoisonError::into_inner));
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

/// torch's own warning, with the reason behind it.
fn warn_unpinned(py: Python<'_>, reason: &NoDriver) -> PyResult<()> {
    let text = format!(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory \
         won't be used. ({reason})"
    );
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)
}

/// The thread in which the interpreter is about to go.
static GOING: OnceLock<ThreadId> = OnceLock::new();

/// Stops this thread if the loader was closed because the interpreter is about to go: a daemon's wait
/// then just never ends, as Python has it, and no exception is printed over the program's last words.
fn stop_if_at_exit(py: Python<'_>) {
    if GOING.get().is_some_and(|thread| *thread != std::thread::current().id()) {
        py.detach(|| {
            loop {
                std::thread::park();
            }
        });
    }
}

/// Closes all loaders; called when the interpreter is about to go.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let _ = GOING.set(std::thread::current().id());
    let loaders = std::mem::take(&mut *LOADERS.lock().unwrap_or_else(PoisonError::into_inner));
    py.detach(|| {
        let loaders: Vec<_> = loaders.iter().filter_map(Weak::upgrade).collect();
        // First all are told, then all are waited for, so that several do not add up.
        for loader in &loaders {
            loader.close_within(Duration::ZERO);
        }
        let deadline = Instant::now() + PARTING;
        for loader in &loaders {
            let left = deadline.saturating_duration_since(Instant::now());
            loader.close_within(left.max(Duration::from_millis(1)));
        }
    });
}

/// These samples, given as 64-bit integers, in this order.
fn listed(indices: &[u8]) -> Order {
    Order::Subset { indices: unpacked(indices, u64::from_ne_bytes), shuffle: false }
}

/// In which order samples come.
fn order(source: &Source, settings: &SettingsDict<'_, '_>) -> PyResult<Order> {
    let shuffle: bool = settings.get_if("shuffle")?.unwrap_or(false);
    let chosen = settings.numbers_if("indices", u64::from_ne_bytes)?;
    let weights = settings.numbers_if("weights", f64::from_ne_bytes)?;
    let (samples, replacement) = (settings.get_if("num_samples")?, settings.get_if("replacement")?);
    let lengths = settings.numbers_if("lengths", u32::from_ne_bytes)?;
    let bucket_batches = settings.get_if("bucket_batches")?;
    if let Some(indices) = chosen {
        return Ok(Order::Subset { indices, shuffle: false });
    }
    if let Some(weights) = weights {
        let samples = samples.unwrap_or(weights.len() as u64);
        return Ok(Order::Weighted { weights, samples, replacement: replacement.unwrap_or(true) });
    }
    if let Some(lengths) = lengths {
        return Ok(Order::Bucketed { lengths, bucket_batches: bucket_batches.unwrap_or(1) });
    }
    Ok(match (source.parts(), source.windows()) {
        (Some(parts), _) => Order::Mixed { parts: parts.to_vec(), samples: None },
        (None, Some((shards, window))) if shuffle => {
            Order::Windowed { shards: plan::ShardSizes::Sizes(shards.to_vec()), window }
        }
        (None, _) if shuffle => Order::Shuffled,
        (None, _) => Order::Sequential,
    })
}

/// Turns the keyword arguments into a builder.
fn describe(source: &Source, settings: &SettingsDict<'_, '_>) -> PyResult<LoaderBuilder> {
    let mut builder = feedline::Loader::builder(source.loaded()).copies_strings(true);
    builder = builder.order(order(source, settings)?);
    if let Some(apart) = settings.get_if("epochs_apart")? {
        builder = builder.epochs_apart(apart);
    }
    if let Some(samples) = settings.get_if("batch_size")? {
        builder = builder.batch_size(samples);
    }
    if let Some(seed) = settings.get_if("seed")? {
        builder = builder.seed(seed);
    }
    let boundaries = [("keep", Boundary::Keep), ("drop", Boundary::Drop), ("pad", Boundary::Pad)];
    if let Some(boundary) = settings.choice_if("boundary", &boundaries)? {
        builder = builder.boundary(boundary);
    }
    if let (Some(rank), Some(world)) = (settings.get_if("rank")?, settings.get_if("world_size")?) {
        builder = builder.rank(rank, world);
    }
    if let Some(threads) = settings.get_if("num_workers")? {
        builder = builder.workers(threads);
    }
    if let Some(threads) = settings.get_if("io_workers")? {
        builder = builder.io_workers(threads);
    }
    if let Some(name) = settings.get_if::<String>("policy")? {
        let policy = PolicyKind::from_name(&name).ok_or_else(|| {
            let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
            PyValueError::new_err(format!(
                "policy must be one of {}, got {name:?}",
                names.join(", ")
            ))
        })?;
        builder = builder.policy(policy);
    }
    if let Some(batches) = settings.get_if("prefetch")? {
        builder = builder.prefetch(batches);
    }
    if let Some(bytes) = settings.get_if("memory")? {
        builder = builder.memory(bytes);
    }
    if let Some(window) = settings.get_if("window")? {
        builder = builder.delivery(Delivery::Ready { window });
    }
    let answers =
        [("raise", OnError::Raise), ("skip", OnError::Skip), ("replace", OnError::Replace)];
    if let Some(answer) = settings.choice_if("on_error", &answers)? {
        builder = builder.on_error(answer);
    }
    if let Some(samples) = settings.get_if("max_errors")? {
        builder = builder.max_errors(samples);
    }
    if let Some(seconds) = settings.get_if::<f64>("sample_timeout")? {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|_| {
            PyValueError::new_err(format!(
                "sample_timeout must be a number of seconds above 0, got {seconds}"
            ))
        })?;
        builder = builder.sample_timeout(limit);
    }
    if let Some(count) = settings.get_if("epochs")? {
        builder = builder.epochs(count);
    }
    if let Some(recipe) = settings.get_if::<String>("recipe")? {
        builder = builder.recipe(recipe);
    }
    for json in settings.get_if::<Vec<String>>("replay")?.unwrap_or_default() {
        builder = builder.replay(serde_json::from_str(&json).map_err(|e| {
            PyValueError::new_err(format!("replay takes what order_logs() returns: {e}"))
        })?);
    }
    for alter in source.alters() {
        builder = builder.alter(Arc::clone(alter));
    }
    Ok(builder)
}

/// The parts of a mixture.
pub(crate) type MixedParts = Vec<plan::Part>;
