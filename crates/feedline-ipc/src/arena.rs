//! The extents that one process makes and lends to the other.
//!
//! An extent begins with a header (see `returns.rs`), which its users do not see. It is free again when its
//! owner uses it no more *and* all loans of it have been returned; both may happen in any order, any
//! number of times in between.
//!
//! Three free lists keep small, large and huge extents apart, so that a message of a few hundred bytes does
//! not spoil a stretch that just fits the next batch:
//!
//! | extent | in multiples of | lies |
//! | --- | --- | --- |
//! | up to 64 KiB | 64 bytes | within a chunk |
//! | up to a chunk | pages, so that its pages can be given back | within a chunk |
//! | larger | chunks | on chunks of its own |
//!
//! A pause takes all memory that is not in use but [`KEEP`] for the small and for the large, and nothing
//! for the huge, of which a single chunk is more than that.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::IpcError;
use crate::file::{Mapping, SharedFile, whole_pages};
use crate::file_map::HEADER;
use crate::free_list::FreeList;
use crate::mappings::Mappings;
use crate::returns::{ExtentHeader, Returns};

/// The most that a small extent has; a quarter of a chunk, if that is less.
const SMALL: u64 = 64 << 10;

/// What stays warm in a pause; an eighth of a chunk, if that is less.
const KEEP: u64 = 32 << 20;

/// Where an extent is.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    /// Where it begins in the file; its name.
    pub(crate) extent: u64,
    /// Where it begins in this process.
    pub(crate) pointer: NonNull<u8>,
    /// Its length as asked for.
    pub(crate) len: usize,
    /// What keeps it mapped.
    pub(crate) _mapping: Arc<Mapping>,
}

/// An extent that is not free.
#[derive(Debug)]
struct Used {
    len: u64,
    /// Loans not yet returned.
    loans: u32,
    /// Whether this process itself uses it.
    own: bool,
    /// What shows its header, and keeps it mapped.
    mapping: Arc<Mapping>,
}

impl Used {
    fn header(&self, extent: u64) -> &ExtentHeader {
        let header =
            self.mapping.at(extent - HEADER..extent).expect("the mapping shows the extent");
        // SAFETY: mapped as long as the mapping lives, aligned to 64 bytes as all extents are; it is atomics,
        // valid whatever is in them and whoever writes.
        unsafe { header.cast::<ExtentHeader>().as_ref() }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Arena {
    region: Range<u64>,
    chunk: u64,
    /// The first chunk that was never used.
    next: u64,
    mappings: Mappings,
    free_lists: [FreeList; 3],
    used: BTreeMap<u64, Used>,
    /// The extents that this process itself uses, by the address at which it does.
    own: BTreeMap<usize, u64>,
    in_use: u64,
    collected: Vec<(u64, u32)>,
}

impl Arena {
    pub(crate) fn new(file: Arc<SharedFile>, region: Range<u64>, chunk: u64) -> Arena {
        let (page, keep) = (file.page(), KEEP.min(chunk / 8));
        Arena {
            next: region.start,
            region,
            chunk,
            mappings: Mappings::new(file, chunk),
            free_lists: [
                FreeList::new(HEADER, chunk, page, keep),
                FreeList::new(page, chunk, page, keep),
                FreeList::new(chunk, u64::MAX, page, 0),
            ],
            used: BTreeMap::new(),
            own: BTreeMap::new(),
            in_use: 0,
            collected: Vec::new(),
        }
    }

    /// Which free list is for extents of this length.
    fn kind(&self, len: u64) -> usize {
        match len + HEADER {
            n if n <= SMALL.min(self.chunk / 4) => 0,
            n if n <= self.chunk => 1,
            _ => 2,
        }
    }

    /// Makes an extent, which this process uses until [`disown`](Arena::disown).
    pub(crate) fn allocate(&mut self, len: usize) -> Result<Allocation, IpcError> {
        let bytes = len as u64;
        let full = IpcError::Full {
            bytes: len,
            in_use: self.in_use,
            region: self.region.end - self.region.start,
        };
        if bytes > self.region.end - self.region.start {
            return Err(full);
        }
        let kind = self.kind(bytes);
        let free_list = &mut self.free_lists[kind];
        let size = free_list.rounded(bytes + HEADER);
        let start = match free_list.take(size) {
            Some(start) => start,
            None => {
                let chunks = size.next_multiple_of(self.chunk);
                if chunks > self.region.end - self.next {
                    return Err(full);
                }
                free_list.add(self.next..self.next + chunks);
                self.next += chunks;
                free_list.take(size).ok_or(full)?
            }
        };
        let mapping = self.mappings.cover(start..start + size).inspect_err(|_| {
            self.free_lists[kind].put(start, size);
        })?;
        let extent = start + HEADER;
        let pointer = mapping.at(extent..start + size).expect("`cover` covers it");
        let used = Used { len: bytes, loans: 0, own: true, mapping: Arc::clone(&mapping) };
        used.header(extent).reset();
        self.used.insert(extent, used);
        self.own.insert(pointer.as_ptr() as usize, extent);
        self.in_use += size;
        let file = self.mappings.file();
        self.free_lists[kind].trim(|pages| file.punch(pages));
        Ok(Allocation { extent, pointer, len, _mapping: mapping })
    }

    /// The extent of this process that these bytes are in, and where in it; None if they are elsewhere.
    pub(crate) fn find(&self, address: *const u8, len: usize) -> Option<(u64, u64)> {
        let (start, extent) = self.own.range(..=address as usize).next_back()?;
        let offset = (address as usize - start) as u64;
        let end = offset.checked_add(len as u64)?;
        (end <= self.used.get(extent)?.len).then_some((*extent, offset))
    }

    /// Notes that an extent is lent once more. It is one that this process uses.
    pub(crate) fn lend(&mut self, extent: u64) {
        if let Some(used) = self.used.get_mut(&extent) {
            used.loans += 1;
        }
    }

    /// Takes a loan back that was never sent.
    pub(crate) fn unlend(&mut self, extent: u64) {
        self.returned(extent, 1);
    }

    /// Notes that this process uses the extent no more.
    pub(crate) fn disown(&mut self, extent: u64) {
        if let Some(used) = self.used.get_mut(&extent) {
            used.own = false;
            let pointer = used.mapping.at(extent..extent).expect("the mapping shows the extent");
            self.own.remove(&(pointer.as_ptr() as usize));
        }
        self.returned(extent, 0);
    }

    fn returned(&mut self, extent: u64, loans: u32) {
        let Some(used) = self.used.get_mut(&extent) else { return };
        used.loans = used.loans.saturating_sub(loans);
        if used.loans > 0 || used.own {
            return;
        }
        let len = used.len;
        self.used.remove(&extent);
        let kind = self.kind(len);
        let free_list = &mut self.free_lists[kind];
        let size = free_list.rounded(len + HEADER);
        free_list.put(extent - HEADER, size);
        self.in_use -= size;
    }

    /// Collects what was returned.
    pub(crate) fn collect(&mut self, returns: &Returns) {
        let mut collected = std::mem::take(&mut self.collected);
        returns.collect(
            self.used.len(),
            |extent| {
                // Whoever lent nothing gets nothing back: the other side may be broken.
                let used = self.used.get(&extent).filter(|used| used.loans > 0)?;
                Some(used.header(extent))
            },
            |extent, loans| collected.push((extent, loans)),
        );
        for (extent, loans) in collected.drain(..) {
            self.returned(extent, loans);
        }
        self.collected = collected;
    }

    /// In a long pause: gives back memory that is not in use.
    pub(crate) fn rest(&mut self) {
        let file = self.mappings.file();
        for free_list in &mut self.free_lists {
            free_list.trim_idle(|pages| file.punch(pages));
        }
        // A huge extent may lie where a larger one was, whose pages reach to the end of the last chunk.
        for (extent, used) in &self.used {
            if used.len + HEADER > self.chunk {
                let end = extent + used.len;
                file.punch(whole_pages(end..end.next_multiple_of(self.chunk), file.page()));
            }
        }
    }

    /// Bytes in extents that are in use, and free bytes that have pages behind them.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.in_use, self.free_lists.iter().map(FreeList::warm).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_map::{CHUNK, Control, Direction, FileMap};

    fn arena() -> (Arena, Control) {
        let file_map = FileMap::new(1).expect("one worker is allowed");
        let file = Arc::new(SharedFile::create("test", file_map.file_len()).expect("memory"));
        let control = Control::create(&file, file_map).expect("memory");
        (Arena::new(file, file_map.region(0, Direction::Results), file_map.chunk()), control)
    }

    fn give_back(arena: &Arena, returns: &Returns, extent: u64) {
        returns.give_back(extent, arena.used[&extent].header(extent));
    }

    #[test]
    fn an_extent_is_free_when_it_is_disowned_and_all_loans_are_back() {
        let (mut arena, control) = arena();
        let returns = &control.channel(0).result_returns;
        for own_first in [true, false] {
            let extent = arena.allocate(1000).expect("there is room").extent;
            arena.lend(extent);
            arena.lend(extent);
            if own_first {
                arena.disown(extent);
            }
            for _ in 0..2 {
                assert_eq!(arena.bytes().0, 1088);
                give_back(&arena, returns, extent);
                arena.collect(returns);
            }
            if !own_first {
                assert_eq!(arena.bytes().0, 1088);
                arena.disown(extent);
            }
            // The page of which something was touched is warm.
            assert_eq!(arena.bytes(), (0, arena.mappings.file().page()));
        }
    }

    #[test]
    fn extents_of_all_sizes_keep_the_rules_that_the_other_side_checks() {
        let (mut arena, _control) = arena();
        let sizes = [0, 1, 64, 65_000, 70_000, CHUNK - HEADER, CHUNK, 3 * CHUNK - HEADER, 5];
        let places = sizes.map(|len| arena.allocate(len as usize).expect("there is room"));
        for (place, len) in places.iter().zip(sizes) {
            let start = place.extent - HEADER;
            assert!(place.extent.is_multiple_of(HEADER));
            assert!(
                start.is_multiple_of(CHUNK) || start / CHUNK == (place.extent + len - 1) / CHUNK
            );
            assert!(places.iter().all(|other| {
                other.extent == place.extent
                    || other.extent - HEADER >= place.extent + len
                    || other.extent + other.len as u64 <= start
            }));
        }
        places.iter().for_each(|place| arena.disown(place.extent));
        assert_eq!(arena.bytes().0, 0);
    }

    #[test]
    fn what_is_not_lent_cannot_be_returned() {
        let (mut arena, control) = arena();
        let returns = &control.channel(0).result_returns;
        let extent = arena.allocate(100).expect("there is room").extent;
        give_back(&arena, returns, extent);
        arena.collect(returns);
        assert_eq!(arena.bytes().0, 192);
        arena.disown(extent);
        assert_eq!(arena.bytes().0, 0);
        // A stack that leads nowhere, or round in circles, ends the walk.
        let extent = arena.allocate(100).expect("there is room").extent;
        arena.lend(extent);
        let mapping = Arc::clone(&arena.used[&extent].mapping);
        let header = mapping.at(extent - HEADER..extent).expect("it is mapped").cast::<u64>();
        for next in [0, 1, extent, u64::MAX] {
            give_back(&arena, returns, extent);
            // SAFETY: the header's first word; nobody else is looking.
            unsafe { header.write(next) };
            arena.collect(returns);
        }
        arena.disown(extent);
        assert_eq!(arena.bytes().0, 0);
    }

    #[test]
    fn more_than_the_region_is_refused() {
        let (mut arena, _control) = arena();
        assert!(matches!(arena.allocate(usize::MAX), Err(IpcError::Full { .. })));
        assert!(matches!(arena.allocate(isize::MAX as usize), Err(IpcError::Full { .. })));
    }
}
