//! The pool of aligned, reusable blocks, and the byte budget that it keeps.
//!
//! Each block is in one of three states, and the pool counts the bytes in each:
//!
//! ```text
//!            try_take                hand_over                drop
//!   idle ───────────────► undelivered ─────────► held_by_user ─────► idle, or freed
//!     ▲                        │ drop (cancelled)
//!     └────────────────────────┘
//! ```
//!
//! The budget bounds `undelivered + idle`. What the user holds is the user's: it is counted, never
//! waited for. All counts change under one lock together with the free list, so they add up at any
//! moment; the lock is taken a few times per batch, never per sample.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError};

use serde::Serialize;

use crate::sync::{Mutex, MutexGuard, lock};

use crate::process::Process;

use super::block::{Block, Keeper, Memory};

/// Alignment of small blocks: a cache line, and what every SIMD load wants.
const ALIGN: usize = 64;
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

/// Bytes and blocks of a pool at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolBytes {
    /// In batches that are being built or wait to be delivered.
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

/// Somebody who page-locks memory, such as an accelerator's driver.
///
/// The pool tells it of each block it obtains from the system, and again before it gives the block back.
pub trait PageLock: Send + Sync {
    /// Locks the memory if it can and may; the block is used either way.
    fn lock(&self, memory: Memory);

    /// Unlocks the memory if it was locked. Called once for each `lock`, before the memory is freed.
    fn unlock(&self, memory: Memory);
}

/// A pool of blocks under a byte budget.
pub struct Pool {
    budget: u64,
    page_lock: Option<Arc<dyn PageLock>>,
    home: Process,
    returned: OnceLock<Returned>,
    shared: Mutex<Shared>,
}

/// Called when the user gives a block back.
pub(crate) type Returned = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Shared {
    free: Vec<Memory>,
    bytes: PoolBytes,
}

impl Pool {
    /// A pool that keeps `undelivered + idle` within `budget` bytes, except that one batch may
    /// always be in work.
    #[must_use]
    pub fn new(budget: u64) -> Arc<Pool> {
        Arc::new(Pool {
            budget,
            page_lock: None,
            home: Process::this(),
            returned: OnceLock::new(),
            shared: Mutex::new(Shared::default()),
        })
    }

    /// The same, with every block page-locked as far as `page_lock` allows.
    #[must_use]
    pub fn page_locked(budget: u64, page_lock: Arc<dyn PageLock>) -> Arc<Pool> {
        let page_lock = Some(page_lock);
        Arc::new(Pool {
            budget,
            page_lock,
            home: Process::this(),
            returned: OnceLock::new(),
            shared: Mutex::new(Shared::default()),
        })
    }

    /// Calls `returned`, under no lock, whenever the user gives a block back. Once per pool.
    pub(crate) fn when_returned(&self, returned: Returned) {
        let _ = self.returned.set(returned);
    }

    /// A block of at least `bytes`, or `None` while the budget is spent.
    pub fn try_take(self: &Arc<Pool>, bytes: usize) -> Result<Option<Block>, OutOfMemory> {
        let shared = self.lock();
        let fits_budget = shared.bytes.undelivered.saturating_add(bytes as u64) <= self.budget;
        if !fits_budget && shared.bytes.undelivered > 0 {
            return Ok(None);
        }
        self.take_from(shared, bytes).map(Some)
    }

    /// A block of at least `bytes` even beyond the budget: for what must be finished to get anything
    /// delivered at all.
    pub fn take(self: &Arc<Pool>, bytes: usize) -> Result<Block, OutOfMemory> {
        self.take_from(self.lock(), bytes)
    }

    /// The counts are settled under the lock; the system, which may take its time (and a driver that
    /// page-locks takes milliseconds), is asked after it.
    fn take_from(
        self: &Arc<Pool>,
        mut shared: MutexGuard<'_, Shared>,
        bytes: usize,
    ) -> Result<Block, OutOfMemory> {
        let wanted = block_size(bytes).ok_or(OutOfMemory { bytes })?;
        // A block up to twice the size is near enough: ragged batches differ a little each time.
        let fits = |m: &Memory| m.capacity >= wanted && m.capacity / 2 <= wanted;
        let idle = shared.free.iter().rposition(fits).map(|at| shared.free.swap_remove(at));
        let mut evicted = Vec::new();
        match &idle {
            Some(memory) => {
                shared.bytes.idle -= memory.capacity as u64;
                shared.bytes.reused_blocks += 1;
            }
            None => {
                let room = self.budget.saturating_sub(shared.bytes.undelivered + wanted as u64);
                while shared.bytes.idle > room {
                    let Some(unused) = shared.free.pop() else { break };
                    shared.bytes.idle -= unused.capacity as u64;
                    evicted.push(unused);
                }
                shared.bytes.allocated_blocks += 1;
            }
        }
        let capacity = idle.map_or(wanted, |memory| memory.capacity) as u64;
        shared.bytes.undelivered += capacity;
        shared.bytes.peak = shared.bytes.peak.max(shared.bytes.undelivered + shared.bytes.idle);
        drop(shared);
        evicted.into_iter().for_each(|memory| self.release(memory));
        let Some(memory) = idle.or_else(|| self.obtain(wanted)) else {
            let mut shared = self.lock();
            shared.bytes.undelivered -= capacity;
            shared.bytes.allocated_blocks -= 1;
            return Err(OutOfMemory { bytes });
        };
        // SAFETY: the memory was obtained (zeroed) by this pool and is in no other list or block.
        Ok(unsafe { Block::new(memory, Arc::clone(self) as Arc<dyn Keeper>) })
    }

    /// The budget in bytes.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// The counts at this moment.
    #[must_use]
    pub fn bytes(&self) -> PoolBytes {
        self.lock().bytes
    }

    fn obtain(&self, capacity: usize) -> Option<Memory> {
        let memory = obtain(capacity)?;
        if let Some(page_lock) = &self.page_lock {
            page_lock.lock(memory);
        }
        Some(memory)
    }

    fn release(&self, memory: Memory) {
        if let Some(page_lock) = &self.page_lock {
            page_lock.unlock(memory);
        }
        release(memory);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl Keeper for Pool {
    unsafe fn take_back(&self, memory: Memory, delivered: bool) {
        if self.home.is_left() {
            // A forked child: a thread of the parent may hold the lock for ever. The child has a copy
            // of all memory anyway and drops this one with the rest.
            return;
        }
        let mut shared = self.lock();
        let bytes = memory.capacity as u64;
        if delivered {
            shared.bytes.held_by_user -= bytes;
        } else {
            shared.bytes.undelivered -= bytes;
        }
        if shared.bytes.undelivered + shared.bytes.idle + bytes <= self.budget {
            shared.bytes.idle += bytes;
            shared.free.push(memory);
            drop(shared);
        } else {
            drop(shared);
            self.release(memory);
        }
        if let (true, Some(returned)) = (delivered, self.returned.get()) {
            returned();
        }
    }

    fn handed_over(&self, capacity: usize) {
        let mut shared = self.lock();
        shared.bytes.undelivered -= capacity as u64;
        shared.bytes.held_by_user += capacity as u64;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let shared = self.shared.get_mut().unwrap_or_else(PoisonError::into_inner);
        for memory in std::mem::take(&mut shared.free) {
            self.release(memory);
        }
    }
}

fn block_size(bytes: usize) -> Option<usize> {
    let unit = if bytes >= HUGE { 4096 } else { ALIGN };
    let size = bytes.max(1).checked_next_multiple_of(unit)?;
    (size <= isize::MAX as usize - HUGE).then_some(size)
}

/// Zeroed memory, since a block is handed out as initialised.
fn obtain(capacity: usize) -> Option<Memory> {
    #[cfg(target_os = "linux")]
    if capacity >= HUGE {
        return huge_pages::map(capacity);
    }
    // SAFETY: the layout's size is not zero (`block_size` rounds up from at least one byte).
    let address = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(capacity)) })?;
    Some(Memory { address, capacity })
}

fn release(memory: Memory) {
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

    #[test]
    fn a_dropped_block_is_used_again() {
        let pool = Pool::new(1 << 20);
        let first = pool.take(1000).unwrap();
        let address = first.address();
        drop(first);
        assert_eq!(pool.take(900).unwrap().address(), address);
        assert_eq!(pool.bytes().allocated_blocks, 1);
        assert_eq!(pool.bytes().reused_blocks, 1);
    }

    #[test]
    fn the_budget_covers_undelivered_and_idle_but_not_what_the_user_holds() {
        let pool = Pool::new(4096);
        let a = pool.try_take(2048).unwrap().unwrap();
        let b = pool.try_take(2048).unwrap().unwrap();
        assert!(pool.try_take(64).unwrap().is_none(), "budget spent");
        a.hand_over();
        assert_eq!(pool.bytes().held_by_user, 2048);
        let c = pool.try_take(2048).unwrap().expect("delivered bytes are the user's");
        drop(a);
        assert_eq!(pool.bytes().idle, 0, "no room to keep the returned block");
        drop((b, c));
        let bytes = pool.bytes();
        assert_eq!((bytes.undelivered, bytes.held_by_user, bytes.idle), (0, 0, 4096));
        assert!(bytes.peak <= 4096);
    }

    #[test]
    fn one_batch_larger_than_the_budget_may_still_be_built() {
        let pool = Pool::new(100);
        let big = pool.try_take(1 << 22).unwrap().expect("nothing else is in work");
        assert!(pool.try_take(1).unwrap().is_none());
        assert_eq!(big.address().as_ptr() as usize % HUGE, 0);
        drop(big);
        assert_eq!(pool.bytes().idle, 0);
    }

    #[test]
    fn idle_blocks_make_room_for_another_size() {
        let pool = Pool::new(10_000);
        drop(pool.take(8192).unwrap());
        assert_eq!(pool.bytes().idle, 8192);
        let small = pool.try_take(2048).unwrap().unwrap();
        assert_eq!(pool.bytes().idle, 0, "the large idle block was freed for it");
        drop(small);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let pool = Pool::new(u64::MAX);
        assert_eq!(pool.take(usize::MAX).unwrap_err(), OutOfMemory { bytes: usize::MAX });
        assert_eq!(pool.take(1 << 60).unwrap_err(), OutOfMemory { bytes: 1 << 60 });
    }
}
