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
//! raises the count and then reads `sleepers`; both are sequentially consistent, so at least one
//! sees the other. A ringer that sees a sleeper takes the lock before it notifies; the sleeper holds
//! the lock from its last look at the count until it waits, so the notification cannot fall between.
//!
//! Ringing when nobody sleeps costs two atomic operations and no system call.

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, lock};

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
        // SeqCst: acquires what was queued before the ring it sees (pairs with `ring`).
        Ticket(self.rung.load(Ordering::SeqCst))
    }

    /// Sleeps until somebody has rung since `ticket` was taken.
    pub(crate) fn wait(&self, ticket: Ticket) {
        let mut guard = lock(&self.lock);
        // SeqCst: the announcement comes before the look at `rung` (Dekker, with `ring`).
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.rung.load(Ordering::SeqCst) == ticket.0 {
            guard = self.wake.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        // Relaxed would do: whoever reads a stale count only rings once too often.
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes up to `count` sleepers.
    pub(crate) fn ring(&self, count: usize) {
        if count == 0 {
            return;
        }
        // SeqCst: publishes the queued work to `ticket`, and comes before the look at `sleepers`.
        self.rung.fetch_add(1, Ordering::SeqCst);
        let sleepers = self.sleepers.load(Ordering::SeqCst);
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
