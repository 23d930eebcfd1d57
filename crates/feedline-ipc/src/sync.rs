//! One switch between the standard library's atomics and loom's.
//!
//! The protocols that loom checks (`bell.rs`, `ring.rs`, `returns.rs`) take their atomics from here. In
//! shared memory they are the standard library's, whose layout is that of the integers.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
