//! Words that all processes of a hub see, for work that is anybody's.
//!
//! What they mean is agreed on elsewhere; here is how a batch is built by several workers with them.
//!
//! # Protocol
//!
//! A batch that waits to be made has a *serial* that no other ever had, and a cell for each sample:
//!
//! | value | meaning | who may change it |
//! | --- | --- | --- |
//! | serial, nobody | open | any worker, to its own number, by [`Cell::exchange`] |
//! | serial, worker w | claimed by w | the main process, once w is gone or has said that it is done |
//!
//! The main process writes all cells of a batch and then sends the batch to the workers. A worker that is
//! free exchanges an open cell for its claim. Of several that try, the exchange lets one win; so a
//! sample is made once, and whose it is stands there even if the worker is killed at the next
//! instruction. Nothing is held that would have to be released: the main process puts the serial back, and another
//! worker claims it.
//!
//! Cells are used again for later batches. A worker that was busy for long may still know an old batch whose cells
//! belong to another one by now; its exchange expects the old serial, and fails.
//!
//! One more cell of the batch is the *place*: 0, or where in the shared file the batch is being filled. The first
//! worker that knows how large a sample is makes an extent of its own, lends it once to the main process, and exchanges
//! 0 for its place. Who loses that exchange takes its loan back and fills the winner's extent. The place is touched by
//! workers with a claim only, and a batch's cells are not used again while a claim of it is open, so no old place is
//! taken for a new one. The exchange releases what the extent begins with, and a load acquires it.

use crate::sync::{AtomicU64, Ordering};

/// How many cells a hub has. They take memory when they are first touched.
pub const CELLS: usize = 1 << 20;

/// See the module. All processes see the same; 0 at first.
#[repr(transparent)]
#[derive(Debug, Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    /// What is in it.
    pub(crate) fn load(&self) -> u64 {
        // Acquire: what was written before it was put there; pairs with `store` and `exchange`.
        self.0.load(Ordering::Acquire)
    }

    /// Puts a value in, whatever was there.
    pub(crate) fn store(&self, value: u64) {
        // Release: pairs with `load` and `exchange`.
        self.0.store(value, Ordering::Release);
    }

    /// Puts a value in if another is there; whether it was.
    pub(crate) fn exchange(&self, expected: u64, value: u64) -> bool {
        // AcqRel: a claim sees what the main process wrote before it offered the sample, and the place that is
        // published comes after what is there. Acquire on failure: the winner's place is looked at.
        self.0.compare_exchange(expected, value, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
