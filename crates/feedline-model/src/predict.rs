//! What a loader would do at another setting: throughput, share of waiting, memory.
//!
//! Three things are put together: the limits that no setting gets around ([`Limits`]), a run batch by batch with mean
//! times, in which workers share cores and wait for the training loop, and what starting and ending takes.
//!
//! ```
//! use feedline_model::calibrate::{Assignment, Calibration, Costs};
//! use feedline_model::predict::{Bottleneck, Setting, predict};
//!
//! // Samples of 10 ms, of which 8 are spent waiting for a disk, on 4 cores.
//! let costs = Costs { wait: 0.008, cpu: 0.002, ..Costs::default() };
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
use crate::calibrate::{Assignment, Calibration, Costs};
use crate::contention::Cores;
use crate::run::{Run, Taken};

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
    pub limits: Limits,
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
pub struct Limits {
    /// All workers, each with a core of its own: `workers / time of a sample`.
    pub workers: Option<f64>,
    /// All cores: `cores * efficiency / time of a sample on a core`.
    pub cores: Option<f64>,
    /// The interpreter's lock: `1 / time of a sample under it`.
    pub lock: Option<f64>,
    /// The training loop's thread, taking batches over: `batch size / hand-over`.
    pub handover: Option<f64>,
    /// The training loop's steps: `batch size / step`.
    pub step: Option<f64>,
}

impl Limits {
    fn of(calibration: &Calibration, setting: &Setting, costs: &Costs) -> Limits {
        let rate = |seconds: f64| (seconds > 0.0).then(|| 1.0 / seconds);
        let batch = f64::from(setting.batch_size);
        let collate = costs.collating(setting.batch_size) / batch;
        let hands = f64::from(setting.workers.max(1));
        let cores = Cores::of(calibration).capacity();
        Limits {
            workers: rate((costs.sample() + collate) / hands),
            cores: rate((costs.cpu + costs.lock + collate) / cores),
            lock: rate(costs.lock),
            handover: rate(costs.handover / batch),
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
const MOST: u32 = 1 << 16;

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
        let run = Run {
            assignment: calibration.assignment,
            costs: *costs,
            cores: Cores::of(calibration),
            workers,
            batch_size: setting.batch_size,
            ahead,
            batches: wanted.min(followed),
            step: setting.step_seconds,
            asks_at: start,
            begins_at: match setting.batches {
                Some(_) => calibration.begins_at(),
                None => (0.0, 0.0),
            },
        };
        run.taken()
    };
    let course = Course::of(&taken, setting, wanted, start, end);
    let limits = Limits::of(calibration, setting, costs);
    let bottleneck = match setting.batches {
        Some(_) if start + end > course.seconds / 2.0 => Bottleneck::Start,
        _ => limits.smallest(),
    };
    let on_core = costs.cpu
        + costs.lock
        + costs.collating(setting.batch_size) / f64::from(setting.batch_size);
    Ok(Prediction {
        samples_per_second: course.rate,
        waiting_share: course.waiting,
        memory_bytes: memory(calibration, setting, ahead),
        bottleneck,
        limits,
        first_batch_seconds: taken.at.first().copied().unwrap_or(0.0),
        seconds: setting.batches.map(|_| course.seconds),
        busy_cores: (course.rate * on_core).min(f64::from(calibration.cores)),
    })
}

/// A run in three numbers.
struct Course {
    seconds: f64,
    rate: f64,
    waiting: f64,
}

impl Course {
    fn of(taken: &Taken, setting: &Setting, wanted: usize, start: f64, end: f64) -> Course {
        let followed = taken.at.len();
        let half = followed / 2;
        let samples = f64::from(setting.batch_size);
        // The rhythm of the later half: time and waiting per batch.
        let later = (followed - half) as f64;
        let begun = if half > 0 { taken.at[half - 1] } else { start };
        let cycle = (taken.at[followed - 1] - begun) / later;
        let wait = taken.waits[half..].iter().sum::<f64>() / later;
        if setting.batches.is_none() {
            return Course {
                seconds: 0.0,
                rate: samples / cycle,
                waiting: (wait / cycle).min(1.0),
            };
        }
        let beyond = (wanted - followed) as f64;
        let seconds = taken.at[followed - 1] + beyond * cycle + setting.step_seconds + end;
        let waited = taken.waits.iter().sum::<f64>() + beyond * wait;
        let rate = samples * wanted as f64 / seconds;
        Course { seconds, rate, waiting: (waited / seconds).min(1.0) }
    }
}

/// The training loop makes batches itself, one after the other.
fn inline(costs: &Costs, setting: &Setting, start: f64, batches: usize) -> Taken {
    let each = f64::from(setting.batch_size) * costs.sample()
        + costs.collating(setting.batch_size)
        + costs.handover;
    let cycle = each + setting.step_seconds;
    let at = (0..batches).map(|batch| start + each + batch as f64 * cycle).collect();
    Taken { at, waits: vec![each; batches] }
}

/// How many batches may be ahead, by number and by bytes.
fn ahead(calibration: &Calibration, setting: &Setting) -> Result<usize, ArgumentError> {
    let by_number = u64::from(setting.workers.max(1)) * u64::from(setting.prefetch);
    let batch_bytes = calibration.sample_bytes.saturating_mul(u64::from(setting.batch_size));
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

/// The most that the process tree takes: what it takes without batches, and the batches that are ahead, in the
/// making, and in the loop's hands.
fn memory(calibration: &Calibration, setting: &Setting, ahead: usize) -> u64 {
    let batches = setting.batches.map_or(u64::MAX, u64::from);
    let workers = u64::from(setting.workers);
    let held = match (calibration.assignment, workers) {
        // The samples, and the batch made of them.
        (Assignment::Batches, 0) => 2,
        (Assignment::Samples, 0) => 1,
        (Assignment::Batches, _) => (ahead as u64).min(batches) + workers.min(batches) + 1,
        (Assignment::Samples, _) => (ahead as u64).min(batches) + 1,
    };
    let batch = calibration.sample_bytes.saturating_mul(u64::from(setting.batch_size));
    calibration
        .base_bytes
        .saturating_add(workers.saturating_mul(calibration.worker_bytes))
        .saturating_add(held.saturating_mul(batch))
}
