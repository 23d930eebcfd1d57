//! From observations to costs.
//!
//! What was timed is taken as it is: the time of a sample, of putting a batch together, of starting and ending. The time
//! on a core is the processor time; what is left of a sample's time was spent waiting. Then five numbers are
//! adjusted until predicted rates and shares of waiting are nearest to the observed ones (least squares of the rates' logarithms and
//! of the shares): a factor on all costs of a sample, seconds per batch that nobody timed, how much busy cores take from each
//! other, what they lose when more threads than cores take turns, and the head start of a training loop that wakes up.

use super::{Assignment, Calibration, Growing, NewMemory, Observation, WorkCosts};
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
        Calibration::new(assignment, cores, WorkCosts { wait: 1.0, ..WorkCosts::default() }, 0)?;
    calibration.start = growing(observations, |it| it.start_s);
    calibration.end = growing(observations, |it| it.end_s);
    sizes(&mut calibration, observations);
    if !working.is_empty() {
        calibration.with_workers = costs(assignment, &fewest(&working))?;
        calibration.inline = calibration.with_workers;
        calibration.new_memory = new_memory(assignment, &fewest(&working));
        calibration.spin_up = spin_up(&calibration, &fewest(&working));
    }
    if !inline.is_empty() {
        calibration.inline = costs(assignment, &inline)?;
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

/// WorkCosts as they were timed.
fn costs(
    assignment: Assignment,
    observations: &[&Observation],
) -> Result<WorkCosts, ArgumentError> {
    let fetch = mean(observations.iter().map(|it| steady(assignment, it)));
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
    let held = mean(observations.iter().filter_map(|it| it.lock_share)) * fetch;
    let lock = held.min(on_core);
    let costs = WorkCosts {
        wait: fetch - on_core,
        cpu: on_core - lock,
        lock,
        collate,
        batch,
        handover: mean(observations.iter().filter_map(|it| it.handover_s)),
        release: mean(observations.iter().map(|it| it.release())),
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
    let each = observations.iter().filter_map(|it| {
        let hands = match calibration.assignment {
            Assignment::Samples => f64::from(it.workers),
            Assignment::Batches => 1.0,
        };
        let samples = (f64::from(it.batch_size) / hands).ceil();
        let new = calibration.new_memory.at(it.bytes / u64::from(it.batches)) / hands;
        let making = samples * steady(calibration.assignment, it) + it.collating() + new;
        let making = making + calibration.with_workers.handover;
        let begun = calibration.start.fixed + calibration.start.each;
        Some((it.first_wait_s? + it.start_s - begun - making).max(0.0))
    });
    // Of what delays a first batch now and then, nothing belongs here.
    each.min_by(f64::total_cmp).unwrap_or(0.0)
}

/// The time of a sample where memory is used again. All workers fill one batch, so the median wait tells it.
fn steady(assignment: Assignment, it: &Observation) -> f64 {
    match (assignment, it.median_wait_s) {
        (Assignment::Samples, Some(wait)) if it.step_s == 0.0 && it.workers > 0 => {
            (wait * f64::from(it.workers) / f64::from(it.batch_size)).min(it.fetch())
        }
        _ => it.fetch(),
    }
}

/// What new memory takes, from how much longer than the median batches took that were not: as many as may be ahead.
fn new_memory(assignment: Assignment, observations: &[&Observation]) -> NewMemory {
    let mut seen: Vec<(f64, f64)> = Vec::new();
    for it in observations.iter().filter(|it| it.step_s == 0.0 && it.batches > 2) {
        if let (Assignment::Samples, Some(first), Some(median)) =
            (assignment, it.first_wait_s, it.median_wait_s)
        {
            let (batches, ahead) = (f64::from(it.batches), f64::from(it.prefetch * it.workers));
            let longer = (it.wait_s - first - (batches - 1.0) * median).max(0.0);
            seen.push((it.bytes as f64 / batches, longer * f64::from(it.workers) / ahead));
        }
    }
    seen.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(small), Some(large)) = (seen.first(), seen.last()) else {
        return NewMemory::default();
    };
    // From where the line through both meets 0, or from 0.
    let slope = if large.0 > small.0 { (large.1 - small.1) / (large.0 - small.0) } else { 0.0 };
    let kept = if slope > 0.0 { (small.0 - small.1 / slope).max(0.0) } else { 0.0 };
    let beyond = large.0 - kept;
    let each_byte = if beyond > 0.0 { large.1 / beyond } else { 0.0 };
    NewMemory { kept_bytes: kept as u64, each_byte }
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

/// Adjusts what nobody timed until rates and shares of waiting are nearest to the observed ones.
fn adjust(
    calibration: &mut Calibration,
    observations: &[&Observation],
) -> Result<(), ArgumentError> {
    let first = calibration.clone();
    let batch_time = mean(observations.iter().map(|it| {
        f64::from(it.batch_size) * first.with_workers.sample()
            + first.with_workers.collating(it.batch_size)
    }));
    let at = |[scale, untimed, taken, switching, ahead]: [f64; 5]| {
        let mut it = first.clone();
        let costs = &mut it.with_workers;
        for part in [&mut costs.wait, &mut costs.cpu, &mut costs.lock, &mut costs.collate] {
            *part *= scale.exp();
        }
        costs.batch += untimed * batch_time;
        it.efficiency = 1.0 - taken;
        it.switching = switching;
        it.head_start = ahead * LONGEST_HEAD_START;
        it
    };
    let error = |given: [f64; 5]| -> f64 {
        let it = at(given);
        let apart = observations.iter().map(|seen| {
            let Ok(found) = predict(&it, &seen.setting()) else { return f64::INFINITY };
            let rate = (found.samples_per_second / seen.rate()).ln();
            let waiting = found.waiting_share - seen.waiting_share();
            rate * rate + waiting * waiting
        });
        // Of equals the one nearest to what was timed.
        let prior = given.iter().map(|it| it * it).sum::<f64>();
        apart.sum::<f64>() + PRIOR * prior
    };
    let least = 1.0 / f64::from(first.cores);
    let ranges = [(-0.7, 0.7), (0.0, 1.0), (0.0, (1.0 - least).min(0.7)), (0.0, 0.6), (0.0, 1.0)];
    let mut best = [0.0; 5];
    let mut least_error = error(best);
    for _ in 0..SWEEPS {
        for (place, range) in ranges.into_iter().enumerate() {
            let along = |value: f64| {
                let mut given = best;
                given[place] = value;
                error(given)
            };
            let found = lowest(along, range);
            let its_error = along(found);
            if its_error < least_error {
                (best[place], least_error) = (found, its_error);
            }
        }
    }
    *calibration = at(best);
    calibration.check()
}

/// Seconds; schedulers give a thread that wakes up no more before it has to share.
const LONGEST_HEAD_START: f64 = 0.01;

/// How much the adjustments count against errors of durations.
const PRIOR: f64 = 1e-3;

/// Each number is adjusted so many times.
const SWEEPS: u32 = 6;

/// Where a function is lowest: the best of some places, then by the golden section around it.
fn lowest(of: impl Fn(f64) -> f64, (from, to): (f64, f64)) -> f64 {
    const PLACES: usize = 8;
    let place = |it: usize| from + (to - from) * it as f64 / PLACES as f64;
    let best = (0..=PLACES).min_by(|a, b| of(place(*a)).total_cmp(&of(place(*b)))).unwrap_or(0);
    let (mut low, mut high) = (place(best.saturating_sub(1)), place((best + 1).min(PLACES)));
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..12 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        if of(left) < of(right) { high = right } else { low = left }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten batches of 16 samples of 10 ms by one worker, of which 2 ms are on a core.
    fn seen() -> Observation {
        Observation {
            workers: 1,
            batch_size: 16,
            prefetch: 2,
            batches: 10,
            seconds: 1.65,
            start_s: 0.05,
            wait_s: 1.6,
            fetch_s: Some(0.01),
            cpu_s: Some(0.32 + 0.05),
            bytes: 160_000,
            base_bytes: Some(1 << 20),
            peak_bytes: Some((1 << 20) + 7_000 + 3 * 16_000),
            ..Observation::default()
        }
    }

    #[test]
    fn one_run_tells_what_a_sample_costs() {
        let found = Calibration::of(Assignment::Batches, 4, &[seen()]).unwrap();
        let costs = found.with_workers;
        assert!((costs.wait - 0.008).abs() < 1e-5 && (costs.cpu - 0.002).abs() < 1e-5, "{costs:?}");
        assert_eq!((found.sample_bytes, found.base_bytes), (1000, 1 << 20));
        assert_eq!(found.worker_bytes, 7_000);
        let again = predict(&found, &seen().setting()).unwrap();
        assert!((again.seconds.unwrap() / 1.65 - 1.0).abs() < 0.01, "{again:?}");
        assert_eq!(again.memory_bytes, seen().peak_bytes.unwrap());
    }

    #[test]
    fn what_is_not_told_is_worked_out() {
        let bare = Observation { fetch_s: None, cpu_s: None, ..seen() };
        let costs = Calibration::of(Assignment::Batches, 4, &[bare]).unwrap().with_workers;
        assert!((costs.sample() - 0.01).abs() < 1e-4, "{costs:?}");
        assert_eq!(costs.wait, 0.0, "without processor time all is taken to be on a core");
    }

    #[test]
    fn the_lock_is_a_part_of_the_time_on_a_core() {
        let locked = Observation { lock_share: Some(0.1), ..seen() };
        let costs = Calibration::of(Assignment::Samples, 4, &[locked]).unwrap().with_workers;
        assert!((costs.lock - 0.001).abs() < 1e-5 && (costs.cpu - 0.001).abs() < 1e-5, "{costs:?}");
    }

    #[test]
    fn impossible_runs_are_named() {
        let problem = |it: Observation| {
            Calibration::of(Assignment::Batches, 2, &[it]).unwrap_err().to_string()
        };
        assert_eq!(
            Calibration::of(Assignment::Batches, 2, &[]).unwrap_err().to_string(),
            "observations has 0 values; pass at least 1"
        );
        assert_eq!(
            problem(Observation { seconds: 0.0, ..seen() }),
            "seconds is 0; pass a finite number above 0"
        );
        assert_eq!(
            problem(Observation { wait_s: -1.0, ..seen() }),
            "wait_s is -1; pass a finite number that is at least 0"
        );
        assert_eq!(problem(Observation { batches: 0, ..seen() }), "batches is 0; pass at least 1");
        assert_eq!(
            problem(Observation { lock_share: Some(2.0), ..seen() }),
            "lock_share is 2; pass a share from 0 to 1"
        );
        assert!(Calibration::of(Assignment::Batches, 0, &[seen()]).is_err());
    }

    #[test]
    fn lines_have_no_negative_part() {
        assert_eq!(line(&[(1.0, 3.0), (2.0, 5.0)]), (1.0, 2.0));
        assert_eq!(line(&[(1.0, 1.0), (3.0, 9.0)]), (0.0, 2.5));
        assert_eq!(line(&[(1.0, 4.0), (3.0, 2.0)]), (3.0, 0.0));
        assert_eq!(line(&[(2.0, 4.0)]), (0.0, 2.0));
        assert_eq!(line(&[]), (0.0, 0.0));
    }
}
