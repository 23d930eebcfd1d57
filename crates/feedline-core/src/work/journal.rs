//! The list of samples that could not be made.

use std::sync::Mutex;

use crate::error::SampleError;
use crate::sync::lock_std;

/// How many errors are kept one by one; all are counted.
const KEPT: usize = 10_000;

/// Errors so far.
#[derive(Default)]
pub(crate) struct Journal {
    entries: Mutex<(Vec<SampleError>, u64)>,
}

impl Journal {
    /// Notes an error and returns how many there are now.
    pub(crate) fn note(&self, error: &SampleError) -> u64 {
        let mut entries = lock_std(&self.entries);
        if entries.0.len() < KEPT {
            entries.0.push(error.clone());
        }
        entries.1 += 1;
        entries.1
    }

    /// The errors, in the order of delivery.
    pub(crate) fn list(&self) -> Vec<SampleError> {
        lock_std(&self.entries).0.clone()
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        lock_std(&self.entries).1
    }
}
