//! A block of memory that batches live in, and whoever it goes back to.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::sync::{AtomicBool, Ordering};

/// Where a [`Block`] came from and returns to when its last user drops it.
///
/// The pool of the engine is one keeper; an arena of shared memory is another. Users of a block do
/// not need to know which.
pub trait Keeper: Send + Sync {
    /// Takes the memory back. `delivered` tells whether the block had been handed to the user.
    ///
    /// # Safety
    /// `memory` came from this keeper, is returned once, and nothing refers to it any more.
    unsafe fn take_back(&self, memory: Memory, delivered: bool);

    /// Called once, when a block stops being the loader's and becomes the user's.
    fn handed_over(&self, capacity: usize);
}

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

/// Owned memory of a batch. Dropping it gives it back to its [`Keeper`].
pub struct Block {
    memory: Memory,
    delivered: AtomicBool,
    keeper: Arc<dyn Keeper>,
}

impl Block {
    /// Wraps memory that `keeper` gave out.
    ///
    /// # Safety
    /// `memory` is valid for reads and writes, initialised, used by nobody else, and stays so until
    /// `keeper` takes it back.
    pub unsafe fn new(memory: Memory, keeper: Arc<dyn Keeper>) -> Block {
        Block { memory, delivered: AtomicBool::new(false), keeper }
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

    /// Marks it as the user's. The byte budget does not cover it from here on.
    pub fn hand_over(&self) {
        // Relaxed: only the deliverer sets it, and `drop` has exclusive access.
        if !self.delivered.swap(true, Ordering::Relaxed) {
            self.keeper.handed_over(self.memory.capacity);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let delivered = self.delivered.load(Ordering::Relaxed);
        // SAFETY: `new`'s caller promised that the memory came from this keeper; `drop` runs once and
        // every reference into the block borrows from it or from an `Arc` around it.
        unsafe { self.keeper.take_back(self.memory, delivered) }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("capacity", &self.memory.capacity).finish_non_exhaustive()
    }
}
