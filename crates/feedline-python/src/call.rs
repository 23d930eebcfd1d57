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

use pyo3::exceptions::PyReferenceError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit, ffi};

/// A Python function, owned where the garbage collector sees it.
#[pyclass(weakref, module = "feedline._feedline")]
pub struct Function {
    /// `None` once the garbage collector has broken a cycle here.
    callable: Option<Py<PyAny>>,
}

#[pymethods]
impl Function {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.callable)
    }

    fn __clear__(&mut self) {
        self.callable = None;
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
        let function = Bound::new(py, Function { callable: Some(callable) })?;
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

impl Callee {
    pub(crate) fn call<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let gone = || PyReferenceError::new_err("the loader is gone, and its function with it");
        let function = self.0.bind(py).upgrade_as::<Function>()?.ok_or_else(gone)?;
        let callable = match &function.try_borrow()?.callable {
            Some(callable) => callable.clone_ref(py).into_bound(py),
            None => return Err(gone()),
        };
        call(&callable, arguments, None)
    }
}

type Call = unsafe extern "C-unwind" fn(
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
static CALL: Call = PyObject_Call;

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
