//! One queue per worker, each behind its own lock on its own cache line.

use std::collections::VecDeque;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, lock};

use super::Job;

/// The queues of all workers.
pub(super) struct Lanes<T> {
    lanes: Vec<CachePadded<Mutex<VecDeque<Job<T>>>>>,
    /// Jobs in all lanes. Relaxed throughout: a hint that saves locking empty lanes; whoever must not
    /// miss a job is woken through the event count, which synchronises.
    queued: AtomicUsize,
}

impl<T> Lanes<T> {
    pub(super) fn new(workers: usize) -> Lanes<T> {
        let lanes = (0..workers).map(|_| CachePadded::default()).collect();
        Lanes { lanes, queued: AtomicUsize::new(0) }
    }

    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    pub(super) fn lock(&self, worker: usize) -> MutexGuard<'_, VecDeque<Job<T>>> {
        lock(&self.lanes[worker])
    }

    /// Appends to one worker's queue.
    pub(super) fn push(&self, worker: usize, job: Job<T>) {
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.lock(worker).push_back(job);
    }

    /// The oldest job of one worker's queue.
    pub(super) fn pop(&self, worker: usize) -> Option<Job<T>> {
        let job = self.lock(worker).pop_front()?;
        self.queued.fetch_sub(1, Ordering::Relaxed);
        Some(job)
    }

    /// Counts a job that left a queue by another way than [`pop`](Lanes::pop).
    pub(super) fn took_one(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }

    /// Empties all queues into one list, lane by lane.
    pub(super) fn drain(&self) -> Vec<Job<T>> {
        let mut jobs = Vec::with_capacity(self.queued());
        for worker in 0..self.count() {
            jobs.extend(self.lock(worker).drain(..));
        }
        self.queued.fetch_sub(jobs.len(), Ordering::Relaxed);
        jobs
    }
}
