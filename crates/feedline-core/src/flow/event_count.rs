//! How workers sleep when there is nothing to do, and how they are woken.
//!
//! The protocol is an event count. A worker that is about to look for work takes a ticket; if it
//! finds none, it waits until somebody has notified since the ticket was taken.
//!
//! ```text
//!   worker                          whoever makes work
//!   ticket = events.ticket()        queue the work
//!   look for work; none             events.notify(1)
//!   events.wait(ticket)
//! ```
//!
//! Why no wake-up is lost. Either the notifier's increment comes before the ticket was read: then reading
//! it acquired what the notifier queued, and the look finds the work. Or it comes after: then `wait`
//! finds the count changed and returns at once, or the notifier finds the sleeper. The last point is
//! Dekker's: the sleeper announces itself (`sleepers += 1`) and then reads the count; the notifier
//! raises the count and then reads `sleepers`; both have a sequentially consistent fence between the
//! two, so at least one sees the other. A notifier that sees a sleeper takes the lock before it notifies;
//! the sleeper holds the lock from its last look at the count until it waits, so the notification
//! cannot fall between.
//!
//! A notification for fewer than sleep may wake a worker that came later and has looked already, instead of
//! one that slept before. Nothing is lost: the latecomer found no work after it, so there is none.
//!
//! To notify when nobody sleeps costs an atomic increment, a fence and a load, and no system call.

use std::sync::PoisonError;

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, fence, lock};

/// Where workers sleep.
pub(crate) struct EventCount {
    count: AtomicU64,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

/// What [`EventCount::wait`] waits beyond.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl EventCount {
    pub(crate) fn new() -> EventCount {
        EventCount {
            count: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Take it before looking for work.
    pub(crate) fn ticket(&self) -> Ticket {
        // Acquire: sees what was queued before the notification it reads (pairs with the Release in `notify`).
        Ticket(self.count.load(Ordering::Acquire))
    }

    /// Sleeps until somebody has notified since `ticket` was taken.
    pub(crate) fn wait(&self, ticket: Ticket) {
        let mut guard = lock(&self.lock);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // SeqCst: the announcement comes before the look at `count` (Dekker, with the fence in `notify`).
        fence(Ordering::SeqCst);
        // Relaxed: what was queued is read after the next ticket, which acquires it.
        while self.count.load(Ordering::Relaxed) == ticket.0 {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        // Relaxed: whoever reads a stale number only notifies once too often.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes up to `workers` sleepers.
    pub(crate) fn notify(&self, workers: usize) {
        if workers == 0 {
            return;
        }
        // Release: publishes the queued work to the Acquire load in `ticket`.
        self.count.fetch_add(1, Ordering::Release);
        // SeqCst: the count comes before the look at `sleepers` (Dekker, with the fence in `wait`).
        fence(Ordering::SeqCst);
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        if sleepers == 0 {
            return;
        }
        drop(lock(&self.lock));
        if workers >= sleepers {
            self.wake.notify_all();
        } else {
            for _ in 0..workers {
                self.wake.notify_one();
            }
        }
    }
}
