//! What loaders measured.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What one loader measured, or several that came after each other.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct Measures {
    stats: feedline::Stats,
}

impl Measures {
    pub(crate) fn new(stats: feedline::Stats) -> Measures {
        Measures { stats }
    }
}

#[pymethods]
impl Measures {
    /// Both together, where the other loader came after this one.
    fn plus(&self, py: Python<'_>, later: &Measures) -> Measures {
        py.detach(|| Measures { stats: self.stats.plus(&later.stats) })
    }

    /// All of it, as JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.stats).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    /// The same in words.
    fn explain(&self) -> String {
        self.stats.explain()
    }
}
