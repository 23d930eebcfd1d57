//! One way to lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whatever happened to the last holder: what locks protect here is whole between any two
/// statements that could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
