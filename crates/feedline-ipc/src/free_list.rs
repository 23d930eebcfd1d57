//! Where extents of one kind are kept: a few chunks, and what of them is free.
//!
//! Free memory is *warm* while the system has pages behind it and *cold* when there are none, because they were
//! never touched or were given back. Warm memory is used first: a page that is touched for the first time
//! costs more than copying a batch into one that is there. How much may stay warm is decided by what was
//! needed lately: memory that stayed free through the last [`SPAN`] extents is surplus, as far as it exceeds
//! what is always kept.
//!
//! Cold memory is whole pages, always: a page of which anything was touched is warm. So what is cold was
//! given back as far as it ever had pages, and every free page with anything behind it can still be.

use std::ops::Range;

use crate::stretches::Stretches;

/// How many extents are looked back on.
const SPAN: u32 = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct FreeList {
    /// All extents are multiples of it.
    grain: u64,
    page: u64,
    /// Warm memory that is never surplus.
    keep: u64,
    warm: Stretches,
    cold: Stretches,
    /// The least there was of warm memory since `taken` was 0.
    least_warm: u64,
    taken: u32,
}

impl FreeList {
    /// An empty one, whose chunks are multiples of `grain` and of `page`. No extent lies across a multiple of
    /// `border`.
    pub(crate) fn new(grain: u64, border: u64, page: u64, keep: u64) -> FreeList {
        let (warm, cold) = (Stretches::new(border), Stretches::new(border));
        FreeList { grain, page, keep, warm, cold, least_warm: 0, taken: 0 }
    }

    /// The size that an extent of `len` bytes has here.
    pub(crate) fn rounded(&self, len: u64) -> u64 {
        len.next_multiple_of(self.grain)
    }

    /// Finds a place for an extent of this rounded size; None if a new chunk is needed.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let place = self.warm.take(len).or_else(|| {
            let pages = len.next_multiple_of(self.page);
            let start = self.cold.take(pages)?;
            // The extent's last page is about to be touched.
            self.warm.add(start + len, pages - len);
            Some(start)
        })?;
        self.least_warm = self.least_warm.min(self.warm.total());
        self.taken += 1;
        Some(place)
    }

    /// Adds chunks that were never used.
    pub(crate) fn add(&mut self, chunks: Range<u64>) {
        self.cold.add(chunks.start, chunks.end - chunks.start);
    }

    /// Takes an extent back.
    pub(crate) fn put(&mut self, start: u64, len: u64) {
        self.warm.add(start, len);
    }

    /// Bytes that are free and have pages behind them.
    #[cfg(test)]
    pub(crate) fn warm(&self) -> u64 {
        self.warm.total()
    }

    /// After enough extents: what was not needed for any of them goes to `remove`, which gives its pages back.
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
    use crate::file_map::CHUNK;

    const MIB: u64 = 1 << 20;
    const PAGE: u64 = 64 << 10;
    const KEEP: u64 = 32 * MIB;

    fn free_list() -> FreeList {
        let mut free_list = FreeList::new(PAGE, CHUNK, PAGE, KEEP);
        free_list.add(0..CHUNK);
        free_list
    }

    #[test]
    fn memory_in_steady_use_stays_warm() {
        let mut free_list = free_list();
        let mut held = std::collections::VecDeque::new();
        for _ in 0..1000 {
            held.push_back(free_list.take(40 * MIB).expect("four extents at a time fit a chunk"));
            if held.len() == 4 {
                for _ in 0..3 {
                    free_list.put(held.pop_front().expect("four are held"), 40 * MIB);
                }
            }
            free_list.trim(|_| panic!("nothing is surplus"));
        }
        assert!(held.iter().all(|start| *start < 160 * MIB));
    }

    #[test]
    fn memory_that_nobody_needs_any_more_goes_back() {
        let mut free_list = free_list();
        let held: Vec<_> =
            (0..25).map(|_| free_list.take(10 * MIB).expect("they fit a chunk")).collect();
        held.into_iter().for_each(|start| free_list.put(start, 10 * MIB));
        assert_eq!(free_list.warm(), 250 * MIB);
        let mut removed = 0;
        for _ in 0..3 * SPAN {
            let one = free_list.take(10 * MIB).expect("there is room");
            free_list.trim(|pages| removed += pages.end - pages.start);
            free_list.put(one, 10 * MIB);
        }
        assert_eq!(free_list.warm(), KEEP + 10 * MIB);
        assert_eq!(removed, 250 * MIB - KEEP - 10 * MIB);
    }

    #[test]
    fn a_pause_gives_back_all_but_a_little() {
        let mut free_list = free_list();
        let start = free_list.take(200 * MIB).expect("it fits a chunk");
        free_list.put(start, 200 * MIB);
        let mut removed = 0;
        free_list.trim_idle(|pages| removed += pages.end - pages.start);
        assert_eq!(removed, 200 * MIB - KEEP);
        assert_eq!(free_list.take(230 * MIB), None, "warm and cold memory are apart");
        assert_eq!(
            free_list.take(200 * MIB),
            Some(KEEP),
            "what was given back and what is new is one"
        );
    }

    proptest! {
        #[test]
        fn a_page_without_an_extent_has_memory_only_while_it_is_kept(
            (grain, keep) in prop_oneof![Just((1u64, 0u64)), Just((1, 16)), Just((8, 16)), Just((64, 0))],
            steps in prop::collection::vec((0u8..8, 1u64..200, any::<prop::sample::Index>()), 1..150),
        ) {
            // Pages of 8 bytes, chunks of 64. A page that an extent touches is resident until it is removed.
            let border = if grain == 64 { u64::MAX } else { 64 };
            let mut free_list = FreeList::new(grain, border, 8, keep);
            let (mut resident, mut extents, mut next) = ([false; 512], Vec::new(), 0);
            for (what, len, which) in steps {
                match what {
                    0..4 => {
                        let len = free_list.rounded(if grain == 64 { len } else { len % 64 + 1 });
                        let start = match free_list.take(len) {
                            Some(start) => start,
                            None => {
                                let end = next + len.next_multiple_of(64);
                                if end > 4096 {
                                    continue;
                                }
                                free_list.add(next..end);
                                next = end;
                                free_list.take(len).expect("a new chunk has room")
                            }
                        };
                        let clear = |(other, n): &(u64, u64)| other + n <= start || start + len <= *other;
                        prop_assert!(extents.iter().all(clear), "{start}+{len} in {extents:?}");
                        prop_assert!(grain == 64 || start / 64 == (start + len - 1) / 64);
                        extents.push((start, len));
                        resident[start as usize / 8..(start + len).div_ceil(8) as usize].fill(true);
                    }
                    4..7 => {
                        if !extents.is_empty() {
                            let (start, len) = extents.swap_remove(which.index(extents.len()));
                            free_list.put(start, len);
                        }
                    }
                    _ => {
                        let mut removed = Vec::new();
                        free_list.trim_idle(|pages| removed.push(pages));
                        for pages in removed {
                            prop_assert!(pages.start % 8 == 0 && pages.end % 8 == 0);
                            let clear = |(start, n): &(u64, u64)| {
                                start + n <= pages.start || pages.end <= *start
                            };
                            prop_assert!(extents.iter().all(clear), "{pages:?} in {extents:?}");
                            resident[pages.start as usize / 8..pages.end as usize / 8].fill(false);
                        }
                        let unused = (0..512u64).filter(|page| {
                            let touches = |(start, n): &(u64, u64)| {
                                *start < (page + 1) * 8 && page * 8 < start + n
                            };
                            resident[*page as usize] && !extents.iter().any(touches)
                        });
                        prop_assert!(unused.count() as u64 * 8 <= keep);
                    }
                }
            }
        }
    }
}
