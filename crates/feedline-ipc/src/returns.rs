//! How extents go back to the process that owns the arena.
//!
//! # Protocol
//!
//! Any thread of the borrowing process returns an extent when its last view there dies; the owner
//! collects all returned extents at once before it allocates. In between they are on a stack that is
//! linked through the headers that precede extents, so no number of extents makes it overflow.
//!
//! An extent may have been sent more than once (a worker that caches a batch), so what is returned is a
//! *loan*, and `loans` in the header counts those returned and not yet collected:
//!
//! * `give_back` adds one to `loans`. Whoever raises it from 0 puts the extent on the stack: links it to
//!   the top and makes it the top. Everybody else is done, and must not touch the extent again: from here on
//!   it may be gone.
//! * `collect` takes the whole stack by swapping its top for nothing, hence nobody else ever removes from
//!   it and the ABA problem does not arise. For each extent it reads the link and then swaps `loans` for 0.
//!   From that swap on the extent may be put on the stack again.
//!
//! The owner frees an extent when it has collected as many loans as it made and uses it no more itself.
//! Then nobody who raised `loans` is still at work on the header: the one who raised it from 0 did so before the
//! extent was on the stack and could be collected, and the others stopped there.
//!
//! An owner that is the main process does not trust what a worker wrote: it follows links to extents that it
//! has lent only, each of them once.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What precedes an extent. All zeros is an extent of which nothing was returned.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct ExtentHeader {
    /// The extent below it on the stack; 0 at the bottom.
    next: AtomicU64,
    /// Loans that were returned and not yet collected.
    loans: AtomicU32,
}

impl ExtentHeader {
    /// Makes it that of a new extent.
    pub(crate) fn reset(&self) {
        // Relaxed: nobody else knows the extent; the ring publishes it.
        self.next.store(0, Ordering::Relaxed);
        self.loans.store(0, Ordering::Relaxed);
    }
}

/// The stack's top: an extent, or 0 if it is empty. No extent begins at 0.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Returns {
    top: AtomicU64,
}

impl Returns {
    /// Forgets what is on it: its owner is gone.
    #[cfg(not(loom))]
    pub(crate) fn reset(&self) {
        // Relaxed: nobody else has it.
        self.top.store(0, Ordering::Relaxed);
    }

    /// Returns one loan of the extent that this header precedes.
    pub(crate) fn give_back(&self, extent: u64, header: &ExtentHeader) {
        // Release: all that this process read and wrote in the extent comes before; pairs with the swap
        // in `collect`.
        if header.loans.fetch_add(1, Ordering::Release) != 0 {
            return;
        }
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            header.next.store(top, Ordering::Relaxed);
            // Release: the link, and what the extents below are; pairs with the swap in `collect`.
            match self.top.compare_exchange_weak(top, extent, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes all extents off the stack and tells for each how many loans were returned. `header` knows
    /// the extents that may be on it; the walk ends at any other, and after `at_most` extents.
    pub(crate) fn collect<'a>(
        &self,
        at_most: usize,
        header: impl Fn(u64) -> Option<&'a ExtentHeader>,
        mut found: impl FnMut(u64, u32),
    ) {
        // Almost always there is nothing; a look is cheaper than a swap.
        if self.top.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Acquire: sees the links; pairs with the exchange in `give_back`. Every exchange on the way
        // read what the one before it wrote, so this sees them all.
        let mut extent = self.top.swap(0, Ordering::Acquire);
        for _ in 0..at_most {
            let Some(this) = header(extent) else { return };
            let next = this.next.load(Ordering::Relaxed);
            // Acquire: the borrowers are done with the extent; pairs with the addition in `give_back`.
            let loans = this.loans.swap(0, Ordering::Acquire);
            found(extent, loans);
            extent = next;
        }
    }
}
