//! The byte budget: every byte that is not yet delivered, by what it is in.
//!
//! ```text
//!                take                    deliver                 drop
//!   idle ──────────────► block, undelivered ──────► held by user ─────► idle, or freed
//!     ▲                         │ drop (cancelled)
//!     └─────────────────────────┘
//!   value of varying length, loaded bytes: loose from when they exist until they are freed
//! ```
//!
//! The budget bounds `undelivered + idle`, where `undelivered` is blocks and loose bytes. What the user holds
//! is the user's: it is counted, never waited for. Idle blocks make way for everything else, also for large
//! values that are just being made: those are `reserved` until their sample is made and they are loose.

use serde::Serialize;

/// Bytes and blocks of a loader at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    /// In batches that are being built or wait to be delivered, values on their way there, and bytes that
    /// were loaded and not decoded yet.
    pub undelivered: u64,
    /// In blocks that wait to be used again.
    pub idle: u64,
    /// In batches that were delivered and are still alive.
    pub held_by_user: u64,
    /// The largest `undelivered + idle` there has been.
    pub peak: u64,
    /// Blocks obtained from the system so far.
    pub allocated_blocks: u64,
    /// Blocks used again so far.
    pub reused_blocks: u64,
}

impl MemoryStats {
    /// What two loaders used, one after the other.
    pub(crate) fn plus(&self, later: &MemoryStats) -> MemoryStats {
        MemoryStats {
            peak: self.peak.max(later.peak),
            allocated_blocks: self.allocated_blocks + later.allocated_blocks,
            reused_blocks: self.reused_blocks + later.reused_blocks,
            ..*later
        }
    }
}

/// The ledger.
#[derive(Debug)]
pub(super) struct Bytes {
    budget: u64,
    stats: MemoryStats,
    /// For values that are being made.
    reserved: u64,
    largest: Largest,
}

impl Bytes {
    pub(super) fn new(budget: u64, samples_per_batch: u64) -> Bytes {
        let window = samples_per_batch.saturating_mul(4).max(64);
        Bytes { budget, stats: MemoryStats::default(), reserved: 0, largest: Largest::new(window) }
    }

    pub(super) fn stats(&self) -> MemoryStats {
        self.stats
    }

    /// Whether so much more fits beside what is undelivered.
    pub(super) fn fits(&self, more: u64) -> bool {
        self.stats.undelivered.saturating_add(more) <= self.budget
    }

    /// What a sample is expected to take at most; `None` before the first one is made.
    pub(super) fn largest_sample(&self) -> Option<u64> {
        self.largest.get()
    }

    /// Learns what samples took.
    pub(super) fn learn(&mut self, samples: u64, largest: u64) {
        self.largest.learn(samples, largest);
    }

    /// So many bytes are on their way. Returns how many idle ones must go for them.
    pub(super) fn add(&mut self, bytes: u64) -> u64 {
        self.stats.undelivered += bytes;
        self.stats.peak =
            self.stats.peak.max(self.total().min(self.stats.undelivered.max(self.budget)));
        self.excess()
    }

    /// A value of so many bytes is about to be made. Returns how many idle bytes must go for it.
    pub(super) fn reserve(&mut self, bytes: u64) -> u64 {
        self.reserved += bytes;
        self.excess()
    }

    /// It is made, and loose by now; or it never will be.
    pub(super) fn unreserve(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.reserved, "more is made than was begun");
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    /// How many idle bytes are too many.
    fn excess(&self) -> u64 {
        (self.total() + self.reserved).saturating_sub(self.budget).min(self.stats.idle)
    }

    /// So many bytes are no longer on their way: freed, or in a block by now.
    pub(super) fn remove(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.stats.undelivered, "more leaves than came");
        self.stats.undelivered = self.stats.undelivered.saturating_sub(bytes);
    }

    /// A block was allocated, or an idle one is used again.
    pub(super) fn took(&mut self, capacity: u64, reused: bool) {
        if reused {
            self.stats.idle = self.stats.idle.saturating_sub(capacity);
            self.stats.reused_blocks += 1;
        } else {
            self.stats.allocated_blocks += 1;
        }
    }

    /// The allocation failed after all.
    pub(super) fn did_not_take(&mut self) {
        self.stats.allocated_blocks -= 1;
    }

    /// A batch goes to the user.
    pub(super) fn deliver(&mut self, bytes: u64) {
        self.remove(bytes);
        self.stats.held_by_user += bytes;
    }

    /// A block comes back. Returns whether it is kept.
    pub(super) fn give_back(&mut self, capacity: u64, delivered: bool, keep: bool) -> bool {
        match delivered {
            true => self.stats.held_by_user = self.stats.held_by_user.saturating_sub(capacity),
            false => self.remove(capacity),
        }
        let kept = keep && self.total() + self.reserved + capacity <= self.budget;
        if kept {
            self.stats.idle += capacity;
            self.stats.peak = self.stats.peak.max(self.total());
        }
        kept
    }

    /// So many idle bytes were freed.
    pub(super) fn evicted(&mut self, bytes: u64) {
        self.stats.idle = self.stats.idle.saturating_sub(bytes);
    }

    fn total(&self) -> u64 {
        self.stats.undelivered + self.stats.idle
    }
}

/// The largest sample lately: of the last one to two windows of samples, so that a single huge one does not keep
/// read-ahead small for ever. Before a window is over, twice the largest so far: larger ones are likely to come.
#[derive(Debug)]
struct Largest {
    window: u64,
    seen: u64,
    is_first: bool,
    now: Option<u64>,
    before: Option<u64>,
}

impl Largest {
    fn new(window: u64) -> Largest {
        Largest { window, seen: 0, is_first: true, now: None, before: None }
    }

    fn learn(&mut self, samples: u64, largest: u64) {
        if self.seen >= self.window {
            self.before = self.now.take();
            self.seen = 0;
            self.is_first = false;
        }
        self.seen += samples;
        self.now = self.now.max(Some(largest));
    }

    fn get(&self) -> Option<u64> {
        let largest = self.now.max(self.before)?;
        Some(if self.is_first { largest.saturating_mul(2) } else { largest })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_budget_covers_undelivered_and_idle_but_not_what_the_user_holds() {
        let mut bytes = Bytes::new(100, 1);
        assert_eq!(bytes.add(60), 0);
        bytes.took(60, false);
        assert!(bytes.fits(40) && !bytes.fits(41));
        bytes.deliver(60);
        assert!(bytes.fits(100), "delivered bytes are the user's");
        assert_eq!(bytes.add(50), 0);
        assert!(!bytes.give_back(60, true, true), "no room to keep it");
        assert!(bytes.give_back(50, false, true));
        let MemoryStats { undelivered, idle, held_by_user, .. } = bytes.stats();
        assert_eq!((undelivered, idle, held_by_user), (0, 50, 0));
        assert_eq!(bytes.add(70), 20, "idle bytes make way");
    }

    #[test]
    fn idle_bytes_make_way_for_values_that_are_being_made() {
        let mut bytes = Bytes::new(100, 1);
        bytes.add(60);
        assert!(bytes.give_back(60, false, true));
        assert_eq!(bytes.reserve(30), 0);
        assert_eq!(bytes.reserve(30), 20, "90 are to be made, or 60 of them and what is idle");
        bytes.evicted(60);
        bytes.add(50);
        assert!(!bytes.give_back(50, false, true), "no room to keep it beside them");
        bytes.unreserve(60);
        bytes.add(50);
        assert!(bytes.give_back(50, false, true));
        assert_eq!(bytes.stats().peak, 60, "only what is booked counts");
    }

    #[test]
    fn a_huge_sample_is_forgotten_after_two_windows() {
        let mut largest = Largest::new(10);
        assert_eq!(largest.get(), None);
        largest.learn(1, 1000);
        let seen: Vec<_> = (0..30)
            .map(|_| {
                largest.learn(1, 5);
                largest.get().unwrap()
            })
            .collect();
        assert_eq!(seen.iter().filter(|size| **size == 2000).count(), 9, "little is known yet");
        assert_eq!(seen.iter().filter(|size| **size == 1000).count(), 10);
        assert_eq!(seen.last(), Some(&5));
    }
}
