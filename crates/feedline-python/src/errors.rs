//! Errors of the engine as exceptions of `feedline.errors`.
//!
//! The exceptions are Python classes, so that they pickle, subclass and document like any other;
//! this is the one place where the engine's errors become one of them.

use feedline::{BuildError, Error, SampleError};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A Python exception raised by user code, as the cause of a sample's error.
#[derive(Debug)]
pub(crate) struct Raised(pub(crate) PyErr);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Raised {}

/// The exception for a batch that cannot be delivered.
pub(crate) fn batch_error(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Sample(sample) => sample_error(py, sample),
        Error::TooManyErrors { last, .. } => {
            let raised = raise(py, "TooManyErrors", &error.to_string());
            raised.set_cause(py, Some(sample_error(py, last)));
            raised
        }
        Error::Collate { cause, .. } => {
            let raised = raise(py, "BatchError", &error.to_string());
            if let Some(Raised(cause)) = cause.downcast_ref::<Raised>() {
                raised.set_cause(py, Some(cause.clone_ref(py)));
            }
            raised
        }
        Error::Closed => raise(py, "Closed", &error.to_string()),
        Error::Superseded => raise(py, "Superseded", &error.to_string()),
        Error::Forked { .. } => raise(py, "ForkError", &error.to_string()),
        Error::OutOfMemory(_) => PyMemoryError::new_err(error.to_string()),
        _ => raise(py, "BatchError", &error.to_string()),
    }
}

/// The exception for a sample that cannot be made; the user's own exception is its cause.
pub(crate) fn sample_error(py: Python<'_>, error: &SampleError) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let fields = PyDict::new(py);
        fields.set_item("index", error.index.0)?;
        fields.set_item("position", error.position.0)?;
        fields.set_item("epoch", error.epoch)?;
        fields.set_item("origin", error.origin.as_deref())?;
        fields.set_item("stage", error.stage.name())?;
        fields.set_item("failure", format!("{:?}", error.failure).to_lowercase())?;
        fields.set_item("replaced_by", error.replaced_by.map(|index| index.0))?;
        let class = py.import("feedline.errors")?.getattr("SampleError")?;
        Ok(PyErr::from_value(class.call((error.to_string(),), Some(&fields))?))
    };
    let made = build().unwrap_or_else(|problem| problem);
    if let Some(Raised(cause)) = error.cause().downcast_ref::<Raised>() {
        made.set_cause(py, Some(cause.clone_ref(py)));
    }
    made
}

/// A sample's error that is handed out rather than raised.
pub(crate) struct SampleException(pub(crate) SampleError);

impl<'py> IntoPyObject<'py> for SampleException {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[cfg(feature = "stubs")]
    const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr =
        pyo3::type_hint_identifier!("feedline.errors", "SampleError");

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(sample_error(py, &self.0).into_value(py).into_bound(py).into_any())
    }
}

/// The exception for settings that no loader can be built with.
pub(crate) fn build_error(py: Python<'_>, error: &BuildError) -> PyErr {
    match error {
        BuildError::Thread { source, .. } => {
            PyOSError::new_err((source.raw_os_error(), error.to_string()))
        }
        BuildError::State(_) | BuildError::Log { .. } => {
            raise(py, "StateError", &error.to_string())
        }
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// A source that cannot be opened: I/O errors keep their kind.
pub(crate) fn source_error(error: &(dyn std::error::Error + 'static)) -> PyErr {
    let mut cause = Some(error);
    while let Some(e) = cause {
        if let Some(io) = e.downcast_ref::<std::io::Error>() {
            if let Some(code) = io.raw_os_error() {
                // OSError picks the subclass (FileNotFoundError and friends) by its code.
                return PyOSError::new_err((code, error.to_string()));
            }
            #[cfg(feature = "stores")]
            if let Some(store) = io.get_ref().and_then(|inner| inner.downcast_ref()) {
                return store_error(store, error.to_string());
            }
        }
        #[cfg(feature = "stores")]
        if let Some(store) = e.downcast_ref() {
            return store_error(store, error.to_string());
        }
        cause = e.source();
    }
    PyValueError::new_err(error.to_string())
}

/// The exception for what a store refuses.
#[cfg(feature = "stores")]
fn store_error(error: &feedline::sources::store::StoreError, text: String) -> PyErr {
    use feedline::sources::store::Kind;
    use pyo3::exceptions::{PyConnectionError, PyFileNotFoundError, PyPermissionError};
    match error.kind() {
        Kind::Missing => PyFileNotFoundError::new_err(text),
        Kind::Denied => PyPermissionError::new_err(text),
        Kind::Unreachable => PyConnectionError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The exception for a message that cannot be sent or received.
#[cfg(target_os = "linux")]
pub(crate) fn ipc_error(py: Python<'_>, error: &feedline_ipc::IpcError) -> PyErr {
    use feedline_ipc::IpcError;
    use pyo3::exceptions::{PyEOFError, PyRuntimeError};
    match error {
        IpcError::System { source, .. } => {
            PyOSError::new_err((source.raw_os_error(), error.to_string()))
        }
        IpcError::Full { .. } => PyMemoryError::new_err(error.to_string()),
        IpcError::Gone => PyEOFError::new_err(error.to_string()),
        IpcError::Forked { .. } => raise(py, "ForkError", &error.to_string()),
        IpcError::Broken { .. } => PyRuntimeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn raise(py: Python<'_>, class: &str, text: &str) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let class = py.import("feedline.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((text,))?))
    };
    build().unwrap_or_else(|problem| problem)
}
