//! What a loader's work costs: all that a [prediction](crate::predict) needs to know, found from a few runs.
//!
//! A [`Calibration`] is plain numbers. It is written down by hand, read from a file, or found by
//! [`Calibration::of`] from [observations](Observation): what `loader.stats()` or an experiment says about a run.

mod fit;
mod observation;
mod stats;

use serde::{Deserialize, Serialize};

pub use observation::Observation;
pub use stats::{BatchTotal, LoaderStats, LoopStats, MemoryTotal, StageTotal};

use crate::argument::{ArgumentError, count, not_negative, positive, share};
use crate::contention::Cores;

/// How the samples of a batch are given out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// As feedline's engine does: all workers fill one batch together.
    Samples,
    /// As torch's DataLoader does: whole batches, in turn to each worker.
    Batches,
}

/// What making samples costs a worker that has a core for itself, in seconds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkCosts {
    /// Of each sample, off the processor: waiting for a disk, a network.
    pub wait: f64,
    /// Of each sample, on a core, without the interpreter's lock.
    pub cpu: f64,
    /// Of each sample, on a core under the interpreter's lock, which one thread has at a time. Processes have one
    /// each, so for them it is 0.
    pub lock: f64,
    /// Of each sample, on a core, when its batch is put together and sent.
    pub collate: f64,
    /// Of each batch, on a core, however many samples it has.
    pub batch: f64,
    /// Of each batch, for the training loop's thread to take it over.
    pub handover: f64,
    /// Of each sample, for the training loop's thread to let go of its batch: memory goes back to the system.
    pub release: f64,
}

impl WorkCosts {
    /// The time of a sample, before its batch is put together.
    #[must_use]
    pub fn sample(&self) -> f64 {
        self.wait + self.cpu + self.lock
    }

    /// The time of putting a batch together.
    #[must_use]
    pub fn collating(&self, batch_size: u32) -> f64 {
        self.batch + self.collate * f64::from(batch_size)
    }

    fn check(&self) -> Result<(), ArgumentError> {
        for (name, seconds) in [
            ("wait", self.wait),
            ("cpu", self.cpu),
            ("lock", self.lock),
            ("collate", self.collate),
            ("batch", self.batch),
            ("handover", self.handover),
            ("release", self.release),
        ] {
            not_negative(name, seconds)?;
        }
        positive("the time of a sample", self.sample() + self.collate + self.batch).map(drop)
    }
}

/// Seconds that grow with the number of workers: `fixed + workers * each`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Growing {
    /// However many workers there are.
    pub fixed: f64,
    /// For each worker.
    pub each: f64,
}

impl Growing {
    /// The seconds with so many workers.
    #[must_use]
    pub fn at(&self, workers: u32) -> f64 {
        self.fixed + self.each * f64::from(workers)
    }
}

/// Seconds on a core for memory that is new: the system gives pages as they are first written to.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewMemory {
    /// Batches of up to so many bytes get memory that the process has from before.
    pub kept_bytes: u64,
    /// For each further byte.
    pub each_byte: f64,
}

impl NewMemory {
    /// The seconds of a batch of so many bytes.
    #[must_use]
    pub fn at(&self, bytes: u64) -> f64 {
        self.each_byte * bytes.saturating_sub(self.kept_bytes) as f64
    }
}

/// What a loader's work costs, on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// How work is given out.
    pub assignment: Assignment,
    /// Cores that workers share.
    pub cores: u32,
    /// What a core does when all are busy, of what it does alone: 1 for cores that share nothing, less for two threads of
    /// one core or work that waits for memory.
    pub efficiency: f64,
    /// What cores lose at most when more workers than cores take turns, because caches are filled by others.
    #[serde(default)]
    pub switching: f64,
    /// Seconds that the training loop, when it wakes up, has a core to itself before it shares it with workers.
    #[serde(default)]
    pub head_start: f64,
    /// What samples and batches cost where workers make them.
    pub with_workers: WorkCosts,
    /// What they cost where the training loop makes them itself.
    pub inline: WorkCosts,
    /// From asking for an iterator to having one.
    pub start: Growing,
    /// From the last batch to the end.
    pub end: Growing,
    /// From a worker's start until it begins to work; a process needs a core for it.
    pub spin_up: f64,
    /// What the memory of a batch takes that was in no batch before. Where whole batches are given out all memory is
    /// new, and it is a part of their costs.
    pub new_memory: NewMemory,
    /// Bytes of a sample in its batch.
    pub sample_bytes: u64,
    /// Bytes of the process without batches and workers.
    pub base_bytes: u64,
    /// Bytes that each worker has for itself, batches aside.
    pub worker_bytes: u64,
}

impl Calibration {
    /// Work of known costs that starts and ends at once, on cores that share nothing.
    pub fn new(
        assignment: Assignment,
        cores: u32,
        costs: WorkCosts,
        sample_bytes: u64,
    ) -> Result<Calibration, ArgumentError> {
        let calibration = Calibration {
            assignment,
            cores,
            efficiency: 1.0,
            switching: 0.0,
            head_start: 0.0,
            with_workers: costs,
            inline: costs,
            start: Growing::default(),
            end: Growing::default(),
            spin_up: 0.0,
            new_memory: NewMemory::default(),
            sample_bytes,
            base_bytes: 0,
            worker_bytes: 0,
        };
        calibration.check()?;
        Ok(calibration)
    }

    /// Finds what work costs from runs at some settings: at least one, better one with few workers and one with
    /// more than there are cores, at the smallest and the largest batch size.
    ///
    /// # Errors
    ///
    /// If there are none, or one of them cannot be: the message names the quantity and says why.
    pub fn of(
        assignment: Assignment,
        cores: u32,
        observations: &[Observation],
    ) -> Result<Calibration, ArgumentError> {
        fit::fit(assignment, cores, observations)
    }

    /// Refuses numbers that cannot be.
    pub fn check(&self) -> Result<(), ArgumentError> {
        count("cores", self.cores)?;
        share("efficiency", self.efficiency)?;
        positive("efficiency", self.efficiency)?;
        share("switching", self.switching)?;
        positive("1 - switching", 1.0 - self.switching)?;
        self.with_workers.check()?;
        self.inline.check()?;
        for (name, seconds) in [
            ("start", self.start.fixed),
            ("start", self.start.each),
            ("end", self.end.fixed),
            ("end", self.end.each),
            ("spin_up", self.spin_up),
            ("head_start", self.head_start),
            ("new_memory", self.new_memory.each_byte),
        ] {
            not_negative(name, seconds)?;
        }
        Ok(())
    }

    /// What samples and batches cost with so many workers.
    #[must_use]
    pub fn costs(&self, workers: u32) -> &WorkCosts {
        if workers == 0 { &self.inline } else { &self.with_workers }
    }

    /// When the first worker is started, and how much later each further one is.
    pub(crate) fn started_at(&self) -> (f64, f64) {
        (self.start.fixed + self.start.each, self.start.each)
    }
}

impl Cores {
    pub(crate) fn of(calibration: &Calibration) -> Cores {
        Cores {
            count: f64::from(calibration.cores),
            efficiency: calibration.efficiency,
            switching: calibration.switching,
        }
    }
}
