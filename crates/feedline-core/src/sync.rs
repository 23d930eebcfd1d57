//! One switch between the standard library's primitives and loom's.
//!
//! Every protocol that loom checks (`make loom` runs the crate's `models`) imports its primitives
//! from here, so that the code under `--cfg loom` is the code that ships. Counters that only feed
//! reports, and locks that one thread at a time can want, stay with the standard library: loom would
//! explore their interleavings in vain.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Locks, whatever happened to the last holder.
///
/// User code runs under the engine's locks only where it is a policy of the user's own or a cost hint, and its panics
/// are caught at the sample or end the loader, so
/// a poisoned lock can only mean a panic between two statements of our own; the data is plain
/// counters and queues that are valid at each of them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The same for locks that loom does not know.
pub(crate) fn lock_std<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
