//! Where blocks of one kind are kept: a few slots, what of them was never used, and what is free again.
//!
//! Free memory is *warm* while the system has pages behind it and *cold* when they were given back. Warm
//! memory is used first: a page that is touched for the first time costs more than copying a batch
//! into one that is there. How much may stay warm is decided by what was needed lately: memory that
//! stayed free through the last [`SPAN`] blocks is surplus, as far as it exceeds [`KEEP`].

use crate::extents::Extents;
use crate::file::PAGE;

/// How many blocks are looked back on.
const SPAN: u32 = 64;

/// Warm memory that is never surplus.
const KEEP: u64 = 32 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// All blocks and free stretches are multiples of it.
    grain: u64,
    warm: Extents,
    cold: Extents,
    /// What of the newest slots was never used.
    fresh: std::ops::Range<u64>,
    /// The least there was of warm memory since `taken` was 0.
    least_warm: u64,
    taken: u32,
}

impl Shelf {
    /// An empty one. No block lies across a multiple of `border`.
    pub(crate) fn new(grain: u64, border: u64) -> Shelf {
        let (warm, cold) = (Extents::new(border), Extents::new(border));
        Shelf { grain, warm, cold, fresh: 0..0, least_warm: 0, taken: 0 }
    }

    /// The size that a block of `len` bytes has here.
    pub(crate) fn rounded(&self, len: u64) -> u64 {
        len.next_multiple_of(self.grain)
    }

    /// Finds a place for a block of this rounded size; None if a new slot is needed.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let place = self.warm.take(len).or_else(|| self.cold.take(len)).or_else(|| {
            let start = self.fresh.start;
            (self.fresh.end - start >= len).then(|| {
                self.fresh.start += len;
                start
            })
        })?;
        self.least_warm = self.least_warm.min(self.warm.total());
        self.taken += 1;
        Some(place)
    }

    /// Adds slots that were never used.
    pub(crate) fn add(&mut self, slots: std::ops::Range<u64>) {
        // What is left of the last one has no pages yet.
        self.cold.add(self.fresh.start, self.fresh.end - self.fresh.start);
        self.fresh = slots;
    }

    /// Takes a block back.
    pub(crate) fn put(&mut self, start: u64, len: u64) {
        self.warm.add(start, len);
    }

    /// Bytes that are free and have pages behind them.
    #[cfg(test)]
    pub(crate) fn warm(&self) -> u64 {
        self.warm.total()
    }

    /// After enough blocks: what was not needed for any of them goes to `remove`, which gives its pages back.
    pub(crate) fn trim(&mut self, remove: impl FnMut(u64, u64)) {
        if self.taken < SPAN {
            return;
        }
        let surplus = self.least_warm.min(self.warm.total()).saturating_sub(KEEP);
        self.least_warm = self.warm.total();
        self.taken = 0;
        self.release(surplus, remove);
    }

    /// In a long pause: everything above [`KEEP`] goes.
    pub(crate) fn trim_idle(&mut self, remove: impl FnMut(u64, u64)) {
        self.release(self.warm.total().saturating_sub(KEEP), remove);
    }

    fn release(&mut self, mut surplus: u64, mut remove: impl FnMut(u64, u64)) {
        let grain = self.grain.max(PAGE);
        while surplus > 0 {
            let Some((start, len)) = self.warm.take_tail(surplus, grain) else { return };
            remove(start, len);
            self.cold.add(start, len);
            surplus -= len;
        }
        self.least_warm = self.least_warm.min(self.warm.total());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::SLOT;

    const MIB: u64 = 1 << 20;

    fn shelf() -> Shelf {
        let mut shelf = Shelf::new(PAGE, SLOT);
        shelf.add(0..SLOT);
        shelf
    }

    #[test]
    fn memory_in_steady_use_stays_warm() {
        let mut shelf = shelf();
        let mut held = std::collections::VecDeque::new();
        for _ in 0..1000 {
            held.push_back(shelf.take(40 * MIB).expect("four blocks at a time fit a slot"));
            if held.len() == 4 {
                for _ in 0..3 {
                    shelf.put(held.pop_front().expect("four are held"), 40 * MIB);
                }
            }
            shelf.trim(|_, _| panic!("nothing is surplus"));
        }
        assert!(held.iter().all(|start| *start < 160 * MIB));
    }

    #[test]
    fn memory_that_nobody_needs_any_more_goes_back() {
        let mut shelf = shelf();
        let held: Vec<_> =
            (0..25).map(|_| shelf.take(10 * MIB).expect("they fit a slot")).collect();
        held.into_iter().for_each(|start| shelf.put(start, 10 * MIB));
        assert_eq!(shelf.warm(), 250 * MIB);
        let mut removed = 0;
        for _ in 0..3 * SPAN {
            let one = shelf.take(10 * MIB).expect("there is room");
            shelf.trim(|_, len| removed += len);
            shelf.put(one, 10 * MIB);
        }
        assert_eq!(shelf.warm(), KEEP + 10 * MIB);
        assert_eq!(removed, 250 * MIB - KEEP - 10 * MIB);
    }

    #[test]
    fn a_pause_gives_back_all_but_a_little() {
        let mut shelf = shelf();
        let start = shelf.take(200 * MIB).expect("it fits a slot");
        shelf.put(start, 200 * MIB);
        let mut removed = 0;
        shelf.trim_idle(|_, len| removed += len);
        assert_eq!(removed, 200 * MIB - KEEP);
        assert_eq!(shelf.take(200 * MIB), None, "warm, cold and fresh memory are apart");
        shelf.add(SLOT..2 * SLOT);
        assert_eq!(shelf.take(200 * MIB), Some(KEEP), "what is cold and what was fresh is one");
    }
}
