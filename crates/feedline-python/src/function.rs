//! `map`: a Python function on each sample. The GIL is held for the function and nothing else.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use feedline::{
    Cause, Dataset, Field, Iterable, Sample, SampleIndex, SampleKey, SampleView, Scratch, Stage,
};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::call::{Callee, Functions};
use crate::errors::Raised;
use crate::record::{FUNCTION as GIVES, Record};
use crate::state::{CallKey, Making};
use crate::sync::lock;
use crate::trim;
use crate::value;

/// A dataset whose samples are another's after a Python function.
pub(crate) struct PyMap {
    inner: Arc<dyn Dataset>,
    function: Callee,
    /// Which of the pipeline's functions it is.
    number: u64,
    /// Whether the function takes a dict rather than the fields one by one.
    takes_dict: bool,
    /// What it answers with.
    record: Record,
    /// Places for the inner sample, one per worker that is in the function.
    scratches: Mutex<Vec<Scratch>>,
}

/// A function of which it is known what it makes.
pub(crate) struct Inferred {
    pub(crate) map: PyMap,
    /// Whether it answers with a dict.
    pub(crate) named: bool,
}

thread_local! {
    /// Ctrl-C that came while this thread was in a function.
    static INTERRUPT: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// The Ctrl-C that came while the calling thread, working as its own worker, was in a function. It is
/// the user's answer to the wait, not an error of the sample.
pub(crate) fn take_interrupt() -> Option<PyErr> {
    INTERRUPT.take()
}

/// Keeps a Ctrl-C that came while this thread was in a function.
pub(crate) fn keep_interrupt(py: Python<'_>, error: &PyErr) {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        INTERRUPT.set(Some(error.clone_ref(py)));
    }
}

impl PyMap {
    /// Calls the function on the first sample to learn what it makes. `ragged` are rules by field.
    /// The function is owned by `functions`.
    pub(crate) fn infer(
        py: Python<'_>,
        inner: Arc<dyn Dataset>,
        function: Py<PyAny>,
        functions: &mut Functions,
        takes_dict: bool,
        ragged: &Bound<'_, PyDict>,
    ) -> PyResult<Inferred> {
        if inner.is_empty() {
            return Err(PyValueError::new_err(
                "map needs at least one sample to learn what the function makes",
            ));
        }
        let number = functions.count();
        let function = functions.add(py, function)?;
        let (record, scratches) = (Record::unknown(GIVES), Mutex::default());
        let mut map = PyMap { inner, function, number, takes_dict, record, scratches };
        let result = map.first_result(py)?;
        map.record = Record::of(GIVES, &result, ragged)?;
        let named = map.record.named;
        Ok(Inferred { map, named })
    }

    /// A function of which it is known what it makes: the fields, and whether they are named.
    pub(crate) fn known(
        py: Python<'_>,
        inner: Arc<dyn Dataset>,
        function: Py<PyAny>,
        functions: &mut Functions,
        takes_dict: bool,
        (fields, named): (Vec<Field>, bool),
    ) -> PyResult<Inferred> {
        let record = Record::known(GIVES, fields, named)?;
        let number = functions.count();
        let function = functions.add(py, function)?;
        let scratches = Mutex::default();
        let map = PyMap { inner, function, number, takes_dict, record, scratches };
        Ok(Inferred { map, named })
    }

    fn first_result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut scratch =
            Scratch::new(self.inner.fields()).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let first = SampleIndex(0);
        let inner = Arc::clone(&self.inner);
        let key = SampleKey::new(0, 0, first);
        let view = py.detach(|| scratch.read(&*inner, first, key).map(|_| ()));
        // Raised here: no loader has to answer for it.
        view.map_err(|cause| take_interrupt().unwrap_or_else(|| raise(py, cause)))?;
        let arguments = self.arguments(py, &scratch.view())?;
        self.call(py, arguments, key)
    }

    /// What the function takes: the fields of a sample.
    fn arguments<'py>(
        &self,
        py: Python<'py>,
        view: &SampleView<'_>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let fields = view.fields();
        let mut values = Vec::with_capacity(fields.len());
        for i in 0..fields.len() {
            values.push(value::to_python(py, view, i)?);
        }
        if !self.takes_dict {
            return PyTuple::new(py, values);
        }
        let sample = PyDict::new(py);
        for (field, value) in fields.iter().zip(values) {
            sample.set_item(field.name(), value)?;
        }
        PyTuple::new(py, [sample])
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        arguments: Bound<'py, PyTuple>,
        key: SampleKey,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _making = Making::begin(CallKey { sample: key, function: self.number });
        self.function.call(py, &arguments, None)
    }
}

impl Dataset for PyMap {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.record.fields.clone()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.inner.load(index, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let spare = lock(&self.scratches).pop();
        let mut scratch = match spare {
            Some(scratch) => scratch,
            None => Scratch::new(self.inner.fields())?,
        };
        scratch.build(&*self.inner, sample.index(), raw, sample.key())?;
        sample.begin(Stage::Transform);
        let called = Python::try_attach(|py| {
            let arguments = self.arguments(py, &scratch.view());
            // Of a large sample there is what the function takes and what it makes, not this as well.
            scratch.shrink();
            let done = arguments
                .and_then(|arguments| self.call(py, arguments, sample.key()))
                .and_then(|result| self.record.write(result, sample));
            done.inspect_err(|error| keep_interrupt(py, error))
        });
        // The function's answer is gone; where it was large, its memory should be, too.
        trim::dropped(sample.loose_bytes());
        lock(&self.scratches).push(scratch);
        match called {
            Some(done) => Ok(done.map_err(Raised)?),
            None => Err("the interpreter is shutting down".into()),
        }
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        self.inner.iterable()
    }

    fn look_ahead(&self) -> usize {
        self.inner.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.inner.expect(indices);
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.inner.cost_hint(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.inner.origin(index)
    }
}

fn raise(py: Python<'_>, cause: Cause) -> PyErr {
    match cause.downcast::<Raised>() {
        Ok(raised) => raised.0.clone_ref(py),
        Err(cause) => PyValueError::new_err(format!("the first sample cannot be made: {cause}")),
    }
}
