//! Which process something belongs to: threads and held locks do not survive a fork.
//!
//! Every call for a batch asks, so the answer should cost no system call: `fork` itself counts, by a
//! handler that the C library runs in the child before anything else does. (A child made past the C
//! library, by a bare system call, has no C library to speak of and can run none of this.)

#[cfg(unix)]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;

/// How many forks lie between this process and the first that asked. Relaxed: it changes only in a
/// child that has a single thread.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process something was made in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
    /// [`FORKS`] there; `None` where forks are not counted.
    forks: Option<u32>,
}

impl Process {
    pub(crate) fn this() -> Process {
        let forks = counts_forks().then(|| FORKS.load(Ordering::Relaxed));
        Process { id: std::process::id(), forks }
    }

    /// Whether this is another process: a forked child.
    pub(crate) fn is_left(self) -> bool {
        match self.forks {
            Some(forks) => FORKS.load(Ordering::Relaxed) != forks,
            None => std::process::id() != self.id,
        }
    }

    pub(crate) fn error(self) -> Error {
        Error::Forked { home: self.id, here: std::process::id() }
    }
}

/// Whether forks are counted from now on.
#[cfg(unix)]
fn counts_forks() -> bool {
    /// Whether the handler is there: not asked yet, yes, the system has no room for it.
    static COUNTED: AtomicU8 = AtomicU8::new(0);

    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    // Nothing is waited for: had another thread been in a `OnceLock` during a fork, the child would wait for ever.
    // Two threads may both register the handler; then a fork counts twice, which is as good. Relaxed: it says
    // nothing about other memory.
    if COUNTED.load(Ordering::Relaxed) == 0 {
        // SAFETY: the handler is a function of the program's whole life that does one atomic addition,
        // which is allowed in a forked child.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) } != 0;
        COUNTED.store(1 + u8::from(failed), Ordering::Relaxed);
    }
    COUNTED.load(Ordering::Relaxed) == 1
}

#[cfg(not(unix))]
fn counts_forks() -> bool {
    false
}
