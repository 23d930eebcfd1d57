//! The controller of workers and read-ahead, for workers that are not the engine's.

use std::sync::Mutex;

use feedline::control::{self, Bounds, Counters, Processor, Setting};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::sync::lock;

/// More of anything is a mistake, not a wish.
const MOST: usize = 1 << 20;

/// Decides how many workers work and how far they read ahead, by what is counted.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct Controller {
    inner: Mutex<control::Controller>,
}

#[pymethods]
impl Controller {
    /// Begins with a setting; what has no `most` is fixed.
    #[new]
    #[pyo3(signature = (*, cores, batch_size, workers, prefetch, most_workers=None, most_prefetch=None))]
    fn new(
        cores: usize,
        batch_size: u64,
        workers: usize,
        prefetch: usize,
        most_workers: Option<usize>,
        most_prefetch: Option<usize>,
    ) -> PyResult<Controller> {
        let given = [
            ("cores", Some(cores)),
            ("workers", Some(workers)),
            ("prefetch", Some(prefetch)),
            ("most_workers", most_workers),
            ("most_prefetch", most_prefetch),
        ];
        for (name, number) in given {
            if let Some(got) = number.filter(|number| !(1..=MOST).contains(number)) {
                let msg = format!("{name} must be from 1 to {MOST}, got {got}");
                return Err(PyValueError::new_err(msg));
            }
        }
        let bounds = Bounds { cores, workers: most_workers, prefetch: most_prefetch, batch_size };
        let inner = control::Controller::new(bounds, Setting { workers, prefetch });
        Ok(Controller { inner: Mutex::new(inner) })
    }

    /// When it wants to be told again, in nanoseconds of the counters' clock.
    #[getter]
    fn due_ns(&self) -> u64 {
        lock(&self.inner).due_ns()
    }

    /// Says what has been counted. Returns the number of workers and of batches read ahead from now on, if they are others.
    #[pyo3(signature = (*, now_ns, samples, batches, delivered, delivered_ns, wait_ns, absences, full_ns, starved_ns, processor=None))]
    #[expect(clippy::too_many_arguments, reason = "all of them are keywords")]
    fn look(
        &self,
        now_ns: u64,
        samples: u64,
        batches: u64,
        delivered: u64,
        delivered_ns: u64,
        wait_ns: u64,
        absences: u64,
        full_ns: u64,
        starved_ns: u64,
        processor: Option<(u64, usize, u64, u64)>,
    ) -> Option<(usize, usize)> {
        let processor = processor.map(|(process_ns, workers, on_core_ns, queued_ns)| Processor {
            process_ns,
            workers,
            on_core_ns,
            queued_ns,
        });
        let counted = Counters {
            now_ns,
            samples,
            batches,
            delivered,
            delivered_ns,
            wait_ns,
            absences,
            full_ns,
            starved_ns,
            processor,
        };
        let to = lock(&self.inner).look(&counted)?;
        Some((to.workers, to.prefetch))
    }

    /// No more workers than these are to be had, or no more batches fit.
    #[pyo3(signature = (*, workers=None, prefetch=None))]
    fn at_most(&self, workers: Option<usize>, prefetch: Option<usize>) {
        let _ = lock(&self.inner).at_most(workers, prefetch);
    }

    /// What it is at, what it did and why, as JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&lock(&self.inner).stats())
            .map_err(|e| PyValueError::new_err(e.to_string()))
    }
}
