//! Forks of this process.
//!
//! A forked child sees the blocks that its parent held at that moment, and may look at them as long as
//! it lives. So these blocks must not be reused, however soon the parent lets go of them.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn before_fork() {
    // Relaxed: the thread that forks is the one that counts; others release blocks before or after it.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Counts the forks of this process from now on. (`vfork` and `posix_spawn` do not count: their
/// children run another program.)
pub(crate) fn watch() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler touches an atomic and nothing else. Should the system have no room for it,
        // there is nothing better to do than without.
        let _ = unsafe { libc::pthread_atfork(Some(before_fork), None, None) };
    });
}

/// How many forks there were.
pub(crate) fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}
