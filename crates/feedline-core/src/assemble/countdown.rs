//! Who finishes a batch: the worker that fills its last slot.

use crate::sync::{AtomicU32, Ordering};

/// Counts the slots of a batch that are not filled yet.
///
/// Each worker writes its slots and then calls [`done`](Countdown::done); exactly one of these calls
/// returns `true`, and what all workers wrote before theirs is visible after it.
#[derive(Debug)]
pub(crate) struct Countdown {
    left: AtomicU32,
}

impl Countdown {
    pub(crate) fn new(slots: u32) -> Countdown {
        Countdown { left: AtomicU32::new(slots) }
    }

    /// `slots` more are filled. Returns whether these were the last.
    pub(crate) fn done(&self, slots: u32) -> bool {
        // Release: publishes this worker's slots. Acquire: the last one sees everybody's. The
        // decrements form one release sequence, so the last one synchronises with all before it.
        let before = self.left.fetch_sub(slots, Ordering::AcqRel);
        debug_assert!(before >= slots, "a slot was filled twice");
        before == slots
    }
}
