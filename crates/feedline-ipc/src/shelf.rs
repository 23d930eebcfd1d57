//! Where blocks of one kind are kept: a few slots, and what of them is free.
//!
//! Free memory is *warm* while the system has pages behind it and *cold* when there are none, because they were
//! never touched or were given back. Warm memory is used first: a page that is touched for the first time
//! costs more than copying a batch into one that is there. How much may stay warm is decided by what was
//! needed lately: memory that stayed free through the last [`SPAN`] blocks is surplus, as far as it exceeds
//! what is always kept.
//!
//! Cold memory is whole pages, always: a page of which anything was touched is warm. So what is cold was
//! given back as far as it ever had pages, and every free page with anything behind it can still be.

use std::ops::Range;

use crate::extents::Extents;

/// How many blocks are looked back on.
const SPAN: u32 = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// All blocks are multiples of it.
    grain: u64,
    page: u64,
    /// Warm memory that is never surplus.
    keep: u64,
    warm: Extents,
    cold: Extents,
    /// The least there was of warm memory since `taken` was 0.
    least_warm: u64,
    taken: u32,
}

impl Shelf {
    /// An empty one, whose slots are multiples of `grain` and of `page`. No block lies across a multiple of
    /// `border`.
    pub(crate) fn new(grain: u64, border: u64, page: u64, keep: u64) -> Shelf {
        let (warm, cold) = (Extents::new(border), Extents::new(border));
        Shelf { grain, page, keep, warm, cold, least_warm: 0, taken: 0 }
    }

    /// The size that a block of `len` bytes has here.
    pub(crate) fn rounded(&self, len: u64) -> u64 {
        len.next_multiple_of(self.grain)
    }

    /// Finds a place for a block of this rounded size; None if a new slot is needed.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let place = self.warm.take(len).or_else(|| {
            let pages = len.next_multiple_of(self.page);
            let start = self.cold.take(pages)?;
            // The block's last page is about to be touched.
            self.warm.add(start + len, pages - len);
            Some(start)
        })?;
        self.least_warm = self.least_warm.min(self.warm.total());
        self.taken += 1;
        Some(place)
    }

    /// Adds slots that were never used.
    pub(crate) fn add(&mut self, slots: Range<u64>) {
        self.cold.add(slots.start, slots.end - slots.start);
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
    pub(crate) fn trim(&mut self, remove: impl FnMut(Range<u64>)) {
        if self.taken < SPAN {
            return;
        }
        let surplus = self.least_warm.min(self.warm.total()).saturating_sub(self.keep);
        self.release(surplus, remove);
        self.least_warm = self.warm.total();
        self.taken = 0;
    }

    /// In a long pause: everything above what is always kept goes.
    pub(crate) fn trim_idle(&mut self, remove: impl FnMut(Range<u64>)) {
        self.release(self.warm.total().saturating_sub(self.keep), remove);
    }

    fn release(&mut self, surplus: u64, mut remove: impl FnMut(Range<u64>)) {
        for pages in self.warm.take_units(surplus, self.grain.max(self.page)) {
            self.cold.add(pages.start, pages.end - pages.start);
            remove(pages);
        }
        self.least_warm = self.least_warm.min(self.warm.total());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::SLOT;

    const MIB: u64 = 1 << 20;
    const PAGE: u64 = 64 << 10;
    const KEEP: u64 = 32 * MIB;

    fn shelf() -> Shelf {
        let mut shelf = Shelf::new(PAGE, SLOT, PAGE, KEEP);
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
            shelf.trim(|_| panic!("nothing is surplus"));
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
            shelf.trim(|pages| removed += pages.end - pages.start);
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
        shelf.trim_idle(|pages| removed += pages.end - pages.start);
        assert_eq!(removed, 200 * MIB - KEEP);
        assert_eq!(shelf.take(230 * MIB), None, "warm and cold memory are apart");
        assert_eq!(shelf.take(200 * MIB), Some(KEEP), "what was given back and what is new is one");
    }

    proptest! {
        #[test]
        fn a_page_without_a_block_has_memory_only_while_it_is_kept(
            (grain, keep) in prop_oneof![Just((1u64, 0u64)), Just((1, 16)), Just((8, 16)), Just((64, 0))],
            steps in prop::collection::vec((0u8..8, 1u64..200, any::<prop::sample::Index>()), 1..150),
        ) {
            // Pages of 8 bytes, slots of 64. A page that a block touches is resident until it is removed.
            let border = if grain == 64 { u64::MAX } else { 64 };
            let mut shelf = Shelf::new(grain, border, 8, keep);
            let (mut resident, mut blocks, mut next) = ([false; 512], Vec::new(), 0);
            for (what, len, which) in steps {
                match what {
                    0..4 => {
                        let len = shelf.rounded(if grain == 64 { len } else { len % 64 + 1 });
                        let start = match shelf.take(len) {
                            Some(start) => start,
                            None => {
                                let end = next + len.next_multiple_of(64);
                                if end > 4096 {
                                    continue;
                                }
                                shelf.add(next..end);
                                next = end;
                                shelf.take(len).expect("a new slot has room")
                            }
                        };
                        let clear = |(other, n): &(u64, u64)| other + n <= start || start + len <= *other;
                        prop_assert!(blocks.iter().all(clear), "{start}+{len} in {blocks:?}");
                        prop_assert!(grain == 64 || start / 64 == (start + len - 1) / 64);
                        blocks.push((start, len));
                        resident[start as usize / 8..(start + len).div_ceil(8) as usize].fill(true);
                    }
                    4..7 => {
                        if !blocks.is_empty() {
                            let (start, len) = blocks.swap_remove(which.index(blocks.len()));
                            shelf.put(start, len);
                        }
                    }
                    _ => {
                        let mut removed = Vec::new();
                        shelf.trim_idle(|pages| removed.push(pages));
                        for pages in removed {
                            prop_assert!(pages.start % 8 == 0 && pages.end % 8 == 0);
                            let clear = |(start, n): &(u64, u64)| {
                                start + n <= pages.start || pages.end <= *start
                            };
                            prop_assert!(blocks.iter().all(clear), "{pages:?} in {blocks:?}");
                            resident[pages.start as usize / 8..pages.end as usize / 8].fill(false);
                        }
                        let unused = (0..512u64).filter(|page| {
                            let touches = |(start, n): &(u64, u64)| {
                                *start < (page + 1) * 8 && page * 8 < start + n
                            };
                            resident[*page as usize] && !blocks.iter().any(touches)
                        });
                        prop_assert!(unused.count() as u64 * 8 <= keep);
                    }
                }
            }
        }
    }
}
