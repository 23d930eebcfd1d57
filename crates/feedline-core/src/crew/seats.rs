//! Which workers work and which are parked.
//!
//! The first so many seats are *open*; who sits elsewhere sleeps here until its seat is opened, or the loader stops.
//!
//! ```text
//!   worker, before each step            controller
//!   is my seat open?                    set(n), under the lock; wakes all that are parked here
//!     no: wake the others at the gate   wakes all that sleep at the gate, so that those whose seat was closed come here
//!         sleep here until it is
//! ```
//!
//! Whether a seat is open is decided under the lock, so an opening cannot be missed. The look before each step reads a
//! copy without it: seeing a new number late costs one job's work. A worker that goes to park may have been
//! woken for a job, or have jobs in its queue; so it wakes all others first, who then look. The policies that come here
//! let anybody take any job. The first seat is never closed: somebody always works.

use std::sync::PoisonError;

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock};

/// The seats of workers whose number may change.
pub(crate) struct Seats {
    state: Mutex<State>,
    changed: Condvar,
    /// A copy of how many are open. Relaxed: see above.
    open: AtomicUsize,
    /// How many threads were started. Relaxed: one thread counts, others report.
    hired: AtomicUsize,
}

struct State {
    open: usize,
    stopped: bool,
    /// Whether all stay open from now on.
    all: bool,
}

impl Seats {
    pub(crate) fn new(open: usize) -> Seats {
        let open = open.max(1);
        Seats {
            state: Mutex::new(State { open, stopped: false, all: false }),
            changed: Condvar::new(),
            open: AtomicUsize::new(open),
            hired: AtomicUsize::new(open),
        }
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed).min(self.hired())
    }

    /// How many threads there are.
    pub(crate) fn hired(&self) -> usize {
        self.hired.load(Ordering::Relaxed)
    }

    pub(crate) fn hire(&self) {
        self.hired.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens the first so many. Returns false if that is not to be changed any more.
    pub(crate) fn set(&self, open: usize) -> bool {
        let mut state = lock(&self.state);
        if state.all || state.stopped {
            return false;
        }
        state.open = open.max(1);
        self.open.store(state.open, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Opens all for good: one of those at work is gone.
    pub(crate) fn open_all(&self) {
        let mut state = lock(&self.state);
        (state.all, state.open) = (true, usize::MAX);
        self.open.store(usize::MAX, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    /// Lets all who are parked go.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_parked(&self, worker: usize) -> bool {
        worker >= self.open.load(Ordering::Relaxed)
    }

    /// Sleeps until the worker's seat is open, or the loader stops.
    pub(crate) fn park(&self, worker: usize) {
        let mut state = lock(&self.state);
        while worker >= state.open && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            // Nobody comes here again.
            self.open.store(usize::MAX, Ordering::Relaxed);
        }
    }

    /// Sleeps for `pause`, or less. Returns whether the loader was stopped meanwhile.
    pub(crate) fn rest(&self, pause: std::time::Duration) -> bool {
        let state = lock(&self.state);
        if state.stopped {
            return true;
        }
        let waited = self.changed.wait_timeout(state, pause);
        waited.unwrap_or_else(PoisonError::into_inner).0.stopped
    }
}
