//! States as plain dicts, and the sample that a worker is at.

use std::cell::Cell;

use feedline::{SampleKey, State, StatePart};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors;

/// A state as a dict of numbers and text.
pub(crate) fn to_dict<'py>(py: Python<'py>, state: &State) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, part) in state.parts() {
        match part {
            StatePart::Number(number) => dict.set_item(name, number)?,
            StatePart::Text(text) => dict.set_item(name, text)?,
        }
    }
    Ok(dict)
}

/// A state from the JSON of its dict.
pub(crate) fn from_json(py: Python<'_>, json: &str) -> PyResult<State> {
    serde_json::from_str(json).map_err(|e| {
        errors::raise(py, "StateError", &format!("this is no state of a feedline loader: {e}"))
    })
}

/// One state of the states of all ranks, each as JSON.
#[pyfunction]
#[pyo3(signature = (states) -> "dict[str, object]")]
pub(crate) fn merge_states(py: Python<'_>, states: Vec<String>) -> PyResult<Bound<'_, PyDict>> {
    let states = states.iter().map(|json| from_json(py, json)).collect::<PyResult<Vec<_>>>()?;
    let merged = State::merge(&states);
    let merged = merged.map_err(|e| errors::raise(py, "StateError", &e.to_string()))?;
    to_dict(py, &merged)
}

/// What the randomness of a function's call depends on.
#[derive(Copy, Clone)]
pub(crate) struct CallKey {
    pub(crate) sample: SampleKey,
    /// Which of the pipeline's functions is being called.
    pub(crate) function: u64,
}

thread_local! {
    /// The sample whose function this thread is in, and the how-manieth such call of the thread it is.
    static CURRENT: Cell<(Option<CallKey>, u64)> = const { Cell::new((None, 0)) };
}

/// While it lives, this thread is making a sample.
pub(crate) struct Making {
    before: (Option<CallKey>, u64),
}

impl Making {
    pub(crate) fn begin(call: CallKey) -> Making {
        let before = CURRENT.get();
        CURRENT.set((Some(call), before.1 + 1));
        Making { before }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        // The count goes on, so that no two calls are taken for one.
        CURRENT.set((self.before.0, CURRENT.get().1));
    }
}

/// The sample whose function the calling thread is in: seed, epoch, index, function, the number of the
/// call, and which time the sample comes in its epoch. `None` outside.
#[pyfunction]
pub(crate) fn current_sample() -> Option<(u64, u64, u64, u64, u64, u64)> {
    let (current, call) = CURRENT.get();
    current.map(|CallKey { sample: SampleKey { seed, epoch, index, repeat }, function }| {
        (seed, epoch, index.0, function, call, repeat)
    })
}

/// Which samples come in which batch, for loaders that make the samples in Python.
#[pyclass(module = "feedline._feedline")]
pub struct NativeBatchSampler {
    sampler: feedline::BatchSampler,
}

#[pymethods]
impl NativeBatchSampler {
    #[new]
    #[pyo3(signature = (samples, *, shuffle, seed, batch_size, drop_last, rank, world_size, recipe))]
    #[expect(clippy::too_many_arguments, reason = "all are keywords in Python")]
    fn new(
        samples: u64,
        shuffle: bool,
        seed: u64,
        batch_size: u64,
        drop_last: bool,
        rank: u64,
        world_size: u64,
        recipe: &str,
    ) -> PyResult<NativeBatchSampler> {
        let plan = feedline::Plan::builder(samples)
            .order(if shuffle { feedline::Order::Shuffled } else { feedline::Order::Sequential })
            .seed(seed)
            .batch_size(batch_size)
            .boundary(if drop_last { feedline::Boundary::Drop } else { feedline::Boundary::Keep })
            .rank(rank, world_size)
            .build();
        let plan = plan.map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(NativeBatchSampler { sampler: feedline::BatchSampler::new(plan, recipe) })
    }

    /// Batches of an epoch, or of what is left of it.
    fn batches(&self, epoch: u64) -> u64 {
        self.sampler.batches(epoch)
    }

    /// The samples of batches `start..end` of an epoch, one after the other, as 64-bit integers.
    fn samples<'py>(
        &self,
        py: Python<'py>,
        epoch: u64,
        start: u64,
        end: u64,
    ) -> Bound<'py, PyBytes> {
        let end = end.min(self.sampler.batches(epoch));
        let samples = py.detach(|| self.sampler.samples(epoch, start..end));
        let bytes: Vec<u8> = samples.iter().flat_map(|index| index.0.to_ne_bytes()).collect();
        PyBytes::new(py, &bytes)
    }

    /// The state when so many batches of an epoch have been delivered.
    #[pyo3(signature = (epoch, number) -> "dict[str, object]")]
    fn state<'py>(&self, py: Python<'py>, epoch: u64, number: u64) -> PyResult<Bound<'py, PyDict>> {
        to_dict(py, &self.sampler.state(epoch, number))
    }

    /// Goes on where a state, given as JSON, was taken. Returns the epoch and the batch that are next.
    fn resume(&mut self, py: Python<'_>, json: &str, force: bool) -> PyResult<(u64, u64)> {
        let state = from_json(py, json)?;
        let resumed = self.sampler.resume(&state, force);
        let place =
            resumed.map_err(|e| errors::build_error(py, &feedline::BuildError::State(e)))?;
        Ok((place.epoch, place.number))
    }
}
