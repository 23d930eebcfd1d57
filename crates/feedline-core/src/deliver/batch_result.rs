//! What is delivered: a batch, or why there is none.

use crate::assemble::Batch;
use crate::error::{Error, SampleError};
use crate::measure::BatchTimes;

/// A batch, or why there is none, and what is known of its way.
#[derive(Debug)]
pub(crate) struct BatchResult {
    pub(crate) result: Result<Batch, Error>,
    /// Its samples that could not be made, in their order.
    pub(crate) errors: Vec<SampleError>,
    /// The times that are known: the last part ends when the batch is taken.
    pub(crate) times: BatchTimes,
    pub(crate) finished_ns: u64,
}

impl BatchResult {
    /// A batch that could not even be opened.
    pub(crate) fn failed(error: Error, now_ns: u64) -> BatchResult {
        let times = BatchTimes::default();
        BatchResult { result: Err(error), errors: Vec::new(), times, finished_ns: now_ns }
    }
}
