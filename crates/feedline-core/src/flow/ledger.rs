//! Where memory is booked: what the machine is told by those who have it.

use std::sync::Arc;

use crate::process::Process;

/// The books, as seen by those who take and free memory. The [`Gate`](super::Gate) keeps them.
pub(crate) trait Ledger: Send + Sync {
    /// A block was taken, new or idle before, in place of bytes that were counted already. Returns how many
    /// idle bytes should go for it.
    fn took(&self, capacity: u64, reused: bool, in_place_of: u64) -> u64;

    /// The system refused the block just taken.
    fn did_not_take(&self, capacity: u64);

    /// Loose bytes are no more.
    fn freed(&self, bytes: u64);

    /// A block is no longer used. If it is to be kept for the next batch, `keep` is called, before anybody is woken who
    /// might look for it; returns whether it was.
    fn returned(&self, capacity: u64, delivered: bool, keep: &mut dyn FnMut()) -> bool;

    /// Idle blocks were freed.
    fn evicted(&self, bytes: u64);

    /// A value of so many bytes is about to be made. Returns how many idle bytes should go for it.
    fn reserve(&self, bytes: u64) -> u64;

    /// It is loose by now, or given up.
    fn unreserve(&self, bytes: u64);
}

/// Loose bytes that are counted for as long as this lives.
pub(crate) struct Charge {
    ledger: Arc<dyn Ledger>,
    bytes: u64,
    home: Process,
}

impl Charge {
    /// Bytes that the ledger was told of.
    pub(crate) fn of(ledger: &Arc<dyn Ledger>, bytes: u64) -> Charge {
        Charge { ledger: Arc::clone(ledger), bytes, home: Process::this() }
    }

    /// So many bytes more.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// At most so many bytes of it, as a charge of their own.
    pub(crate) fn split(&mut self, most: u64) -> Charge {
        let bytes = self.take(most);
        Charge { ledger: Arc::clone(&self.ledger), bytes, home: self.home }
    }

    /// At most so many bytes of it, which somebody else accounts for from now on.
    pub(crate) fn take(&mut self, most: u64) -> u64 {
        let taken = most.min(self.bytes);
        self.bytes -= taken;
        taken
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // In a forked child, a thread of the parent may hold the ledger's lock for ever.
        if self.bytes > 0 && !self.home.is_left() {
            self.ledger.freed(self.bytes);
        }
    }
}

impl std::fmt::Debug for Charge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Charge").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Room for a value that is being made, for as long as this lives.
pub(crate) struct Reservation {
    ledger: Arc<dyn Ledger>,
    bytes: u64,
    home: Process,
}

impl Reservation {
    /// Room that the ledger was asked for.
    pub(crate) fn of(ledger: &Arc<dyn Ledger>, bytes: u64) -> Reservation {
        Reservation { ledger: Arc::clone(ledger), bytes, home: Process::this() }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // As for a charge.
        if !self.home.is_left() {
            self.ledger.unreserve(self.bytes);
        }
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
