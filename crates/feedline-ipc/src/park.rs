//! Sleeping until another process changes a word of shared memory.

use std::time::Duration;

use crate::sync::AtomicU32;

/// How a sleep ended. Only a hint: whoever slept looks again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Somebody called, the word had changed already, or the time was over.
    Look,
    /// A signal arrived.
    #[cfg_attr(loom, expect(dead_code, reason = "loom has no signals"))]
    Signal,
}

/// Where threads sleep on a word.
pub(crate) trait Park {
    /// Sleeps while the word is `seen`, until [`wake`](Park::wake) is called for it or the time is over.
    fn wait(&self, word: &AtomicU32, seen: u32, limit: Duration) -> Woken;

    /// Wakes everybody who sleeps on the word.
    fn wake(&self, word: &AtomicU32);
}

/// The kernel's futexes, which work between processes and need nobody to clean up after a dead one.
#[cfg(all(target_os = "linux", not(loom)))]
#[derive(Copy, Clone, Debug)]
pub(crate) struct Futex;

#[cfg(all(target_os = "linux", not(loom)))]
impl Park for Futex {
    fn wait(&self, word: &AtomicU32, seen: u32, limit: Duration) -> Woken {
        use rustix::io::Errno;
        use rustix::thread::{Timespec, futex};
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()) as _,
        };
        // Not `PRIVATE`: the other side is another process.
        match futex::wait(word, futex::Flags::empty(), seen, Some(&limit)) {
            Err(Errno::INTR) => Woken::Signal,
            // The word has changed, or the time is over; nothing else can fail for a mapped word.
            Ok(()) | Err(_) => Woken::Look,
        }
    }

    fn wake(&self, word: &AtomicU32) {
        // It can only fail for an address that is not mapped.
        let _ = rustix::thread::futex::wake(
            word,
            rustix::thread::futex::Flags::empty(),
            i32::MAX as u32,
        );
    }
}
