//! Memory as blocks have it, for values outside of any batch.

use super::block::Memory;
use super::pool::{block_size, obtain, release};

/// Zeroed bytes, in huge pages where there are many: with small pages, most of the time that a whole volume or a megabyte of
/// a file takes would go into their first touch.
#[derive(Debug)]
pub struct LargeMemory(Memory);

impl LargeMemory {
    /// At least so many bytes; none if the system has not as many.
    #[must_use]
    pub fn new(bytes: usize) -> Option<LargeMemory> {
        obtain(block_size(bytes)?).map(LargeMemory)
    }

    /// How many bytes there are.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// All of them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `obtain` gave out so many initialised bytes, which are this one's alone until it is dropped.
        unsafe { std::slice::from_raw_parts(self.0.address.as_ptr(), self.0.capacity) }
    }

    /// All of them, to be written to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.address.as_ptr(), self.0.capacity) }
    }
}

impl Drop for LargeMemory {
    fn drop(&mut self) {
        // What was borrowed of it is gone.
        release(self.0);
    }
}
