//! Which process something belongs to: threads and held locks do not survive a fork.
//!
//! Every call for a batch asks, so the answer should cost no system call: `fork` itself counts, by a
//! handler that the C library runs in the child before anything else does. (A child made past the C
//! library, by a bare system call, has no C library to speak of and can run none of this.)

#[cfg(unix)]
use std::sync::OnceLock;
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
    static COUNTED: OnceLock<bool> = OnceLock::new();

    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    // SAFETY: the handler is a function of the program's whole life that does one atomic addition,
    // which is allowed in a forked child.
    *COUNTED.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(in_child)) } == 0)
}

#[cfg(not(unix))]
fn counts_forks() -> bool {
    false
}
