//! A doorbell that one side rings when there is something to look at, and the other sleeps by.
//!
//! # Protocol
//!
//! An event count: `rung` counts the rings, `sleepers` those who sleep or are about to.
//!
//! | who rings | who sleeps |
//! | --- | --- |
//! | publishes | says so: `sleepers += 1` |
//! | `rung += 1` | notes `rung` |
//! | wakes if `sleepers > 0` | looks once more, then sleeps while `rung` is what it noted |
//!
//! Each side writes its own word and then, after a `SeqCst` fence, reads the other's. Of two such fences
//! one comes first. If the ringer's look at `sleepers` misses the sleeper, it is the ringer's: then the sleeper notes the
//! new count, which carries what was published, and finds it when it looks once more.
//! If it does not miss it, the kernel compares `rung` with the note under its own lock: either
//! the sleeper does not fall asleep or the wake-up finds it.
//!
//! A process that is killed in its sleep leaves `sleepers` too high for ever, which costs the ringer a
//! system call per ring. One that is killed between publishing and ringing has rung for nobody: who
//! must not miss that sleeps in slices.

use std::time::Duration;

use crate::park::{Park, Woken};
use crate::sync::{AtomicU32, Ordering, fence};

/// See the module. All zeros is a doorbell that nobody has rung.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    rung: AtomicU32,
    sleepers: AtomicU32,
}

impl Doorbell {
    /// Forgets a sleeper that was killed. For a hub whose other side is gone.
    #[cfg(not(loom))]
    pub(crate) fn reset(&self) {
        // Relaxed: nobody else has it.
        self.sleepers.store(0, Ordering::Relaxed);
    }

    /// Wakes everybody who sleeps by it. What was published before is seen by them.
    pub(crate) fn ring(&self, park: &impl Park) {
        // Release: what was published; pairs with the load in `sleep_unless`.
        self.rung.fetch_add(1, Ordering::Release);
        // SeqCst: pairs with the fence in `sleep_unless`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            park.wake(&self.rung);
        }
    }

    /// Looks; if there is nothing, sleeps until the doorbell rings, a signal comes or the time is over, and
    /// returns without looking again.
    pub(crate) fn sleep_unless<T>(
        &self,
        park: &impl Park,
        limit: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Woken> {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
        // Acquire: sees what was published before the rings it counts; pairs with the addition in `ring`.
        let seen = self.rung.load(Ordering::Acquire);
        let found = match look() {
            Some(found) => Ok(found),
            None => Err(park.wait(&self.rung, seen, limit)),
        };
        // Relaxed: a ringer that still sees the sleeper wakes nobody.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        found
    }
}
