//! Who made which sample when, for the reports of experiments.

use std::sync::Arc;

use feedline_bench::Notes;
use feedline_bench::results::Stretch;
use pyo3::prelude::*;

/// What a traced source has seen.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct Trace {
    notes: Arc<Notes>,
}

impl Trace {
    pub(crate) fn new(notes: Arc<Notes>) -> Trace {
        Trace { notes }
    }
}

#[pymethods]
impl Trace {
    /// Worker, sample, begin and end of each sample that was made since the last call, in seconds since
    /// the source was made.
    fn take(&self) -> Vec<(u32, u64, f64, f64)> {
        let tuple = |Stretch(worker, sample, begin, end)| (worker, sample, begin, end);
        self.notes.take().into_iter().map(tuple).collect()
    }
}
