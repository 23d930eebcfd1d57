//! From the threads that load to the threads that build: a queue of loaded samples.
//!
//! Only used with `io_workers`. Its length needs no bound of its own: it holds at most the samples of
//! the batches that read-ahead has opened. The bytes in it count against the byte budget when the
//! next batch is opened.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

use super::bell::{Bell, Ticket};
use super::lot::Lot;

/// A sample whose bytes are here.
pub(crate) struct Loaded {
    pub(crate) lot: Arc<Lot>,
    pub(crate) slot: u32,
    pub(crate) attempt: u32,
    pub(crate) raw: Vec<u8>,
    pub(crate) load_ns: u64,
}

/// Loaded samples, first come, first served.
pub(crate) struct Handoff {
    queue: Mutex<VecDeque<Loaded>>,
    empty: Mutex<Vec<Vec<u8>>>,
    /// Relaxed: a gauge.
    bytes: AtomicU64,
    closed: AtomicBool,
    bell: Bell,
}

impl Handoff {
    pub(crate) fn new() -> Handoff {
        Handoff {
            queue: Mutex::default(),
            empty: Mutex::default(),
            bytes: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            bell: Bell::new(),
        }
    }

    pub(crate) fn push(&self, loaded: Loaded) {
        self.bytes.fetch_add(loaded.raw.len() as u64, Ordering::Relaxed);
        lock(&self.queue).push_back(loaded);
        self.bell.ring(1);
    }

    pub(crate) fn pop(&self) -> Option<Loaded> {
        let loaded = lock(&self.queue).pop_front()?;
        self.bytes.fetch_sub(loaded.raw.len() as u64, Ordering::Relaxed);
        Some(loaded)
    }

    /// A buffer for the next sample's bytes: empty, with the room of an earlier one.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        lock(&self.empty).pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, mut raw: Vec<u8>) {
        raw.clear();
        lock(&self.empty).push(raw);
    }

    /// Bytes loaded and not built yet.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.bell.ticket()
    }

    pub(crate) fn wait(&self, ticket: Ticket) {
        self.bell.wait(ticket);
    }

    pub(crate) fn clear(&self) {
        let dropped = std::mem::take(&mut *lock(&self.queue));
        let bytes: usize = dropped.iter().map(|loaded| loaded.raw.len()).sum();
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn close(&self) {
        // Release, with the bell's own ordering on top: seen by whoever is woken by it.
        self.closed.store(true, Ordering::Release);
        self.bell.ring_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: pairs with `close`.
        self.closed.load(Ordering::Acquire)
    }
}
