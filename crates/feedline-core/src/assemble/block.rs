//! A block of memory that batches live in.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::sync::{AtomicBool, Ordering};

use super::pool::Pool;

/// An address range without an owner.
#[derive(Copy, Clone, Debug)]
pub struct Memory {
    /// Its first byte.
    pub address: NonNull<u8>,
    /// Its length in bytes.
    pub capacity: usize,
}

// SAFETY: `Memory` is an address and a length; whoever owns it decides who may touch the bytes.
unsafe impl Send for Memory {}
// SAFETY: as above; sharing the pair grants no access.
unsafe impl Sync for Memory {}

/// Owned memory of a batch. Dropping it gives it back to the loader's pool.
pub struct Block {
    memory: Memory,
    delivered: AtomicBool,
    pool: Arc<Pool>,
}

impl Block {
    /// Wraps memory that `pool` gave out.
    ///
    /// # Safety
    /// `memory` is valid for reads and writes, initialised, used by nobody else, and stays so until
    /// `pool` takes it back.
    pub(super) unsafe fn new(memory: Memory, pool: Arc<Pool>) -> Block {
        Block { memory, delivered: AtomicBool::new(false), pool }
    }

    /// Its first byte.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        self.memory.address
    }

    /// Its length in bytes; at least what was asked for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.capacity
    }

    /// Marks it as the user's; it was booked as such when its batch was taken.
    pub(crate) fn mark_delivered(&self) {
        // Relaxed: only the deliverer sets it, and `drop` has exclusive access.
        self.delivered.store(true, Ordering::Relaxed);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let delivered = self.delivered.load(Ordering::Relaxed);
        // SAFETY: `new`'s caller promised that the memory came from this pool; `drop` runs once and
        // every reference into the block borrows from it or from an `Arc` around it.
        unsafe { self.pool.take_back(self.memory, delivered) }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("capacity", &self.memory.capacity).finish_non_exhaustive()
    }
}
