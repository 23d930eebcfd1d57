//! How workers sleep when there is nothing to do, and how they are woken.
//!
//! The protocol is an event count. A worker that is about to look for work takes a ticket; if it
//! finds none, it waits until somebody has rung since the ticket was taken.
//!
//! ```text
//!   worker                          whoever makes work
//!   ticket = bell.ticket()          queue the work
//!   look for work; none             bell.ring()
//!   bell.wait(ticket)
//! ```
//!
//! Why no wake-up is lost. Either the ring's increment comes before the ticket was read: then reading
//! it acquired what the ringer queued, and the look finds the work. Or it comes after: then `wait`
//! finds the count changed and returns at once, or the ringer finds the sleeper. The last point is
//! Dekker's: the sleeper announces itself (`sleepers += 1`) and then reads the count; the ringer
//! raises the count and then reads `sleepers`; both have a sequentially consistent fence between the
//! two, so at least one sees the other. A ringer that sees a sleeper takes the lock before it notifies;
//! the sleeper holds the lock from its last look at the count until it waits, so the notification
//! cannot fall between.
//!
//! A ring for fewer than sleep may wake a worker that came later and has looked already, instead of one
//! that slept before. Nothing is lost: the latecomer found no work after the ring, so there is none.
//!
//! One who sleeps for a limited time leaves like one who was woken: it looks again, so it misses nothing
//! that was rung for before.
//!
//! Ringing when nobody sleeps costs an atomic increment, a fence and a load, and no system call.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence, lock};

/// A bell that wakes workers.
pub(crate) struct Bell {
    rung: AtomicU64,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

/// What [`Bell::wait`] waits beyond.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell {
            rung: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Take it before looking for work.
    pub(crate) fn ticket(&self) -> Ticket {
        // Acquire: sees what was queued before the ring it reads (pairs with the Release in `ring`).
        Ticket(self.rung.load(Ordering::Acquire))
    }

    /// Sleeps until somebody has rung since `ticket` was taken.
    pub(crate) fn wait(&self, ticket: Ticket) {
        self.sleep(ticket, |guard| {
            Some(self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner))
        });
    }

    /// The same, but no longer than `limit`.
    pub(crate) fn wait_at_most(&self, ticket: Ticket, limit: Duration) {
        let until = Instant::now() + limit;
        self.sleep(ticket, |guard| {
            let left = until.saturating_duration_since(Instant::now());
            let waited = (!left.is_zero()).then(|| self.wake.wait_timeout(guard, left))?;
            Some(waited.unwrap_or_else(PoisonError::into_inner).0)
        });
    }

    /// Sleeps until somebody has rung since `ticket` was taken, or `wait` gives up.
    fn sleep<'a>(
        &'a self,
        ticket: Ticket,
        wait: impl Fn(MutexGuard<'a, ()>) -> Option<MutexGuard<'a, ()>>,
    ) {
        let mut guard = lock(&self.lock);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // SeqCst: the announcement comes before the look at `rung` (Dekker, with the fence in `ring`).
        fence(Ordering::SeqCst);
        // Relaxed: what was queued is read after the next ticket, which acquires it.
        while self.rung.load(Ordering::Relaxed) == ticket.0 {
            match wait(guard) {
                Some(again) => guard = again,
                None => break,
            }
        }
        // Relaxed: whoever reads a stale count only rings once too often.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes up to `count` sleepers.
    pub(crate) fn ring(&self, count: usize) {
        if count == 0 {
            return;
        }
        // Release: publishes the queued work to the Acquire load in `ticket`.
        self.rung.fetch_add(1, Ordering::Release);
        // SeqCst: the ring comes before the look at `sleepers` (Dekker, with the fence in `sleep`).
        fence(Ordering::SeqCst);
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        if sleepers == 0 {
            return;
        }
        drop(lock(&self.lock));
        if count >= sleepers {
            self.wake.notify_all();
        } else {
            for _ in 0..count {
                self.wake.notify_one();
            }
        }
    }

    /// Wakes everybody.
    pub(crate) fn ring_all(&self) {
        self.ring(usize::MAX);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_wakes_when_somebody_rings_or_its_time_is_over() {
        let bell = Bell::new();
        let ticket = bell.ticket();
        let (since, moment) = (Instant::now(), Duration::from_millis(1));
        bell.wait_at_most(ticket, moment);
        assert!(since.elapsed() >= moment);
        assert_eq!(bell.ticket(), ticket, "nobody has rung");
        std::thread::scope(|scope| {
            scope.spawn(|| bell.wait_at_most(ticket, Duration::from_secs(1 << 20)));
            scope.spawn(|| bell.wait(ticket));
            bell.ring_all();
        });
        bell.wait_at_most(ticket, Duration::from_secs(1 << 20));
        assert_eq!(bell.sleepers.load(Ordering::Relaxed), 0);
    }
}
