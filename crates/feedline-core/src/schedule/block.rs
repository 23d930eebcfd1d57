//! Each worker gets one run of neighbouring samples of each batch.
//!
//! Which worker gets the first run moves on by one from batch to batch, so that a batch of fewer
//! jobs than workers does not always fall to the same ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::lanes::Lanes;
use super::{Job, Policy};

pub(super) struct BlockPartition<T> {
    lanes: Lanes<T>,
    /// Relaxed: batches are submitted one at a time; this only has to go on counting.
    first: AtomicUsize,
}

impl<T> BlockPartition<T> {
    pub(super) fn new(workers: usize) -> BlockPartition<T> {
        BlockPartition { lanes: Lanes::new(workers), first: AtomicUsize::new(0) }
    }
}

impl<T: Send> Policy<T> for BlockPartition<T> {
    fn submit(&self, jobs: &mut Vec<Job<T>>) {
        let workers = self.lanes.count();
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        let samples: u64 = jobs.iter().map(|job| u64::from(job.samples)).sum();
        let mut seen = 0;
        for job in jobs.drain(..) {
            // The worker whose share of the batch's samples this job starts in.
            let share = (seen * workers as u64 / samples.max(1)) as usize;
            seen += u64::from(job.samples);
            self.lanes.push((first + share) % workers, job);
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
