//! A run, in plain numbers.

use serde::{Deserialize, Serialize};

use crate::argument::{ArgumentError, count, not_negative, positive, share};
use crate::predict::Setting;

/// What was seen of one run of a loader. What is not known is `None`.
///
/// From `loader.stats()`: `fetch_s` is the time of all stages that make samples over the samples, `collate_s` the
/// time of putting batches together over the batches, and the rest is there by name.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Workers; 0: the training loop made batches itself.
    pub workers: u32,
    /// Samples of a batch.
    pub batch_size: u32,
    /// Batches ahead for each worker.
    pub prefetch: u32,
    /// Batches of the run.
    pub batches: u32,
    /// Seconds of each training step.
    pub step_s: f64,
    /// Seconds from asking for an iterator to its end.
    pub seconds: f64,
    /// Seconds of asking for an iterator.
    pub start_s: f64,
    /// Seconds from the last batch to the end.
    pub end_s: f64,
    /// Seconds that the loop waited for batches.
    pub wait_s: f64,
    /// Seconds that it waited for the first.
    pub first_wait_s: Option<f64>,
    /// The median wait of a batch.
    pub median_wait_s: Option<f64>,
    /// Seconds of a sample in its worker's hands.
    pub fetch_s: Option<f64>,
    /// Seconds of putting a batch together.
    pub collate_s: Option<f64>,
    /// Seconds of handing a batch over that is ready: the training loop asks for it and has it.
    pub handover_s: Option<f64>,
    /// Processor seconds of the process tree.
    pub cpu_s: Option<f64>,
    /// The share of a sample's time in which the interpreter's lock is held, where workers are threads.
    pub lock_share: Option<f64>,
    /// Bytes delivered.
    pub bytes: u64,
    /// Bytes of the process tree before the run.
    pub base_bytes: Option<u64>,
    /// The most bytes of the process tree.
    pub peak_bytes: Option<u64>,
}

impl Observation {
    /// Samples delivered.
    #[must_use]
    pub fn samples(&self) -> f64 {
        f64::from(self.batch_size) * f64::from(self.batches)
    }

    /// Samples per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.samples() / self.seconds
    }

    /// The share of the time in which the loop waited.
    #[must_use]
    pub fn waiting_share(&self) -> f64 {
        (self.wait_s / self.seconds).min(1.0)
    }

    /// Where it was made.
    #[must_use]
    pub fn setting(&self) -> Setting {
        Setting {
            prefetch: self.prefetch,
            step_seconds: self.step_s,
            batches: Some(self.batches),
            ..Setting::new(self.workers, self.batch_size)
        }
    }

    /// The time of a sample in its worker's hands, told or worked out.
    pub(super) fn fetch(&self) -> f64 {
        let hands = f64::from(self.workers.max(1));
        let making = (self.seconds - self.start_s - self.end_s).max(0.0);
        let worked_out = making * hands / self.samples();
        self.fetch_s.unwrap_or(worked_out).min(worked_out)
    }

    /// The time of putting a batch together, if it was told.
    pub(super) fn collating(&self) -> f64 {
        self.collate_s.unwrap_or(0.0)
    }

    /// The time that the loop spent neither waiting nor stepping, for each sample.
    pub(super) fn release(&self) -> f64 {
        let known = self.start_s + self.end_s + self.wait_s + self.step_s * f64::from(self.batches);
        (self.seconds - known).max(0.0) / self.samples()
    }

    /// Refuses numbers that cannot be.
    pub(super) fn check(&self) -> Result<(), ArgumentError> {
        count("batch_size", self.batch_size)?;
        count("batches", self.batches)?;
        count("prefetch", self.prefetch)?;
        positive("seconds", self.seconds)?;
        for (name, value) in [
            ("step_s", self.step_s),
            ("start_s", self.start_s),
            ("end_s", self.end_s),
            ("wait_s", self.wait_s),
        ] {
            not_negative(name, value)?;
        }
        for (name, value) in [
            ("first_wait_s", self.first_wait_s),
            ("median_wait_s", self.median_wait_s),
            ("fetch_s", self.fetch_s),
            ("collate_s", self.collate_s),
            ("handover_s", self.handover_s),
            ("cpu_s", self.cpu_s),
        ] {
            not_negative(name, value.unwrap_or(0.0))?;
        }
        share("lock_share", self.lock_share.unwrap_or(0.0)).map(drop)
    }
}
