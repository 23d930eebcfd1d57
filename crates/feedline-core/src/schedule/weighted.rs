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

use hdrhistogram::Histogram;

use crate::sync::{Mutex, MutexGuard, lock};

use super::lanes::Lanes;
use super::{Job, LONGEST_NS, Policy};

/// How many jobs must be finished before weights are taken anew.
const REBALANCE_JOBS: u64 = 64;
/// Fewer samples than this tell nothing about a worker; its weight relative to the others' stays.
const ENOUGH: u64 = 8;
/// The least weight, as a part of the greatest. A worker without work would never be measured again; it
/// may have become faster, or have met the first slow samples while the others had the last fast ones.
const LEAST: f64 = 1.0 / 16.0;

pub(super) struct WeightedLanes<T> {
    lanes: Lanes<T>,
    scale: Mutex<Capacities>,
}

struct Capacities {
    workers: Vec<Capacity>,
    finished: u64,
}

struct Capacity {
    weight: f64,
    credit: f64,
    per_sample_ns: Histogram<u32>,
}

impl<T> WeightedLanes<T> {
    pub(super) fn new(workers: usize) -> WeightedLanes<T> {
        let capacity = || Capacity {
            weight: 1.0,
            credit: 0.0,
            per_sample_ns: Histogram::new_with_bounds(1, LONGEST_NS, 2)
                .expect("1 <= 2*low <= high and 2 significant digits are valid bounds"),
        };
        let workers: Vec<_> = (0..workers).map(|_| capacity()).collect();
        WeightedLanes {
            lanes: Lanes::new(workers.len()),
            scale: Mutex::new(Capacities { workers, finished: 0 }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Capacities> {
        lock(&self.scale)
    }
}

impl Capacities {
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
        let (mut before, mut after) = (0.0, 0.0);
        for worker in self.workers.iter().filter(|worker| worker.is_known()) {
            before += worker.weight;
            after += worker.pace();
        }
        if before == 0.0 {
            return;
        }
        for worker in &mut self.workers {
            if worker.is_known() {
                worker.weight = worker.pace();
                worker.per_sample_ns.reset();
            } else {
                // Weights are paces, and the others' may have changed with the samples.
                worker.weight *= after / before;
            }
        }
        let most = self.workers.iter().map(|worker| worker.weight).fold(0.0, f64::max);
        for worker in &mut self.workers {
            worker.weight = worker.weight.max(LEAST * most);
            // Credit in old weights means nothing in new ones, which may be a thousand times smaller.
            worker.credit = 0.0;
        }
    }
}

impl Capacity {
    /// Whether it has done enough since weights were taken last.
    fn is_known(&self) -> bool {
        self.per_sample_ns.len() >= ENOUGH
    }

    /// Samples per second.
    fn pace(&self) -> f64 {
        1e9 / self.per_sample_ns.value_at_quantile(0.5).max(1) as f64
    }
}

impl<T: Send> Policy<T> for WeightedLanes<T> {
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

    fn clear(&self) -> Vec<Job<T>> {
        self.lanes.drain()
    }

    fn queued(&self) -> usize {
        self.lanes.queued()
    }

    fn anyone_may_take(&self) -> bool {
        false
    }
}
