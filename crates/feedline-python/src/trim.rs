//! Python objects that were large and are gone.
//!
//! Text, bytes and what functions return are Python's objects, whose memory comes from the C library. It keeps what was
//! freed, up to some tens of megabytes per thread that ever freed something large, which the byte budget knows
//! nothing of. So after some megabytes of such objects it is asked to give back what it does not need.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::allocator::LARGE;

/// So much may be kept. To ask takes some tenths of a millisecond, as long as it takes to copy a few megabytes.
const MOST: usize = 4 << 20;

/// Bytes of large objects that are gone since the C library was asked last. Relaxed: a sum, nothing depends on it.
static GONE: AtomicUsize = AtomicUsize::new(0);

/// An object of so many bytes is gone.
pub(crate) fn dropped(bytes: usize) {
    if bytes >= LARGE && GONE.fetch_add(bytes, Ordering::Relaxed) + bytes >= MOST {
        GONE.store(0, Ordering::Relaxed);
        trim();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: it may be called at any time, by any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
