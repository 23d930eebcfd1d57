//! One switch between the standard library's atomics and loom's; and one way to lock.
//!
//! The protocols that loom checks (`doorbell.rs`, `ring.rs`, `returns.rs`, `cells.rs`) take their atomics from here. In
//! shared memory they are the standard library's, whose layout is that of the integers.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Locks. A panic under a lock leaves nothing half-done here: what can panic is a broken invariant of the maps,
/// and then messages are lost, not memory.
#[cfg(not(loom))]
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
