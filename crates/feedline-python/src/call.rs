//! Calling Python from worker threads, and holding on to what is called.
//!
//! # When the interpreter goes
//!
//! A worker that hangs in a Python function is left behind when the process exits. Before Python 3.14,
//! a thread that asks for the GIL of an interpreter that is going away is ended by `pthread_exit`,
//! wherever it is. That unwinds the stack, and unwinding past Rust code that does not expect it aborts
//! the process. So such a thread is stopped at the first Rust frame and stays there; the process is
//! about to end anyway.
//!
//! # Cycles
//!
//! Functions often lead back to the loader that calls them: `self.loader = Loader(x.map(self.augment))`.
//! Python's garbage collector can free such a cycle only if it sees every reference in it. It does not
//! see what Rust's datasets own; so they have weak references only, and the Python objects that own
//! datasets ([`Source`](crate::source::Source) and the loader's) own the functions, where it looks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyReferenceError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit, ffi};

/// A Python function, owned where the garbage collector sees it.
#[pyclass(weakref, module = "feedline._feedline")]
pub struct Function {
    /// `None` once the garbage collector has broken a cycle here.
    callable: Option<Py<PyAny>>,
    /// What it has made and is still in use: iterators, by number.
    kept: BTreeMap<u64, Py<PyAny>>,
}

#[pymethods]
impl Function {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.callable)?;
        self.kept.values().try_for_each(|object| visit.call(object))
    }

    fn __clear__(&mut self) {
        self.callable = None;
        self.kept.clear();
    }
}

/// The functions that a dataset calls, each once.
#[derive(Default)]
pub(crate) struct Functions(Vec<Py<Function>>);

impl Functions {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Functions {
        Functions(self.0.iter().map(|function| function.clone_ref(py)).collect())
    }

    /// Those of several datasets.
    pub(crate) fn union<'a>(
        py: Python<'_>,
        all: impl IntoIterator<Item = &'a Functions>,
    ) -> Functions {
        let mut union = Functions::default();
        for function in all.into_iter().flat_map(|functions| &functions.0) {
            if !union.0.iter().any(|known| known.is(function)) {
                union.0.push(function.clone_ref(py));
            }
        }
        union
    }

    /// Adds a function and returns how a dataset refers to it.
    pub(crate) fn add(&mut self, py: Python<'_>, callable: Py<PyAny>) -> PyResult<Callee> {
        let function =
            Bound::new(py, Function { callable: Some(callable), kept: BTreeMap::new() })?;
        let callee = Callee(PyWeakrefReference::new(&function)?.unbind());
        self.0.push(function.unbind());
        Ok(callee)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().try_for_each(|function| visit.call(function))
    }
}

/// A function that somebody else owns.
pub(crate) struct Callee(Py<PyWeakrefReference>);

/// How many objects were kept so far. Relaxed: only that numbers differ matters.
static KEPT: AtomicU64 = AtomicU64::new(0);

impl Callee {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Callee {
        Callee(self.0.clone_ref(py))
    }

    pub(crate) fn call<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let callable = match &self.function(py)?.try_borrow()?.callable {
            Some(callable) => callable.clone_ref(py).into_bound(py),
            None => return Err(gone()),
        };
        call(&callable, arguments, keywords)
    }

    /// Keeps an object with the function, where the garbage collector sees it. Returns its number.
    pub(crate) fn keep(&self, object: Bound<'_, PyAny>) -> PyResult<u64> {
        let number = KEPT.fetch_add(1, Ordering::Relaxed);
        let function = self.function(object.py())?;
        function.try_borrow_mut()?.kept.insert(number, object.unbind());
        Ok(number)
    }

    /// An object that was kept.
    pub(crate) fn kept<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, PyAny>> {
        let function = self.function(py)?;
        let function = function.try_borrow()?;
        let object = function.kept.get(&number).map(|object| object.clone_ref(py).into_bound(py));
        object.ok_or_else(gone)
    }

    /// Gives an object up that was kept.
    pub(crate) fn give_up(&self, py: Python<'_>, number: u64) {
        let Ok(function) = self.function(py) else { return };
        let object = function.try_borrow_mut().ok().and_then(|mut it| it.kept.remove(&number));
        // Here, with nothing borrowed: what it does when it goes is the user's.
        drop(object);
    }

    fn function<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Function>> {
        self.0.bind(py).upgrade_as::<Function>()?.ok_or_else(gone)
    }
}

fn gone() -> PyErr {
    PyReferenceError::new_err("the loader is gone, and its function with it")
}

type CallFn = unsafe extern "C-unwind" fn(
    callable: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject;

// SAFETY: the signature is that of Python's stable interface.
unsafe extern "C-unwind" {
    fn PyObject_Call(
        callable: *mut ffi::PyObject,
        arguments: *mut ffi::PyObject,
        keywords: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// PyO3 declares the same function as one that never unwinds. Where both declarations come together in one
/// module, that of PyO3 wins, and no frame of ours would catch anything; so it is called by an address that
/// the compiler does not know.
static CALL: CallFn = PyObject_Call;

/// Stops its thread for good when the stack is unwound past it.
struct StopHere;

impl Drop for StopHere {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Calls anything that may run Python code or release the GIL, from any thread.
pub(crate) fn call<'py>(
    callable: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let keywords = keywords.map_or(std::ptr::null_mut(), |keywords| keywords.as_ptr());
    // SAFETY: a static is valid and initialised.
    let python_call = unsafe { (&raw const CALL).read_volatile() };
    let stop = StopHere;
    // SAFETY: the GIL is held (there is a `Bound`), and all pointers are to live objects or null.
    let result = unsafe { python_call(callable.as_ptr(), arguments.as_ptr(), keywords) };
    std::mem::forget(stop);
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(callable.py(), result) }
}
