//! What one worker counts: written by itself, read by whoever asks for statistics.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use hdrhistogram::Histogram;

use crate::schedule::LONGEST_NS;
use crate::sync::lock_std;
use crate::work::Stage;

/// Times with two significant digits, from a nanosecond to an hour.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 2)
        .expect("1 <= 2*low <= high and 2 significant digits are valid bounds")
}

/// One worker's counts. Relaxed throughout: they are sums for reports and publish nothing.
pub(crate) struct Tally {
    pub(crate) samples: AtomicU64,
    pub(crate) jobs: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
    pub(crate) idle_for_consumer_ns: AtomicU64,
    pub(crate) idle_without_work_ns: AtomicU64,
    /// While it sleeps: twice when that began, in nanoseconds, plus one if for want of work; else 0.
    resting: AtomicU64,
    /// Its thread, as the system numbers it.
    pub(crate) thread: AtomicI32,
    /// Locked once per job by its owner; contended only while statistics are read. `None` before the first job: histograms are
    /// large, and most of a controller's seats may stay empty.
    stages: Mutex<Option<Box<[StageTally; 3]>>>,
}

/// One stage on one worker.
#[derive(Clone)]
pub(crate) struct StageTally {
    pub(crate) bytes: u64,
    pub(crate) total_ns: u64,
    pub(crate) times: Histogram<u64>,
}

/// Why a worker had nothing to do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Read-ahead or the byte budget is used up: the consumer is slower.
    ForConsumer,
    /// There is no job for this worker.
    WithoutWork,
}

impl StageTally {
    /// All stages, before anything was done.
    fn none() -> [StageTally; 3] {
        [(); 3].map(|()| StageTally { bytes: 0, total_ns: 0, times: histogram() })
    }
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            samples: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            idle_for_consumer_ns: AtomicU64::new(0),
            idle_without_work_ns: AtomicU64::new(0),
            resting: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            stages: Mutex::new(None),
        }
    }

    /// Counts a job: `stage_ns` are the times of one sample of it by stage, and the other samples of
    /// the group are taken to divide their time in the same way.
    pub(crate) fn job(&self, samples: u64, elapsed_ns: u64, stage_ns: [u64; 3], bytes: [u64; 3]) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.samples.fetch_add(samples, Ordering::Relaxed);
        self.busy_ns.fetch_add(elapsed_ns, Ordering::Relaxed);
        let measured: u64 = stage_ns.iter().sum();
        let mut stages = lock_std(&self.stages);
        let stages = stages.get_or_insert_with(|| Box::new(StageTally::none()));
        for stage in Stage::ALL {
            let i = stage as usize;
            stages[i].bytes += bytes[i];
            if stage_ns[i] == 0 || samples == 0 {
                continue;
            }
            let total = if samples == 1 {
                stage_ns[i]
            } else {
                (u128::from(elapsed_ns) * u128::from(stage_ns[i]) / u128::from(measured)) as u64
            };
            stages[i].total_ns += total;
            stages[i].times.saturating_record_n((total / samples).max(1), samples);
        }
    }

    /// The worker goes to sleep.
    pub(crate) fn rests(&self, why: Idle, now_ns: u64) {
        self.resting.store(2 * now_ns + u64::from(why == Idle::WithoutWork), Ordering::Relaxed);
    }

    /// It has slept for so long.
    pub(crate) fn rested(&self, why: Idle, ns: u64) {
        self.resting.store(0, Ordering::Relaxed);
        let counter = match why {
            Idle::ForConsumer => &self.idle_for_consumer_ns,
            Idle::WithoutWork => &self.idle_without_work_ns,
        };
        counter.fetch_add(ns, Ordering::Relaxed);
    }

    pub(crate) fn stages(&self) -> [StageTally; 3] {
        lock_std(&self.stages).as_deref().cloned().unwrap_or_else(StageTally::none)
    }

    /// How long it has slept for the consumer and for want of work, the sleep that is under way included.
    pub(crate) fn idle_until(&self, now_ns: u64) -> (u64, u64) {
        let full_ns = self.idle_for_consumer_ns.load(Ordering::Relaxed);
        let starved_ns = self.idle_without_work_ns.load(Ordering::Relaxed);
        let resting = self.resting.load(Ordering::Relaxed);
        let lasts_ns = if resting == 0 { 0 } else { now_ns.saturating_sub(resting / 2) };
        match resting % 2 {
            0 => (full_ns + lasts_ns, starved_ns),
            _ => (full_ns, starved_ns + lasts_ns),
        }
    }
}
