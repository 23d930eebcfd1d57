//! One queue ordered by expected cost, with ageing.
//!
//! Shortest first minimises the mean completion time; longest first (Graham's LPT, 1969) keeps the
//! last workers from finishing late. Either would postpone one kind of job for ever while batches
//! keep coming, and with it every batch behind it, so a job's key ages: each batch that was submitted
//! later starts one batch's worth of work behind,
//!
//! ```text
//!   key = batch · age ± cost         age = (moving average of a batch's cost) / workers
//! ```
//!
//! and a job is overtaken only by jobs whose advantage in cost exceeds the work the workers do
//! between the two submissions. The key is fixed when the job comes in, so a heap serves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard};

use crate::sync::lock_std;

use super::costs::Ema;
use super::{Job, Policy};

/// Which end of the cost scale goes first.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Prefer {
    Cheap,
    Dear,
}

pub(super) struct CostFirst<T> {
    prefer: Prefer,
    workers: usize,
    shared: Mutex<CostQueue<T>>,
}

struct CostQueue<T> {
    heap: BinaryHeap<Queued<T>>,
    batch_cost: Ema,
    /// The age of the newest batch: the sum of all `age`s so far.
    age: i128,
    newest: Option<u64>,
    arrivals: u64,
}

struct Queued<T> {
    /// Lower goes first; arrival breaks ties, so equal costs keep the planned order.
    key: Reverse<(i128, u64)>,
    job: Job<T>,
}

impl<T> PartialEq for Queued<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<T> Eq for Queued<T> {}
impl<T> PartialOrd for Queued<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Queued<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> CostFirst<T> {
    pub(super) fn new(prefer: Prefer, workers: usize) -> CostFirst<T> {
        let shared = CostQueue {
            heap: BinaryHeap::new(),
            batch_cost: Ema::new(0.2),
            age: 0,
            newest: None,
            arrivals: 0,
        };
        CostFirst { prefer, workers, shared: Mutex::new(shared) }
    }

    fn lock(&self) -> MutexGuard<'_, CostQueue<T>> {
        lock_std(&self.shared)
    }
}

impl<T: Send> Policy<T> for CostFirst<T> {
    fn submit(&self, jobs: &mut Vec<Job<T>>) {
        let mut shared = self.lock();
        let newest = jobs.iter().map(|job| job.batch).max();
        // A job that comes again (a substitute) belongs to a batch that has aged already.
        if newest > shared.newest {
            shared.newest = newest;
            let cost: u64 = jobs.iter().map(|job| job.cost_ns).sum();
            shared.batch_cost.learn(cost as f64);
            // At least 1, so that batches without known costs still come in their order.
            shared.age += (shared.batch_cost.value() / self.workers as f64).max(1.0) as i128;
        }
        for job in jobs.drain(..) {
            let cost = i128::from(job.cost_ns);
            let key = shared.age + if self.prefer == Prefer::Cheap { cost } else { -cost };
            let arrival = shared.arrivals;
            shared.arrivals += 1;
            shared.heap.push(Queued { key: Reverse((key, arrival)), job });
        }
    }

    fn take(&self, _worker: usize) -> Option<Job<T>> {
        self.lock().heap.pop().map(|entry| entry.job)
    }

    fn clear(&self) -> Vec<Job<T>> {
        let mut shared = self.lock();
        shared.newest = None;
        let heap = std::mem::take(&mut shared.heap);
        heap.into_iter().map(|entry| entry.job).collect()
    }

    fn queued(&self) -> usize {
        self.lock().heap.len()
    }

    fn anyone_may_take(&self) -> bool {
        true
    }
}
