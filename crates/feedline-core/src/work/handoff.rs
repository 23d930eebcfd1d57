//! From the threads that load to the threads that build: a queue of loaded samples.
//!
//! Only used with `io_workers`. Its length needs no bound of its own: it holds at most the samples of
//! the batches that read-ahead has opened. The bytes in it are booked as long as they are there; those that load
//! begin nothing for which the byte budget has no room.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::flow::{Charge, EventCount, Ticket};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

use super::lot::{Attempt, Lot};

/// A sample whose bytes are here.
pub(crate) struct Loaded {
    pub(crate) lot: Arc<Lot>,
    pub(crate) slot: u32,
    pub(crate) attempt: Attempt,
    pub(crate) raw: Vec<u8>,
    pub(crate) load_ns: u64,
    /// What `raw` takes.
    pub(crate) charge: Charge,
}

/// Loaded samples, first come, first served.
pub(crate) struct Handoff {
    queue: Mutex<VecDeque<Loaded>>,
    /// Empty buffers, and what they take.
    empty: Mutex<(Vec<Vec<u8>>, usize)>,
    /// How many bytes of empty buffers are kept.
    most: usize,
    closed: AtomicBool,
    events: EventCount,
}

impl Handoff {
    pub(crate) fn new(most: usize) -> Handoff {
        Handoff {
            queue: Mutex::default(),
            empty: Mutex::default(),
            most,
            closed: AtomicBool::new(false),
            events: EventCount::new(),
        }
    }

    pub(crate) fn push(&self, loaded: Loaded) {
        lock(&self.queue).push_back(loaded);
        self.events.notify(1);
    }

    pub(crate) fn pop(&self) -> Option<Loaded> {
        lock(&self.queue).pop_front()
    }

    /// A buffer for the next sample's bytes: empty, with the room of an earlier one.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        let mut empty = lock(&self.empty);
        let buffer = empty.0.pop().unwrap_or_default();
        empty.1 -= buffer.capacity();
        buffer
    }

    pub(crate) fn give_back(&self, mut raw: Vec<u8>) {
        raw.clear();
        let mut empty = lock(&self.empty);
        if empty.1 + raw.capacity() <= self.most {
            empty.1 += raw.capacity();
            empty.0.push(raw);
        } else {
            drop(empty);
            drop(raw);
        }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.events.ticket()
    }

    pub(crate) fn wait(&self, ticket: Ticket) {
        self.events.wait(ticket);
    }

    /// Takes everything out, to be dropped by the caller.
    pub(crate) fn clear(&self) -> VecDeque<Loaded> {
        std::mem::take(&mut *lock(&self.queue))
    }

    pub(crate) fn close(&self) {
        // Release, with the event count's own ordering on top: seen by whoever is woken by it.
        self.closed.store(true, Ordering::Release);
        self.events.notify(usize::MAX);
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: pairs with `close`.
        self.closed.load(Ordering::Acquire)
    }
}
