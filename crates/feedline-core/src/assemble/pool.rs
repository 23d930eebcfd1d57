//! The pool of aligned, reusable blocks.
//!
//! The pool has the memory; how much of it there may be, and in which state it is, the [`Ledger`] decides. The
//! pool tells it of each block, takes what it is allowed to, and keeps or frees what comes back as it is told. Its own
//! lock protects the list of idle blocks alone, and is never held while the ledger is told anything.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use crate::flow::{Charge, Ledger, Reservation};
use crate::process::Process;
use crate::sync::{Mutex, lock};

use super::block::{Block, Memory};

/// Alignment of small blocks and of the fields in them: a cache line, and what every SIMD load wants.
pub(super) const ALIGN: usize = 64;
/// Blocks from this size on are aligned to it and offered to the kernel as huge pages: a batch of
/// photographs is tens of megabytes, and its page faults and TLB misses are measurable.
const HUGE: usize = 2 << 20;

/// The machine refused memory for a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {bytes} bytes for a batch; use a smaller batch size or less read-ahead")]
pub struct OutOfMemory {
    /// How much was asked for.
    pub bytes: usize,
}

/// Somebody who page-locks memory, such as an accelerator's driver.
///
/// The pool tells it of each block it obtains from the system, and again before it gives the block back.
///
/// # Safety
///
/// The memory is lent: after `unlock` has returned the implementor must not touch it, nor let a device do so, and
/// it must not unmap, protect or free it at any time.
pub unsafe trait PageLock: Send + Sync {
    /// Locks the memory if it can and may; the block is used either way.
    fn lock(&self, memory: Memory);

    /// Unlocks the memory if it was locked. Called once for each `lock`, before the memory is freed.
    fn unlock(&self, memory: Memory);
}

/// A pool of blocks.
pub(crate) struct Pool {
    budget: u64,
    ledger: Arc<dyn Ledger>,
    page_lock: Option<Arc<dyn PageLock>>,
    home: Process,
    idle: Mutex<Vec<Memory>>,
    /// Values in padded fields, and the places there are for them. Relaxed: sums for reports, which publish nothing.
    padded: [AtomicU64; 2],
}

impl Pool {
    /// A pool whose blocks are booked in `ledger` and page-locked as far as `page_lock` allows.
    pub(crate) fn new(
        budget: u64,
        ledger: Arc<dyn Ledger>,
        page_lock: Option<Arc<dyn PageLock>>,
    ) -> Arc<Pool> {
        let (home, idle) = (Process::this(), Mutex::new(Vec::new()));
        Arc::new(Pool { budget, ledger, page_lock, home, idle, padded: Default::default() })
    }

    /// Counts values that were padded, and the places that they have with their padding.
    pub(crate) fn count_padding(&self, values: u64, places: u64) {
        self.padded[0].fetch_add(values, Ordering::Relaxed);
        self.padded[1].fetch_add(places, Ordering::Relaxed);
    }

    /// Values that were padded so far, and their places.
    pub(crate) fn padded(&self) -> [u64; 2] {
        self.padded.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// The budget that the ledger keeps, in bytes.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// A block of at least `bytes`, in place of bytes that are booked already. Those are booked no longer afterwards,
    /// also if there is no block to be had.
    pub(crate) fn take(
        self: &Arc<Pool>,
        bytes: usize,
        in_place_of: u64,
    ) -> Result<Block, OutOfMemory> {
        self.take_block(bytes, |_| in_place_of)
    }

    /// A block for values that lie loose so far and are freed as they are copied. A new one grows as those go, so it is
    /// booked in their place. One that was idle is there in full from the start: it is booked beside them.
    pub(crate) fn take_for_copies(
        self: &Arc<Pool>,
        bytes: usize,
        loose: &mut Charge,
    ) -> Result<Block, OutOfMemory> {
        self.take_block(bytes, |is_new| if is_new { loose.take(bytes as u64) } else { 0 })
    }

    fn take_block(
        self: &Arc<Pool>,
        bytes: usize,
        in_place_of: impl FnOnce(bool) -> u64,
    ) -> Result<Block, OutOfMemory> {
        let Some(wanted) = block_size(bytes) else {
            self.ledger.freed(in_place_of(true));
            return Err(OutOfMemory { bytes });
        };
        // A block up to twice the size is near enough: ragged batches differ a little each time.
        let fits = |m: &Memory| m.capacity >= wanted && m.capacity / 2 <= wanted;
        let idle = {
            let mut idle = lock(&self.idle);
            idle.iter().rposition(fits).map(|at| idle.swap_remove(at))
        };
        let capacity = idle.map_or(wanted, |memory| memory.capacity) as u64;
        let evict = self.ledger.took(capacity, idle.is_some(), in_place_of(idle.is_none()));
        self.evict(evict);
        // The system may take its time, and a driver that page-locks takes milliseconds.
        let Some(memory) = idle.or_else(|| obtain(wanted)) else {
            self.ledger.did_not_take(capacity);
            return Err(OutOfMemory { bytes });
        };
        // SAFETY: the memory was obtained (zeroed) by this pool and is in no other list or block.
        let block = unsafe { Block::new(memory, Arc::clone(self)) };
        if let (None, Some(page_lock)) = (idle, &self.page_lock) {
            page_lock.lock(memory);
        }
        Ok(block)
    }

    /// Makes room for a value of so many bytes, before it is allocated.
    pub(crate) fn reserve(&self, bytes: usize) -> Reservation {
        let evict = self.ledger.reserve(bytes as u64);
        let reservation = Reservation::of(&self.ledger, bytes as u64);
        self.evict(evict);
        reservation
    }

    /// Frees idle blocks of at least so many bytes, as far as there are any.
    pub(crate) fn evict(&self, bytes: u64) {
        let mut freed = 0;
        while freed < bytes {
            let Some(memory) = lock(&self.idle).pop() else { break };
            freed += memory.capacity as u64;
            self.release(memory);
        }
        if freed > 0 {
            self.ledger.evicted(freed);
        }
    }

    /// Takes memory back from a block, which was the user's or not.
    ///
    /// # Safety
    /// `memory` came from this pool, is returned once, and nothing refers to it any more.
    pub(super) unsafe fn take_back(&self, memory: Memory, delivered: bool) {
        if self.home.is_left() {
            // A forked child: a thread of the parent may hold the lock for ever. The child has a copy
            // of all memory anyway and drops this one with the rest.
            return;
        }
        let mut keep = || lock(&self.idle).push(memory);
        if !self.ledger.returned(memory.capacity as u64, delivered, &mut keep) {
            self.release(memory);
        }
    }

    fn release(&self, memory: Memory) {
        if let Some(page_lock) = &self.page_lock {
            page_lock.unlock(memory);
        }
        release(memory);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner));
        for memory in idle {
            self.release(memory);
        }
    }
}

/// What a block for so many bytes takes; `None` if that is more than there are addresses.
pub(crate) fn block_size(bytes: usize) -> Option<usize> {
    block_size_in(page_size(), bytes)
}

/// The same where pages are of this size.
fn block_size_in(page: usize, bytes: usize) -> Option<usize> {
    let unit = if bytes >= HUGE { page } else { ALIGN };
    let size = bytes.max(1).checked_next_multiple_of(unit)?;
    (size <= isize::MAX as usize - HUGE).then_some(size)
}

/// What the kernel maps at a time: 4 KiB mostly, 16 or 64 KiB on some.
fn page_size() -> usize {
    #[cfg(target_os = "linux")]
    return rustix::param::page_size();
    #[cfg(not(target_os = "linux"))]
    return 64 << 10;
}

/// Zeroed memory, since a block is handed out as initialised. The capacity is one of [`block_size`].
pub(super) fn obtain(capacity: usize) -> Option<Memory> {
    #[cfg(target_os = "linux")]
    if capacity >= HUGE {
        return huge_pages::map(capacity);
    }
    // SAFETY: the layout's size is not zero (`block_size` rounds up from at least one byte).
    let address = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(capacity)) })?;
    Some(Memory { address, capacity })
}

/// Gives memory back that [`obtain`] gave out and nothing refers to any more.
pub(super) fn release(memory: Memory) {
    #[cfg(target_os = "linux")]
    if memory.capacity >= HUGE {
        return huge_pages::unmap(memory);
    }
    // SAFETY: `obtain` allocated it with the same layout, and it has left every list.
    unsafe { std::alloc::dealloc(memory.address.as_ptr(), layout(memory.capacity)) }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGN).expect("block_size keeps sizes below isize::MAX")
}

/// Large blocks come straight from the kernel: its fresh pages are zero already, so that nothing is
/// touched before a worker writes to it, while the allocator would clear aligned memory by hand.
#[cfg(target_os = "linux")]
mod huge_pages {
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::{HUGE, Memory};

    pub(super) fn map(capacity: usize) -> Option<Memory> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing of ours.
        let start =
            unsafe { mmap_anonymous(null_mut(), capacity + HUGE, protection, MapFlags::PRIVATE) };
        let start = start.ok()?.cast::<u8>();
        let head = start.align_offset(HUGE);
        // SAFETY: all three ranges are parts of the mapping just made: pages before the aligned
        // block and after it are given back, the block between them is advised about. `head` is below
        // `HUGE`, `capacity` is a multiple of the page size.
        unsafe {
            let block = start.add(head);
            if head > 0 {
                let _ = munmap(start.cast(), head);
            }
            if head < HUGE {
                let _ = munmap(block.add(capacity).cast(), HUGE - head);
            }
            // Only advice, so its failure is none of ours.
            let _ = madvise(block.cast(), capacity, Advice::LinuxHugepage);
            Some(Memory { address: NonNull::new(block)?, capacity })
        }
    }

    pub(super) fn unmap(memory: Memory) {
        // SAFETY: the range is exactly what `map` kept of its mapping, and nothing refers to it.
        let _ = unsafe { munmap(memory.address.as_ptr().cast(), memory.capacity) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};

    /// Keeps what comes back, up to a number of bytes.
    #[derive(Default)]
    struct Books {
        idle: AtomicU64,
        most: u64,
    }

    impl Ledger for Books {
        fn took(&self, capacity: u64, reused: bool, _in_place_of: u64) -> u64 {
            let idle = self.idle.load(Ordering::Relaxed);
            if reused {
                self.idle.fetch_sub(capacity, Ordering::Relaxed);
                return 0;
            }
            (idle + capacity).saturating_sub(self.most).min(idle)
        }
        fn did_not_take(&self, _capacity: u64) {}
        fn freed(&self, _bytes: u64) {}
        fn returned(&self, capacity: u64, _delivered: bool, keep: &mut dyn FnMut()) -> bool {
            let keeps = self.idle.load(Ordering::Relaxed) + capacity <= self.most;
            if keeps {
                self.idle.fetch_add(capacity, Ordering::Relaxed);
                keep();
            }
            keeps
        }
        fn evicted(&self, bytes: u64) {
            self.idle.fetch_sub(bytes, Ordering::Relaxed);
        }
        fn reserve(&self, _bytes: u64) -> u64 {
            0
        }
        fn unreserve(&self, _bytes: u64) {}
    }

    #[test]
    fn a_block_that_was_idle_is_booked_beside_what_is_copied_into_it() {
        let (books, pool) = pool(1 << 20);
        let ledger: Arc<dyn Ledger> = books;
        let mut loose = Charge::of(&ledger, 3000);
        let new = pool.take_for_copies(1000, &mut loose).unwrap();
        assert_eq!(
            loose.take(u64::MAX),
            2000,
            "a new one has no memory before something is copied"
        );
        let mut loose = Charge::of(&ledger, 3000);
        drop(new);
        let again = pool.take_for_copies(1000, &mut loose).unwrap();
        assert_eq!(loose.take(u64::MAX), 3000);
        drop(again);
    }

    fn pool(most: u64) -> (Arc<Books>, Arc<Pool>) {
        let books = Arc::new(Books { most, ..Books::default() });
        (Arc::clone(&books), Pool::new(most, books, None))
    }

    #[test]
    fn a_dropped_block_is_used_again() {
        let (books, pool) = pool(1 << 20);
        let first = pool.take(1000, 0).unwrap();
        let address = first.address();
        drop(first);
        assert_eq!(books.idle.load(Ordering::Relaxed), 1024);
        assert_eq!(pool.take(900, 0).unwrap().address(), address);
    }

    #[test]
    fn idle_blocks_make_room_for_another_size() {
        let (books, pool) = pool(10_000);
        drop(pool.take(8192, 0).unwrap());
        assert_eq!(books.idle.load(Ordering::Relaxed), 8192);
        let small = pool.take(2048, 0).unwrap();
        assert_eq!(books.idle.load(Ordering::Relaxed), 0, "the large idle block was freed for it");
        drop(small);
    }

    #[test]
    fn large_blocks_are_aligned_to_huge_pages_and_whole_pages_long() {
        let (_, pool) = pool(100);
        let large = pool.take((1 << 22) + 1, 0).unwrap();
        assert_eq!(large.address().as_ptr() as usize % HUGE, 0);
        assert_eq!(large.capacity() % page_size(), 0);
    }

    #[test]
    fn large_blocks_are_whole_pages_whatever_the_size_of_a_page() {
        for page in [4 << 10, 16 << 10, 64 << 10] {
            assert_eq!(block_size_in(page, HUGE), Some(HUGE));
            assert_eq!(block_size_in(page, HUGE + 1), Some(HUGE + page));
            assert_eq!(block_size_in(page, HUGE + page + 1), Some(HUGE + 2 * page));
        }
        assert_eq!(block_size((1 << 22) + 1), block_size_in(page_size(), (1 << 22) + 1));
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let (_, pool) = pool(u64::MAX);
        for bytes in [usize::MAX, 1 << 60] {
            assert_eq!(pool.take(bytes, 0).unwrap_err(), OutOfMemory { bytes });
        }
    }
}
