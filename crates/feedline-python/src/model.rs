//! The theory: numbers in, numbers out. Names and meanings are in `python/feedline/model`.

use feedline::model::{
    ArgumentError, Link, Loading, Queue, SharedBandwidth, Stage, Tandem, Usl, amdahl,
    cheapest_workers, expected_imbalance, fit_usl, gustafson, imbalance, little, memory, pinning,
};
use feedline_bench::simulation::SimulationSettings;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn refused(error: ArgumentError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Utilisation, probability of waiting, mean wait, mean time, mean in queue, mean in system.
#[pyfunction]
pub(crate) fn model_queue(
    arrival: f64,
    service: f64,
    servers: u32,
    spread: f64,
) -> PyResult<(f64, f64, f64, f64, f64, f64)> {
    let it = Queue::mgc(arrival, service, servers, spread).map_err(refused)?;
    Ok((
        it.utilisation(),
        it.probability_of_waiting(),
        it.mean_wait(),
        it.mean_time(),
        it.mean_in_queue(),
        it.mean_in_system(),
    ))
}

/// The share of arrivals that wait longer than a time.
#[pyfunction]
pub(crate) fn model_waits_longer_than(
    arrival: f64,
    service: f64,
    servers: u32,
    spread: f64,
    time: f64,
) -> PyResult<f64> {
    let queue = Queue::mgc(arrival, service, servers, spread).map_err(refused)?;
    Ok(queue.waits_longer_than(time))
}

/// All three numbers of Little's law, from two of them.
#[pyfunction]
pub(crate) fn model_little(
    number: Option<f64>,
    rate: Option<f64>,
    time: Option<f64>,
) -> PyResult<(f64, f64, f64)> {
    match (number, rate, time) {
        (None, Some(rate), Some(time)) => {
            Ok((little::number(rate, time).map_err(refused)?, rate, time))
        }
        (Some(number), Some(rate), None) => {
            Ok((number, rate, little::time(number, rate).map_err(refused)?))
        }
        (Some(number), None, Some(time)) => {
            Ok((number, little::rate(number, time).map_err(refused)?, time))
        }
        _ => Err(PyValueError::new_err("give two of number, rate and time; the third follows")),
    }
}

/// Workers, cost and wait.
#[pyfunction]
pub(crate) fn model_cheapest_workers(
    arrival: f64,
    service: f64,
    spread: f64,
    worker_cost: f64,
    waiting_cost: f64,
) -> PyResult<(u32, f64, f64)> {
    let found = cheapest_workers(arrival, service, spread, worker_cost, waiting_cost);
    found.map(|it| (it.workers, it.cost, it.wait)).map_err(refused)
}

/// Throughput, wait, waiting share, ready batches, utilisation, knee, gain of one more worker.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple is what Python gets")]
pub(crate) fn model_loading(
    workers: u32,
    batch_size: u32,
    prefetch: u32,
    cost: f64,
    spread: f64,
    step: f64,
) -> PyResult<(f64, f64, f64, f64, f64, Option<f64>, f64)> {
    let it = Loading::new(workers, batch_size, prefetch, cost, spread, step).map_err(refused)?;
    let one_more = it.one_more().map_err(refused)?;
    let (wait, share) = (it.wait(), it.waiting_share());
    Ok((it.throughput(), wait, share, it.ready(), it.utilisation(), it.knee(), one_more))
}

/// Throughput, bottleneck, latency, parallelisation, and each stage's shares of working and being blocked.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple is what Python gets")]
pub(crate) fn model_tandem(
    stages: Vec<(f64, f64, u32)>,
    buffers: Vec<u32>,
) -> PyResult<(f64, usize, f64, f64, Vec<f64>, Vec<f64>)> {
    let stages = stages.iter().map(|(time, spread, workers)| Stage::new(*time, *spread, *workers));
    let stages = stages.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let it = Tandem::new(&stages, &buffers).map_err(refused)?;
    let utilisation = (0..stages.len()).filter_map(|stage| it.utilisation(stage)).collect();
    let blocked = (0..stages.len()).filter_map(|stage| it.blocked(stage)).collect();
    let (throughput, latency) = (it.throughput(), it.latency());
    Ok((throughput, it.bottleneck(), latency, it.parallelisation(), utilisation, blocked))
}

/// Amdahl's speed-up.
#[pyfunction]
pub(crate) fn model_amdahl(serial: f64, workers: u32) -> PyResult<f64> {
    amdahl(serial, workers).map_err(refused)
}

/// Gustafson's speed-up.
#[pyfunction]
pub(crate) fn model_gustafson(serial: f64, workers: u32) -> PyResult<f64> {
    gustafson(serial, workers).map_err(refused)
}

/// Speed-up, and the fastest number of workers.
#[pyfunction]
pub(crate) fn model_usl(
    contention: f64,
    coherence: f64,
    workers: u32,
) -> PyResult<(f64, Option<u32>)> {
    let law = Usl::new(contention, coherence).map_err(refused)?;
    Ok((law.speedup(workers).map_err(refused)?, law.best_workers()))
}

/// Rate of one, contention, coherence, error, margins of the first three.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple is what Python gets")]
pub(crate) fn model_fit_usl(
    rates: Vec<(u32, f64)>,
) -> PyResult<Option<(f64, f64, f64, f64, Option<(f64, f64, f64)>)>> {
    let found = fit_usl(&rates).map_err(refused)?;
    Ok(found.map(|fit| {
        let margin = fit.margin.map(|it| (it.single, it.contention, it.coherence));
        (fit.single, fit.law.contention(), fit.law.coherence(), fit.error, margin)
    }))
}

/// Factor and efficiency.
#[pyfunction]
pub(crate) fn model_imbalance(times: Vec<f64>) -> PyResult<(f64, f64)> {
    imbalance(&times).map(|it| (it.factor, it.efficiency)).map_err(refused)
}

/// The factor to expect of samples that are dealt out in advance.
#[pyfunction]
pub(crate) fn model_expected_imbalance(workers: u32, samples: u32, spread: f64) -> PyResult<f64> {
    expected_imbalance(workers, samples, spread).map_err(refused)
}

/// Bytes of batches that are under way.
#[pyfunction]
pub(crate) fn model_batches(
    batch_size: u32,
    sample_bytes: u64,
    stages: u32,
    depth: u32,
) -> PyResult<u64> {
    memory::batches(batch_size, sample_bytes, stages, depth).map_err(refused)
}

/// Bytes of worker processes.
#[pyfunction]
pub(crate) fn model_processes(
    workers: u32,
    private: u64,
    batch_bytes: u64,
    prefetch: u32,
) -> PyResult<u64> {
    memory::processes(workers, private, batch_bytes, prefetch).map_err(refused)
}

/// The largest batch size that fits.
#[pyfunction]
pub(crate) fn model_largest_batch(
    limit: u64,
    sample_bytes: u64,
    stages: u32,
    depth: u32,
) -> PyResult<u32> {
    memory::largest_batch(limit, sample_bytes, stages, depth).map_err(refused)
}

/// Time, share of the bandwidth, messages needed under way.
#[pyfunction]
pub(crate) fn model_transfer(
    bytes: f64,
    latency: f64,
    bandwidth: f64,
) -> PyResult<(f64, f64, f64)> {
    let link = Link::new(latency, bandwidth).map_err(refused)?;
    let (time, used) = (link.time(bytes), link.utilisation(bytes));
    let needed = link.needed_in_flight(bytes).map_err(refused)?;
    Ok((time.map_err(refused)?, used.map_err(refused)?, needed))
}

/// What each gets, what all get, and how many get what they want.
#[pyfunction]
pub(crate) fn model_bandwidth(
    total: f64,
    contention: f64,
    users: u32,
    demand: Option<f64>,
) -> PyResult<(f64, f64, Option<u32>)> {
    let shared = SharedBandwidth::new(total, contention).map_err(refused)?;
    let most = demand.map(|demand| shared.saturated_by(demand)).transpose().map_err(refused)?;
    let (each, all) = (shared.of_each(users), shared.of_all(users));
    Ok((each.map_err(refused)?, all.map_err(refused)?, most))
}

/// Speed-up, time saved, bytes locked, their share of memory.
#[pyfunction]
pub(crate) fn model_pinning(
    batch_bytes: u64,
    depth: u32,
    pinned: f64,
    pageable: f64,
    step: Option<f64>,
    memory: u64,
) -> PyResult<(f64, f64, u64, f64)> {
    let found = pinning(batch_bytes, depth, (pinned, pageable), step, memory);
    found.map(|it| (it.speedup, it.saved, it.locked, it.share)).map_err(refused)
}

/// Runs a simulation; settings and outcome are JSON.
#[pyfunction]
pub(crate) fn model_simulate(py: Python<'_>, settings: &str) -> PyResult<String> {
    let wrong = |error: &dyn std::error::Error| PyValueError::new_err(error.to_string());
    let settings: SimulationSettings = serde_json::from_str(settings).map_err(|e| wrong(&e))?;
    let simulation = settings.simulation().map_err(|e| wrong(&e))?;
    let outcome = py.detach(|| simulation.run()).map_err(|e| wrong(&e))?;
    serde_json::to_string(&outcome).map_err(|e| wrong(&e))
}
