//! One queue for all workers: the balance is perfect, the lock is shared.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::sync::lock_std;

use super::{Job, Policy};

pub(super) struct Central<T> {
    queue: Mutex<VecDeque<Job<T>>>,
}

impl<T> Central<T> {
    pub(super) fn new() -> Central<T> {
        Central { queue: Mutex::new(VecDeque::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Job<T>>> {
        lock_std(&self.queue)
    }
}

impl<T: Send> Policy<T> for Central<T> {
    fn submit(&self, jobs: &mut Vec<Job<T>>) {
        self.lock().extend(jobs.drain(..));
    }

    fn take(&self, _worker: usize) -> Option<Job<T>> {
        self.lock().pop_front()
    }

    fn clear(&self) -> Vec<Job<T>> {
        std::mem::take(&mut *self.lock()).into()
    }

    fn queued(&self) -> usize {
        self.lock().len()
    }

    fn anyone_may_take(&self) -> bool {
        true
    }
}
