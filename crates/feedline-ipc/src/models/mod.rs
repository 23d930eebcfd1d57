//! loom models of the protocols: every interleaving, within loom's memory model, of small cases.
//!
//! `make loom` runs them. loom knows neither futexes nor other processes, so sleeping is a lock and a
//! condition here, and the two processes are two threads; `tests/` stresses the real thing.

mod cells;
mod doorbell;
mod returns;

use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use crate::park::{Park, Woken};
use crate::sync::{AtomicU32, Ordering};

/// A futex as loom can have it. It sleeps for ever, so a missed wake-up is a deadlock that loom reports.
#[derive(Default)]
struct Parked {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Park for Parked {
    fn wait(&self, word: &AtomicU32, seen: u32, _limit: Duration) -> Woken {
        let guard = self.lock.lock().unwrap();
        // The kernel compares under its own lock.
        if word.load(Ordering::Relaxed) == seen {
            drop(self.changed.wait(guard).unwrap());
        }
        Woken::Look
    }

    fn wake(&self, _word: &AtomicU32) {
        drop(self.lock.lock().unwrap());
        self.changed.notify_all();
    }
}

/// Waits by a doorbell until something is found.
fn wait_for<T>(
    doorbell: &crate::doorbell::Doorbell,
    park: &Parked,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    loop {
        if let Ok(found) = doorbell.sleep_unless(park, Duration::MAX, &mut look) {
            return found;
        }
    }
}
