//! Own queues, filled in proportion to each worker's measured capacity.
//!
//! The next job goes to the worker whose queue would finish it first if all worked at their measured
//! pace: smooth weighted round robin (as in nginx, 2012). Each worker raises its credit by its weight
//! per job, the richest gets the job and pays the sum of all weights, so a worker with a third of the
//! capacity gets every third job and not a run of them.
//!
//! Weights start equal. Every [`REBALANCE_JOBS`] finished jobs they are taken anew from histograms of
//! each worker's time per sample since the last time, and jobs that still wait are dealt out again.
//! The median is what counts: one slow sample says little about the worker that met it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use super::lanes::Lanes;
use super::{Job, Policy};

/// How many jobs must be finished before weights are taken anew.
const REBALANCE_JOBS: u64 = 64;
/// Fewer samples than this tell nothing about a worker; its weight stays.
const ENOUGH: u64 = 8;
/// The longest time per sample that the histograms tell apart: one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

pub(super) struct Weighted<T> {
    lanes: Lanes<T>,
    scale: Mutex<Scale>,
}

struct Scale {
    workers: Vec<Capacity>,
    finished: u64,
}

struct Capacity {
    weight: f64,
    credit: f64,
    per_sample_ns: Histogram<u32>,
}

impl<T> Weighted<T> {
    pub(super) fn new(workers: usize) -> Weighted<T> {
        let capacity = || Capacity {
            weight: 1.0,
            credit: 0.0,
            per_sample_ns: Histogram::new_with_bounds(1, LONGEST_NS, 2)
                .expect("1 <= 2*low <= high and 2 significant digits are valid bounds"),
        };
        let workers: Vec<_> = (0..workers).map(|_| capacity()).collect();
        Weighted {
            lanes: Lanes::new(workers.len()),
            scale: Mutex::new(Scale { workers, finished: 0 }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Scale> {
        self.scale.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scale {
    /// The worker the next job goes to.
    fn next(&mut self) -> usize {
        let total: f64 = self.workers.iter().map(|w| w.weight).sum();
        let mut richest = 0;
        for i in 0..self.workers.len() {
            self.workers[i].credit += self.workers[i].weight;
            if self.workers[i].credit > self.workers[richest].credit {
                richest = i;
            }
        }
        self.workers[richest].credit -= total;
        richest
    }

    fn reweigh(&mut self) {
        for worker in &mut self.workers {
            if worker.per_sample_ns.len() >= ENOUGH {
                let median = worker.per_sample_ns.value_at_quantile(0.5).max(1);
                worker.weight = 1e9 / median as f64;
                worker.per_sample_ns.reset();
            }
        }
    }
}

impl<T: Send> Policy<T> for Weighted<T> {
    fn submit(&self, jobs: &mut Vec<Job<T>>) {
        let mut scale = self.lock();
        for job in jobs.drain(..) {
            self.lanes.push(scale.next(), job);
        }
    }

    fn take(&self, worker: usize) -> Option<Job<T>> {
        self.lanes.pop(worker)
    }

    fn finished(&self, worker: usize, samples: u32, elapsed_ns: u64) -> bool {
        let mut scale = self.lock();
        let per_sample = (elapsed_ns / u64::from(samples.max(1))).max(1);
        scale.workers[worker].per_sample_ns.saturating_record_n(per_sample, samples);
        scale.finished += 1;
        if !scale.finished.is_multiple_of(REBALANCE_JOBS) {
            return false;
        }
        scale.reweigh();
        let mut waiting = self.lanes.drain();
        // Lanes are each in order; merged they are not. Stable: jobs of a batch keep theirs.
        waiting.sort_by_key(|job| job.batch);
        let moved = !waiting.is_empty();
        for job in waiting {
            self.lanes.push(scale.next(), job);
        }
        moved
    }

    fn clear(&self) {
        self.lanes.drain();
    }

    fn queued(&self) -> usize {
        self.lanes.queued()
    }

    fn anyone_may_take(&self) -> bool {
        false
    }
}
