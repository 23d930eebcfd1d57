//! What each worker is at, for the one who minds the time.
//!
//! # Time limits
//!
//! User code cannot be interrupted, so a sample that exceeds its limit is given up, not stopped.
//! Each worker notes the sample it begins on the [`Watchlist`]; a watcher looks through the list, and
//! whoever *takes the note* decides the sample's fate:
//!
//! ```text
//!            begin                 worker takes the note: the sample is placed
//!   empty ──────────► noted ──┬──────────────────────────────────────────────► empty
//!                             └──────────────────────────────────────────────► empty
//!                                  watcher takes it: the sample has failed, the worker is replaced
//! ```
//!
//! Both take it under the note's lock, so exactly one of them does. A worker that comes back and
//! finds its note gone throws its result away and ends: another thread has its seat by then, and
//! a note that lies there is that thread's. So notes are numbered, and a worker takes its own alone.
//! The sample was made aside (never in the batch's own memory), so that nobody sees what it writes.

use std::sync::atomic::AtomicU8;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock};

use super::lot::{Attempt, Lot};
use super::stage::Stage;

/// The sample a worker is at.
pub(crate) struct Note {
    pub(crate) lot: Arc<Lot>,
    pub(crate) slot: u32,
    pub(crate) attempt: Attempt,
    pub(crate) since: Instant,
}

/// What all workers are at, for those who mind the time.
pub(crate) struct Watchlist {
    seats: Vec<Seat>,
    closed: Mutex<bool>,
    closing: Condvar,
    pub(crate) lost: AtomicU64,
}

struct Seat {
    noted: Mutex<Noted>,
    stage: AtomicU8,
}

#[derive(Default)]
struct Noted {
    /// How many notes there have been at this seat.
    count: u64,
    note: Option<Note>,
}

impl Watchlist {
    pub(crate) fn new(workers: usize) -> Watchlist {
        let seat = || Seat { noted: Mutex::default(), stage: AtomicU8::new(0) };
        Watchlist {
            seats: (0..workers).map(|_| seat()).collect(),
            closed: Mutex::new(false),
            closing: Condvar::new(),
            lost: AtomicU64::new(0),
        }
    }

    /// The worker begins on a sample. Returns the note's number.
    pub(crate) fn begin(&self, worker: usize, note: Note) -> u64 {
        let mut noted = lock(&self.seats[worker].noted);
        noted.count += 1;
        noted.note = Some(note);
        noted.count
    }

    /// The worker is done. Returns whether the sample is still its own to place.
    pub(crate) fn finish(&self, worker: usize, number: u64) -> bool {
        let mut noted = lock(&self.seats[worker].noted);
        noted.count == number && noted.note.take().is_some()
    }

    /// Where the worker shows the stage it is in.
    pub(crate) fn stage_of(&self, worker: usize) -> &AtomicU8 {
        &self.seats[worker].stage
    }

    /// Takes the notes of workers that exceed `limit`.
    pub(crate) fn overdue(&self, limit: Duration) -> Vec<(usize, Stage, Note)> {
        let mut overdue = Vec::new();
        for (worker, seat) in self.seats.iter().enumerate() {
            let mut noted = lock(&seat.noted);
            if noted.note.as_ref().is_some_and(|note| note.since.elapsed() > limit) {
                let stage = Stage::from_u8(seat.stage.load(Ordering::Relaxed));
                overdue.extend(noted.note.take().map(|note| (worker, stage, note)));
            }
        }
        overdue
    }

    /// Sleeps for `pause`, or less. Returns whether the list was closed meanwhile.
    pub(crate) fn rest(&self, pause: Duration) -> bool {
        let closed = lock(&self.closed);
        if *closed {
            return true;
        }
        // Not in a loop: who wakes for no reason only looks through the list too early.
        let waited = self.closing.wait_timeout(closed, pause);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn close(&self) {
        *lock(&self.closed) = true;
        self.closing.notify_all();
    }
}
