//! The planned samples of one batch, and the pieces of them that workers take.

use std::ops::Range;
use std::sync::Arc;

use crate::assemble::Draft;
use crate::error::SampleError;
use crate::flow::BatchId;
use crate::plan::{Position, SampleIndex};
use crate::state::Positions;

use super::pulled::Pulled;

/// The samples that were planned for one batch.
///
/// In order they fill the lot's own draft, slot by slot. In `ready` order they go into whatever
/// draft is open when they are done, and the lot only says which samples may be worked on.
pub(crate) struct Lot {
    pub(crate) id: BatchId,
    pub(crate) indices: Vec<SampleIndex>,
    /// Which time each comes; empty where no sample comes twice. See [`SampleKey`](super::SampleKey).
    pub(crate) repeats: Vec<u64>,
    pub(crate) positions: Positions,
    pub(crate) draft: Option<Arc<Draft>>,
    /// Of an iterable dataset: the bytes that were taken for each slot.
    pub(crate) pulled: Option<Pulled>,
}

impl Lot {
    pub(crate) fn position(&self, slot: u32) -> Position {
        Position(match &self.positions {
            Positions::From(first) => first + u64::from(slot),
            Positions::Listed(positions) => positions[slot as usize],
        })
    }
}

/// A piece of a lot: what a job carries.
pub(crate) struct Work {
    pub(crate) lot: Arc<Lot>,
    pub(crate) slots: Range<u32>,
    pub(crate) attempt: Attempt,
}

/// Which sample is made for a slot.
#[derive(Clone, Default)]
pub(crate) struct Attempt {
    /// Which substitute; 0 for the planned sample itself.
    pub(crate) number: u32,
    /// Why the planned sample itself could not be made, from the first substitute on.
    pub(crate) failed: Option<SampleError>,
}

impl Attempt {
    /// The next substitute, after this one failed too.
    pub(crate) fn next(self, error: SampleError) -> Attempt {
        Attempt { number: self.number + 1, failed: Some(self.failed.unwrap_or(error)) }
    }
}
