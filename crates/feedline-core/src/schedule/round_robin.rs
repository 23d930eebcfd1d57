//! Job k goes to worker k mod workers, whatever it costs.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::lanes::Lanes;
use super::{Job, Policy};

pub(super) struct RoundRobin<T> {
    lanes: Lanes<T>,
    /// Relaxed: batches are submitted one at a time; this only has to go on counting.
    next: AtomicUsize,
}

impl<T> RoundRobin<T> {
    pub(super) fn new(workers: usize) -> RoundRobin<T> {
        RoundRobin { lanes: Lanes::new(workers), next: AtomicUsize::new(0) }
    }
}

impl<T: Send> Policy<T> for RoundRobin<T> {
    fn submit(&self, jobs: &mut Vec<Job<T>>) {
        for job in jobs.drain(..) {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            self.lanes.push(turn % self.lanes.count(), job);
        }
    }

    fn take(&self, worker: usize) -> Option<Job<T>> {
        self.lanes.pop(worker)
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
