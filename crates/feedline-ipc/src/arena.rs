//! The blocks that one process makes and lends to the other.
//!
//! A block begins with a header (see `returns.rs`), which its users do not see. It is free again when its
//! owner uses it no more *and* all loans of it have been returned; both may happen in any order, any
//! number of times in between.
//!
//! Three shelves keep small, large and huge blocks apart, so that a message of a few hundred bytes does
//! not spoil a stretch that just fits the next batch:
//!
//! | block | in multiples of | lies |
//! | --- | --- | --- |
//! | up to 64 KiB | 64 bytes | within a slot |
//! | up to a slot | pages, so that its pages can be given back | within a slot |
//! | larger | slots | on slots of its own |
//!
//! A pause takes all memory that is not in use but [`KEEP`] for the small and for the large, and nothing
//! for the huge, of which a single slot is more than that.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::IpcError;
use crate::file::{SharedFile, Window, whole_pages};
use crate::layout::HEADER;
use crate::returns::{Header, Returns};
use crate::shelf::Shelf;
use crate::windows::Windows;

/// The most that a small block has; a quarter of a slot, if that is less.
const SMALL: u64 = 64 << 10;

/// What stays warm in a pause; an eighth of a slot, if that is less.
const KEEP: u64 = 32 << 20;

/// Where a block is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Where it begins in the file; its name.
    pub(crate) block: u64,
    /// Where it begins in this process.
    pub(crate) pointer: NonNull<u8>,
    /// Its length as asked for.
    pub(crate) len: usize,
    /// What keeps it mapped.
    pub(crate) _window: Arc<Window>,
}

/// A block that is not free.
#[derive(Debug)]
struct Used {
    len: u64,
    /// Loans not yet returned.
    loans: u32,
    /// Whether this process itself uses it.
    own: bool,
    /// What shows its header, and keeps it mapped.
    window: Arc<Window>,
}

impl Used {
    fn header(&self, block: u64) -> &Header {
        let header = self.window.at(block - HEADER..block).expect("the window shows the block");
        // SAFETY: mapped as long as the window lives, aligned to 64 bytes as all blocks are; it is atomics,
        // valid whatever is in them and whoever writes.
        unsafe { header.cast::<Header>().as_ref() }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Arena {
    region: Range<u64>,
    slot: u64,
    /// The first slot that was never used.
    next: u64,
    windows: Windows,
    shelves: [Shelf; 3],
    used: BTreeMap<u64, Used>,
    /// The blocks that this process itself uses, by the address at which it does.
    own: BTreeMap<usize, u64>,
    in_use: u64,
    collected: Vec<(u64, u32)>,
}

impl Arena {
    pub(crate) fn new(file: Arc<SharedFile>, region: Range<u64>, slot: u64) -> Arena {
        let (page, keep) = (file.page(), KEEP.min(slot / 8));
        Arena {
            next: region.start,
            region,
            slot,
            windows: Windows::new(file, slot),
            shelves: [
                Shelf::new(HEADER, slot, page, keep),
                Shelf::new(page, slot, page, keep),
                Shelf::new(slot, u64::MAX, page, 0),
            ],
            used: BTreeMap::new(),
            own: BTreeMap::new(),
            in_use: 0,
            collected: Vec::new(),
        }
    }

    fn shelf(&self, len: u64) -> usize {
        match len + HEADER {
            n if n <= SMALL.min(self.slot / 4) => 0,
            n if n <= self.slot => 1,
            _ => 2,
        }
    }

    /// Makes a block, which this process uses until [`disown`](Arena::disown).
    pub(crate) fn allocate(&mut self, len: usize) -> Result<Place, IpcError> {
        let bytes = len as u64;
        let full = IpcError::Full {
            bytes: len,
            in_use: self.in_use,
            region: self.region.end - self.region.start,
        };
        if bytes > self.region.end - self.region.start {
            return Err(full);
        }
        let kind = self.shelf(bytes);
        let shelf = &mut self.shelves[kind];
        let size = shelf.rounded(bytes + HEADER);
        let start = match shelf.take(size) {
            Some(start) => start,
            None => {
                let slots = size.next_multiple_of(self.slot);
                if slots > self.region.end - self.next {
                    return Err(full);
                }
                shelf.add(self.next..self.next + slots);
                self.next += slots;
                shelf.take(size).ok_or(full)?
            }
        };
        let window = self.windows.cover(start..start + size).inspect_err(|_| {
            self.shelves[kind].put(start, size);
        })?;
        let block = start + HEADER;
        let pointer = window.at(block..start + size).expect("`cover` covers it");
        let used = Used { len: bytes, loans: 0, own: true, window: Arc::clone(&window) };
        used.header(block).reset();
        self.used.insert(block, used);
        self.own.insert(pointer.as_ptr() as usize, block);
        self.in_use += size;
        let file = self.windows.file();
        self.shelves[kind].trim(|pages| file.punch(pages));
        Ok(Place { block, pointer, len, _window: window })
    }

    /// The block of this process that these bytes are in, and where in it; None if they are elsewhere.
    pub(crate) fn find(&self, address: *const u8, len: usize) -> Option<(u64, u64)> {
        let (start, block) = self.own.range(..=address as usize).next_back()?;
        let offset = (address as usize - start) as u64;
        let end = offset.checked_add(len as u64)?;
        (end <= self.used.get(block)?.len).then_some((*block, offset))
    }

    /// Notes that a block is lent once more. It is one that this process uses.
    pub(crate) fn lend(&mut self, block: u64) {
        if let Some(used) = self.used.get_mut(&block) {
            used.loans += 1;
        }
    }

    /// Takes a loan back that was never sent.
    pub(crate) fn unlend(&mut self, block: u64) {
        self.returned(block, 1);
    }

    /// Notes that this process uses the block no more.
    pub(crate) fn disown(&mut self, block: u64) {
        if let Some(used) = self.used.get_mut(&block) {
            used.own = false;
            let pointer = used.window.at(block..block).expect("the window shows the block");
            self.own.remove(&(pointer.as_ptr() as usize));
        }
        self.returned(block, 0);
    }

    fn returned(&mut self, block: u64, loans: u32) {
        let Some(used) = self.used.get_mut(&block) else { return };
        used.loans = used.loans.saturating_sub(loans);
        if used.loans > 0 || used.own {
            return;
        }
        let len = used.len;
        self.used.remove(&block);
        let kind = self.shelf(len);
        let shelf = &mut self.shelves[kind];
        let size = shelf.rounded(len + HEADER);
        shelf.put(block - HEADER, size);
        self.in_use -= size;
    }

    /// Collects what was returned.
    pub(crate) fn collect(&mut self, returns: &Returns) {
        let mut collected = std::mem::take(&mut self.collected);
        returns.collect(
            self.used.len(),
            |block| {
                // Whoever lent nothing gets nothing back: the other side may be broken.
                let used = self.used.get(&block).filter(|used| used.loans > 0)?;
                Some(used.header(block))
            },
            |block, loans| collected.push((block, loans)),
        );
        for (block, loans) in collected.drain(..) {
            self.returned(block, loans);
        }
        self.collected = collected;
    }

    /// In a long pause: gives back memory that is not in use.
    pub(crate) fn rest(&mut self) {
        let file = self.windows.file();
        for shelf in &mut self.shelves {
            shelf.trim_idle(|pages| file.punch(pages));
        }
        // A huge block may lie where a larger one was, whose pages reach to the end of the last slot.
        for (block, used) in &self.used {
            if used.len + HEADER > self.slot {
                let end = block + used.len;
                file.punch(whole_pages(end..end.next_multiple_of(self.slot), file.page()));
            }
        }
    }

    /// Bytes in blocks that are in use, and free bytes that have pages behind them.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.in_use, self.shelves.iter().map(Shelf::warm).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Control, Direction, Layout, SLOT};

    fn arena() -> (Arena, Control) {
        let layout = Layout::new(1).expect("one worker is allowed");
        let file = Arc::new(SharedFile::create("test", layout.file_len()).expect("memory"));
        let control = Control::create(&file, layout).expect("memory");
        (Arena::new(file, layout.region(0, Direction::Results), layout.slot()), control)
    }

    fn give_back(arena: &Arena, returns: &Returns, block: u64) {
        returns.give_back(block, arena.used[&block].header(block));
    }

    #[test]
    fn a_block_is_free_when_it_is_disowned_and_all_loans_are_back() {
        let (mut arena, control) = arena();
        let returns = &control.desk(0).result_returns;
        for own_first in [true, false] {
            let block = arena.allocate(1000).expect("there is room").block;
            arena.lend(block);
            arena.lend(block);
            if own_first {
                arena.disown(block);
            }
            for _ in 0..2 {
                assert_eq!(arena.bytes().0, 1088);
                give_back(&arena, returns, block);
                arena.collect(returns);
            }
            if !own_first {
                assert_eq!(arena.bytes().0, 1088);
                arena.disown(block);
            }
            // The page of which something was touched is warm.
            assert_eq!(arena.bytes(), (0, arena.windows.file().page()));
        }
    }

    #[test]
    fn blocks_of_all_sizes_keep_the_rules_that_the_other_side_checks() {
        let (mut arena, _control) = arena();
        let sizes = [0, 1, 64, 65_000, 70_000, SLOT - HEADER, SLOT, 3 * SLOT - HEADER, 5];
        let places = sizes.map(|len| arena.allocate(len as usize).expect("there is room"));
        for (place, len) in places.iter().zip(sizes) {
            let start = place.block - HEADER;
            assert!(place.block.is_multiple_of(HEADER));
            assert!(start.is_multiple_of(SLOT) || start / SLOT == (place.block + len - 1) / SLOT);
            assert!(places.iter().all(|other| {
                other.block == place.block
                    || other.block - HEADER >= place.block + len
                    || other.block + other.len as u64 <= start
            }));
        }
        places.iter().for_each(|place| arena.disown(place.block));
        assert_eq!(arena.bytes().0, 0);
    }

    #[test]
    fn what_is_not_lent_cannot_be_returned() {
        let (mut arena, control) = arena();
        let returns = &control.desk(0).result_returns;
        let block = arena.allocate(100).expect("there is room").block;
        give_back(&arena, returns, block);
        arena.collect(returns);
        assert_eq!(arena.bytes().0, 192);
        arena.disown(block);
        assert_eq!(arena.bytes().0, 0);
        // A stack that leads nowhere, or round in circles, ends the walk.
        let block = arena.allocate(100).expect("there is room").block;
        arena.lend(block);
        let window = Arc::clone(&arena.used[&block].window);
        let header = window.at(block - HEADER..block).expect("it is mapped").cast::<u64>();
        for next in [0, 1, block, u64::MAX] {
            give_back(&arena, returns, block);
            // SAFETY: the header's first word; nobody else is looking.
            unsafe { header.write(next) };
            arena.collect(returns);
        }
        arena.disown(block);
        assert_eq!(arena.bytes().0, 0);
    }

    #[test]
    fn more_than_the_region_is_refused() {
        let (mut arena, _control) = arena();
        assert!(matches!(arena.allocate(usize::MAX), Err(IpcError::Full { .. })));
        assert!(matches!(arena.allocate(isize::MAX as usize), Err(IpcError::Full { .. })));
    }
}
