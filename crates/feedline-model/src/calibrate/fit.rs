//! From observations to costs.
//!
//! What was timed is taken as it is: the time of a sample, of putting a batch together, of starting and ending. The time
//! on a core is the processor time; what is left of a sample's time was spent waiting. Then three numbers are
//! adjusted until the predicted durations are nearest to the observed ones (least squares of their logarithms): a factor on
//! all costs of a sample, seconds per batch that nobody timed, and how much busy cores take from each other.

use super::{Assignment, Calibration, Costs, Growing, Observation};
use crate::argument::ArgumentError;
use crate::predict::predict;

/// Above this share of its time on a core, a sample is taken to spend all of it there.
const ALL: f64 = 0.9;

pub(super) fn fit(
    assignment: Assignment,
    cores: u32,
    observations: &[Observation],
) -> Result<Calibration, ArgumentError> {
    if observations.is_empty() {
        return Err(ArgumentError::TooFew { name: "observations", got: 0, least: 1 });
    }
    observations.iter().try_for_each(Observation::check)?;
    let (inline, working): (Vec<&Observation>, Vec<&Observation>) =
        observations.iter().partition(|it| it.workers == 0);
    let mut calibration =
        Calibration::new(assignment, cores, Costs { wait: 1.0, ..Costs::default() }, 0)?;
    calibration.start = growing(observations, |it| it.start_s);
    calibration.end = growing(observations, |it| it.end_s);
    sizes(&mut calibration, observations);
    if !working.is_empty() {
        calibration.with_workers = costs(&fewest(&working), assignment)?;
        calibration.inline = calibration.with_workers;
        calibration.spin_up = spin_up(&calibration, &fewest(&working));
    }
    if !inline.is_empty() {
        calibration.inline = costs(&inline, assignment)?;
        adjust_inline(&mut calibration, &inline)?;
    }
    if working.is_empty() {
        calibration.with_workers = calibration.inline;
    } else {
        adjust(&mut calibration, &working)?;
    }
    calibration.check()?;
    Ok(calibration)
}

/// Those with the fewest workers, who are least in each other's way.
fn fewest<'a>(observations: &[&'a Observation]) -> Vec<&'a Observation> {
    let fewest = observations.iter().map(|it| it.workers).min();
    observations.iter().copied().filter(|it| Some(it.workers) == fewest).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        sum += value;
        count += 1;
    }
    if count > 0 { sum / f64::from(count) } else { 0.0 }
}

/// Costs as they were timed.
fn costs(observations: &[&Observation], assignment: Assignment) -> Result<Costs, ArgumentError> {
    let fetch = mean(observations.iter().map(|it| it.fetch()));
    let (batch, collate) = line(
        &observations
            .iter()
            .filter_map(|it| Some((f64::from(it.batch_size), it.collate_s?)))
            .collect::<Vec<_>>(),
    );
    // What starting takes is on a core, too, and no work on samples.
    let on_core = observations.iter().filter_map(|it| {
        let collating = (batch + collate * f64::from(it.batch_size)) / f64::from(it.batch_size);
        Some(((it.cpu_s? - it.start_s - it.end_s).max(0.0) / it.samples() - collating).max(0.0))
    });
    let on_core: Vec<f64> = on_core.collect();
    let on_core = if on_core.is_empty() { fetch } else { mean(on_core.into_iter()) };
    let on_core = if on_core >= ALL * fetch { fetch } else { on_core };
    let held = match assignment {
        Assignment::Samples => mean(observations.iter().filter_map(|it| it.lock_share)),
        Assignment::Batches => 0.0,
    };
    let costs = Costs {
        wait: fetch - on_core,
        cpu: on_core * (1.0 - held),
        lock: on_core * held,
        collate,
        batch,
        handover: 0.0,
    };
    costs.check()?;
    Ok(costs)
}

/// The straight line through points, neither part of it negative: what it is at 0, and how it grows. Through one place
/// alone it goes from 0.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let (x, y) = (mean(points.iter().map(|it| it.0)), mean(points.iter().map(|it| it.1)));
    let spread: f64 = points.iter().map(|it| (it.0 - x).powi(2)).sum();
    let from_zero = (0.0, if x > 0.0 { y / x } else { 0.0 });
    if spread <= 0.0 {
        return from_zero;
    }
    let slope = points.iter().map(|it| (it.0 - x) * (it.1 - y)).sum::<f64>() / spread;
    match (y - slope * x, slope) {
        (_, slope) if slope < 0.0 => (y, 0.0),
        (fixed, _) if fixed < 0.0 => from_zero,
        found => found,
    }
}

/// How seconds grow with workers. What they are without workers belongs to the line only if there are few others.
fn growing(observations: &[Observation], of: impl Fn(&Observation) -> f64) -> Growing {
    let points = |with_none: bool| -> Vec<(f64, f64)> {
        let chosen = observations.iter().filter(|it| with_none || it.workers > 0);
        chosen.map(|it| (f64::from(it.workers), of(it))).collect()
    };
    let mut counts: Vec<u32> =
        observations.iter().map(|it| it.workers).filter(|it| *it > 0).collect();
    counts.sort_unstable();
    counts.dedup();
    let (fixed, each) = line(&points(counts.len() < 2));
    Growing { fixed, each }
}

/// How long workers need until they work, beyond what is known.
fn spin_up(calibration: &Calibration, observations: &[&Observation]) -> f64 {
    let costs = &calibration.with_workers;
    let waits = observations.iter().filter_map(|it| {
        let hands = match calibration.assignment {
            Assignment::Samples => f64::from(it.workers),
            Assignment::Batches => 1.0,
        };
        let samples = (f64::from(it.batch_size) / hands).ceil();
        let making = samples * costs.sample() + costs.collating(it.batch_size);
        let begun = calibration.start.fixed + calibration.start.each;
        Some((it.first_wait_s? + it.start_s - begun - making).max(0.0))
    });
    let mut waits: Vec<f64> = waits.collect();
    waits.sort_unstable_by(f64::total_cmp);
    waits.get(waits.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

fn sizes(calibration: &mut Calibration, observations: &[Observation]) {
    calibration.sample_bytes =
        mean(observations.iter().map(|it| it.bytes as f64 / it.samples())).round() as u64;
    let base = observations.iter().filter_map(|it| it.base_bytes).min();
    calibration.base_bytes = base.unwrap_or(0);
    // What is left of the peak when batches are taken away, by worker.
    let left = observations.iter().filter(|it| it.workers > 0).filter_map(|it| {
        let known = predict(calibration, &it.setting()).ok()?.memory_bytes;
        Some(it.peak_bytes?.saturating_sub(known) as f64 / f64::from(it.workers))
    });
    calibration.worker_bytes = mean(left.collect::<Vec<_>>().into_iter()).round() as u64;
}

fn adjust_inline(
    calibration: &mut Calibration,
    observations: &[&Observation],
) -> Result<(), ArgumentError> {
    // Whatever is not making samples or putting them together is taking over.
    let rest = |it: &&Observation| {
        let costs = &calibration.inline;
        let making = f64::from(it.batch_size) * costs.sample() + costs.collating(it.batch_size);
        (it.wait_s / f64::from(it.batches) - making).max(0.0)
    };
    calibration.inline.handover = mean(observations.iter().map(rest));
    calibration.check()
}

/// Adjusts what nobody timed until durations are nearest to the observed ones.
fn adjust(
    calibration: &mut Calibration,
    observations: &[&Observation],
) -> Result<(), ArgumentError> {
    let first = calibration.clone();
    let batch_time = mean(observations.iter().map(|it| {
        f64::from(it.batch_size) * first.with_workers.sample()
            + first.with_workers.collating(it.batch_size)
    }));
    let at = |[scale, untimed, taken]: [f64; 3]| {
        let mut it = first.clone();
        let costs = &mut it.with_workers;
        for part in [&mut costs.wait, &mut costs.cpu, &mut costs.lock, &mut costs.collate] {
            *part *= scale.exp();
        }
        costs.batch += untimed * batch_time;
        it.efficiency = 1.0 - taken;
        it
    };
    let error = |given: [f64; 3]| -> f64 {
        let it = at(given);
        let apart = observations.iter().map(|seen| {
            let seconds = predict(&it, &seen.setting()).ok().and_then(|found| found.seconds);
            seconds.map_or(f64::INFINITY, |seconds| (seconds / seen.seconds).ln().powi(2))
        });
        // Of equals the one nearest to what was timed.
        let prior = given.iter().map(|it| it * it).sum::<f64>();
        apart.sum::<f64>() + PRIOR * prior
    };
    let least = 1.0 / f64::from(first.cores);
    let ranges = [(-0.7, 0.7), (0.0, 1.0), (0.0, (1.0 - least).min(0.7))];
    let mut best = [0.0; 3];
    for _ in 0..SWEEPS {
        for (place, range) in ranges.into_iter().enumerate() {
            let along = |value: f64| {
                let mut given = best;
                given[place] = value;
                error(given)
            };
            let found = lowest(along, range);
            if along(found) < error(best) {
                best[place] = found;
            }
        }
    }
    *calibration = at(best);
    calibration.check()
}

/// How much the adjustments count against errors of durations.
const PRIOR: f64 = 1e-3;

/// Each number is adjusted so many times.
const SWEEPS: u32 = 6;

/// Where a function is lowest: the best of some places, then by the golden section around it.
fn lowest(of: impl Fn(f64) -> f64, (from, to): (f64, f64)) -> f64 {
    const PLACES: usize = 12;
    let place = |it: usize| from + (to - from) * it as f64 / PLACES as f64;
    let best = (0..=PLACES).min_by(|a, b| of(place(*a)).total_cmp(&of(place(*b)))).unwrap_or(0);
    let (mut low, mut high) = (place(best.saturating_sub(1)), place((best + 1).min(PLACES)));
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..20 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        if of(left) < of(right) { high = right } else { low = left }
    }
    f64::midpoint(low, high)
}
