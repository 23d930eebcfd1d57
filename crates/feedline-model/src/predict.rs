//! What a loader would do at another setting: throughput, share of waiting, memory.
//!
//! Three things are put together: the limits that no setting gets around ([`Ceilings`]), a run batch by batch with mean
//! times, in which workers share cores and wait for the training loop, and what starting and ending takes.
//!
//! ```
//! use feedline_model::calibrate::{Assignment, Calibration, WorkCosts};
//! use feedline_model::predict::{Bottleneck, Setting, predict};
//!
//! // Samples of 10 ms, of which 8 are spent waiting for a disk, on 4 cores.
//! let costs = WorkCosts { wait: 0.008, cpu: 0.002, ..WorkCosts::default() };
//! let calibration = Calibration::new(Assignment::Samples, 4, costs, 600_000)?;
//! let at = |workers| predict(&calibration, &Setting { step_seconds: 0.08, ..Setting::new(workers, 64) });
//! // The loop asks for 800 samples per second: 8 workers are just enough.
//! assert_eq!(at(4)?.samples_per_second.round(), 400.0);
//! assert_eq!(at(4)?.bottleneck, Bottleneck::Workers);
//! assert_eq!(at(12)?.samples_per_second.round(), 800.0);
//! assert_eq!(at(12)?.bottleneck, Bottleneck::Step);
//! # Ok::<(), feedline_model::ArgumentError>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::argument::{ArgumentError, at_most, count, not_negative};
use crate::calibrate::{Assignment, Calibration, WorkCosts};
use crate::contention::Cores;
use crate::rehearsal::{Rehearsal, Rehearsed};

/// Where to predict.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Workers; 0: the training loop makes batches itself.
    pub workers: u32,
    /// Samples of a batch.
    pub batch_size: u32,
    /// Batches ahead for each worker.
    pub prefetch: u32,
    /// Seconds of a training step.
    pub step_seconds: f64,
    /// Batches of the run, with its start and end. `None`: a long run, of which neither counts.
    pub batches: Option<u32>,
    /// Bytes that undelivered batches may take; `None`: any number.
    pub memory: Option<u64>,
}

impl Setting {
    /// A long run, two batches ahead for each worker, no training step, memory without limit.
    #[must_use]
    pub fn new(workers: u32, batch_size: u32) -> Setting {
        Setting { workers, batch_size, prefetch: 2, step_seconds: 0.0, batches: None, memory: None }
    }
}

/// What to expect there.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Samples delivered per second.
    pub samples_per_second: f64,
    /// The share of time in which the training loop waits for a batch.
    pub waiting_share: f64,
    /// The most bytes that the loader and its process tree take.
    pub memory_bytes: u64,
    /// What keeps it from being faster.
    pub bottleneck: Bottleneck,
    /// What each part could do alone.
    pub limits: Ceilings,
    /// Seconds from the start to the first batch.
    pub first_batch_seconds: f64,
    /// Seconds of the run, if it has a number of batches.
    pub seconds: Option<f64>,
    /// Cores that are busy in the mean.
    pub busy_cores: f64,
}

/// What keeps a loader from being faster.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// The workers are too few: more of them would bring more.
    Workers,
    /// The cores are all busy: more workers bring nothing.
    Cores,
    /// The interpreter's lock: processes, or code that releases it, would bring more.
    Lock,
    /// Handing batches over, on the training loop's own thread.
    Handover,
    /// The training step: the loader is fast enough.
    Step,
    /// Starting and ending workers: more batches, or workers that are kept, would bring more.
    Start,
}

impl Bottleneck {
    /// The same in a few words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Bottleneck::Workers => "too few workers",
            Bottleneck::Cores => "the cores are all busy",
            Bottleneck::Lock => "the interpreter's lock",
            Bottleneck::Handover => "handing batches over",
            Bottleneck::Step => "the training step",
            Bottleneck::Start => "starting and ending workers",
        }
    }
}

/// Samples per second that each part could do if all others were endlessly fast; `None` where it costs nothing.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// All workers, each with a core of its own: `workers / time of a sample`.
    pub workers: Option<f64>,
    /// All cores: `cores * efficiency / time of a sample on a core`.
    pub cores: Option<f64>,
    /// The interpreter's lock: `1 / time of a sample under it`.
    pub lock: Option<f64>,
    /// The training loop's thread, taking batches over and letting them go.
    pub handover: Option<f64>,
    /// The training loop's steps: `batch size / step`.
    pub step: Option<f64>,
}

impl Ceilings {
    fn of(calibration: &Calibration, setting: &Setting, costs: &WorkCosts) -> Ceilings {
        let rate = |seconds: f64| (seconds > 0.0).then(|| 1.0 / seconds);
        let batch = f64::from(setting.batch_size);
        let collate = costs.collating(setting.batch_size) / batch;
        let hands = f64::from(setting.workers.max(1));
        let cores = Cores::of(calibration).capacity();
        Ceilings {
            workers: rate((costs.sample() + collate) / hands),
            cores: rate((costs.cpu + costs.lock + collate) / cores),
            lock: rate(costs.lock),
            handover: rate(costs.handover / batch + costs.release),
            step: rate(setting.step_seconds / batch),
        }
    }

    /// The smallest of them.
    fn smallest(&self) -> Bottleneck {
        let named = [
            (Bottleneck::Step, self.step),
            (Bottleneck::Cores, self.cores),
            (Bottleneck::Lock, self.lock),
            (Bottleneck::Workers, self.workers),
            (Bottleneck::Handover, self.handover),
        ];
        let known = named.into_iter().filter_map(|(name, rate)| Some((name, rate?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(Bottleneck::Workers, |(name, _)| name)
    }
}

/// More workers, and batches ahead, than a prediction is made for.
const MOST: u32 = 4096;

/// A run is followed for so many batches, and for some for each that may be ahead; further ones come at the rate of the
/// later half of these.
const FOLLOWED: usize = 256;

/// Predicts what a loader does at a setting.
///
/// # Errors
///
/// If the setting or the calibration cannot be, or a batch does not fit into the memory allowed: the message names the
/// quantity and says why.
pub fn predict(calibration: &Calibration, setting: &Setting) -> Result<Prediction, ArgumentError> {
    calibration.check()?;
    count("batch_size", setting.batch_size)?;
    count("prefetch", setting.prefetch)?;
    not_negative("step_seconds", setting.step_seconds)?;
    at_most("workers", setting.workers, MOST)?;
    at_most("prefetch", setting.prefetch, MOST)?;
    if let Some(batches) = setting.batches {
        count("batches", batches)?;
    }
    let costs = calibration.costs(setting.workers);
    let ahead = ahead(calibration, setting)?;
    let workers = setting.workers as usize;
    let (start, end) = match setting.batches {
        Some(_) => (calibration.start.at(setting.workers), calibration.end.at(setting.workers)),
        None => (0.0, 0.0),
    };
    let followed = FOLLOWED.max(6 * ahead.min(MOST as usize));
    let wanted = setting.batches.map_or(followed, |batches| batches as usize);
    let taken = if workers == 0 {
        inline(costs, setting, start, wanted.min(followed))
    } else {
        let (first, each, spin_up) = match (setting.batches, calibration.assignment) {
            (None, _) => (0.0, 0.0, 0.0),
            // Threads are there at once; what they wait for takes as long however many they are.
            (Some(_), Assignment::Samples) => {
                let (first, each) = calibration.started_at();
                (first + calibration.spin_up, each, 0.0)
            }
            (Some(_), Assignment::Batches) => {
                let (first, each) = calibration.started_at();
                (first, each, calibration.spin_up)
            }
        };
        let run = Rehearsal {
            assignment: calibration.assignment,
            costs: *costs,
            cores: Cores::of(calibration),
            workers,
            batch_size: setting.batch_size,
            ahead,
            batches: wanted.min(followed),
            step: setting.step_seconds,
            asks_at: start,
            started_at: (first, each),
            spin_up,
            head_start: calibration.head_start,
            new_memory: calibration.new_memory.at(batch_bytes(calibration, setting)),
        };
        run.taken()
    };
    let after_each = setting.step_seconds + costs.release * f64::from(setting.batch_size);
    let totals = Totals::of(&taken, setting, wanted, (start, end), after_each);
    let limits = Ceilings::of(calibration, setting, costs);
    let bottleneck = match setting.batches {
        Some(_) if start + end > totals.seconds / 2.0 => Bottleneck::Start,
        _ => limits.smallest(),
    };
    let on_core = costs.cpu
        + costs.lock
        + costs.collating(setting.batch_size) / f64::from(setting.batch_size);
    Ok(Prediction {
        samples_per_second: totals.rate,
        waiting_share: totals.waiting,
        memory_bytes: memory(calibration, setting, taken.most_begun),
        bottleneck,
        limits,
        first_batch_seconds: taken.at.first().copied().unwrap_or(0.0),
        seconds: setting.batches.map(|_| totals.seconds),
        busy_cores: (totals.rate * on_core).min(f64::from(calibration.cores)),
    })
}

/// A run in three numbers.
struct Totals {
    seconds: f64,
    rate: f64,
    waiting: f64,
}

impl Totals {
    fn of(
        taken: &Rehearsed,
        setting: &Setting,
        wanted: usize,
        (start, end): (f64, f64),
        after_each: f64,
    ) -> Totals {
        let followed = taken.at.len();
        let half = followed / 2;
        let samples = f64::from(setting.batch_size);
        // The rhythm of the later half: time and waiting per batch.
        let later = (followed - half) as f64;
        let begun = if half > 0 { taken.at[half - 1] } else { start };
        let cycle = (taken.at[followed - 1] - begun) / later;
        let wait = taken.waits[half..].iter().sum::<f64>() / later;
        if setting.batches.is_none() {
            return Totals {
                seconds: 0.0,
                rate: samples / cycle,
                waiting: (wait / cycle).min(1.0),
            };
        }
        let beyond = (wanted - followed) as f64;
        let seconds = taken.at[followed - 1] + beyond * cycle + after_each + end;
        let waited = taken.waits.iter().sum::<f64>() + beyond * wait;
        let rate = samples * wanted as f64 / seconds;
        Totals { seconds, rate, waiting: (waited / seconds).min(1.0) }
    }
}

/// The training loop makes batches itself, one after the other.
fn inline(costs: &WorkCosts, setting: &Setting, start: f64, batches: usize) -> Rehearsed {
    let each = f64::from(setting.batch_size) * costs.sample()
        + costs.collating(setting.batch_size)
        + costs.handover;
    let release = costs.release * f64::from(setting.batch_size);
    let cycle = each + setting.step_seconds + release;
    let at = (0..batches).map(|batch| start + each + batch as f64 * cycle).collect();
    Rehearsed { at, waits: vec![each; batches], most_begun: 1 }
}

fn batch_bytes(calibration: &Calibration, setting: &Setting) -> u64 {
    calibration.sample_bytes.saturating_mul(u64::from(setting.batch_size))
}

/// How many batches may be ahead, by number and by bytes.
fn ahead(calibration: &Calibration, setting: &Setting) -> Result<usize, ArgumentError> {
    let by_number = u64::from(setting.workers.max(1)) * u64::from(setting.prefetch);
    let batch_bytes = batch_bytes(calibration, setting);
    let by_bytes = match setting.memory {
        Some(memory) if batch_bytes > memory => {
            let hint = "allow more, or make batches smaller";
            return Err(ArgumentError::DoesNotFit {
                name: "a batch",
                needs: batch_bytes,
                has: memory,
                hint,
            });
        }
        Some(memory) => memory.checked_div(batch_bytes).unwrap_or(u64::MAX),
        None => u64::MAX,
    };
    Ok(usize::try_from(by_number.min(by_bytes)).unwrap_or(usize::MAX))
}

/// The most that the process tree takes: what it takes without batches, the batches that are begun and not let go, the one in
/// the loop's hands, and with whole batches to each worker the samples of those in the making.
fn memory(calibration: &Calibration, setting: &Setting, begun: usize) -> u64 {
    let (begun, hands) = (begun as u64, u64::from(setting.workers.max(1)));
    let held = match calibration.assignment {
        Assignment::Batches => begun + begun.min(hands) + 1,
        Assignment::Samples => begun + 1,
    };
    let batch = batch_bytes(calibration, setting);
    let workers = u64::from(setting.workers).saturating_mul(calibration.worker_bytes);
    calibration.base_bytes.saturating_add(workers).saturating_add(held.saturating_mul(batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(assignment: Assignment) -> Calibration {
        let costs = WorkCosts { wait: 0.006, cpu: 0.004, ..WorkCosts::default() };
        Calibration::new(assignment, 4, costs, 1000).unwrap()
    }

    #[test]
    fn a_long_run_reaches_the_smallest_limit() {
        for assignment in [Assignment::Samples, Assignment::Batches] {
            for workers in [1, 3, 8, 50] {
                for step_seconds in [0.0, 0.2] {
                    let setting = Setting { step_seconds, ..Setting::new(workers, 20) };
                    let it = predict(&calibration(assignment), &setting).unwrap();
                    let limits = [it.limits.workers, it.limits.cores, it.limits.step];
                    let least = limits.into_iter().flatten().fold(f64::INFINITY, f64::min);
                    let apart = it.samples_per_second / least - 1.0;
                    // Near the knee workers are in each other's way by chance.
                    assert!((-0.08..0.02).contains(&apart), "{assignment:?} {setting:?} {apart}");
                    let busy = 1.0 - it.samples_per_second * step_seconds / 20.0;
                    assert!((it.waiting_share - busy).abs() < 0.02, "{setting:?} {it:?}");
                }
            }
        }
    }

    #[test]
    fn more_batches_take_longer_in_proportion() {
        let of = |batches| {
            let setting = Setting { batches: Some(batches), ..Setting::new(3, 20) };
            predict(&calibration(Assignment::Batches), &setting).unwrap().seconds.unwrap()
        };
        let (hundred, thousand, many) = (of(100), of(1000), of(100_000));
        assert!((thousand / hundred - 10.0).abs() < 0.3, "{hundred} {thousand}");
        assert!((many / thousand - 100.0).abs() < 1.0, "{thousand} {many}");
    }

    #[test]
    fn without_workers_making_and_stepping_alternate() {
        let setting = Setting { step_seconds: 0.3, batches: Some(5), ..Setting::new(0, 20) };
        let it = predict(&calibration(Assignment::Samples), &setting).unwrap();
        assert!((it.seconds.unwrap() - 5.0 * 0.5).abs() < 1e-9);
        assert!(
            (it.waiting_share - 0.4).abs() < 1e-9 && (it.samples_per_second - 40.0).abs() < 1e-9
        );
    }

    #[test]
    fn memory_is_what_is_begun_and_held() {
        let slow = |workers, assignment| {
            let setting = Setting { step_seconds: 9.0, ..Setting::new(workers, 20) };
            predict(&calibration(assignment), &setting).unwrap().memory_bytes / 20_000
        };
        // Two ahead for each worker and the one in the loop's hands; whole batches also exist as samples.
        assert_eq!(slow(4, Assignment::Samples), 8 + 1);
        assert_eq!(slow(4, Assignment::Batches), 8 + 4 + 1);
        let limited = Setting { memory: Some(65_000), step_seconds: 9.0, ..Setting::new(4, 20) };
        let it = predict(&calibration(Assignment::Samples), &limited).unwrap();
        assert_eq!(it.memory_bytes / 20_000, 3 + 1);
    }

    #[test]
    fn the_largest_setting_is_answered() {
        for assignment in [Assignment::Samples, Assignment::Batches] {
            let setting = Setting { prefetch: MOST, ..Setting::new(MOST, u32::MAX) };
            assert!(predict(&calibration(assignment), &setting).unwrap().samples_per_second > 0.0);
        }
    }

    #[test]
    fn starting_counts_where_batches_are_few() {
        let mut costly = calibration(Assignment::Batches);
        costly.start.each = 1.0;
        let setting = Setting { batches: Some(4), ..Setting::new(4, 20) };
        let it = predict(&costly, &setting).unwrap();
        assert_eq!(it.bottleneck, Bottleneck::Start);
        assert!(it.seconds.unwrap() >= 4.0);
        let long = predict(&costly, &Setting { batches: None, ..setting }).unwrap();
        assert_eq!(long.bottleneck, Bottleneck::Workers);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let ok = Setting::new(2, 4);
        let problem = |setting: Setting| {
            predict(&calibration(Assignment::Samples), &setting).unwrap_err().to_string()
        };
        assert_eq!(
            problem(Setting { step_seconds: f64::NAN, ..ok }),
            "step_seconds is NaN; pass a finite number that is at least 0"
        );
        assert_eq!(
            problem(Setting { workers: 1 << 20, ..ok }),
            "workers is 1048576; pass at most 4096"
        );
        assert_eq!(
            problem(Setting { memory: Some(3999), ..ok }),
            "a batch takes 4000 bytes and 3999 are allowed; allow more, or make batches smaller"
        );
        let mut wrong = calibration(Assignment::Samples);
        wrong.efficiency = 0.0;
        assert!(predict(&wrong, &ok).unwrap_err().to_string().starts_with("efficiency is 0"));
    }
}
