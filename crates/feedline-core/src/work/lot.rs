//! The planned samples of one batch, and the pieces of them that workers take.

use std::ops::Range;
use std::sync::Arc;

use crate::assemble::{Draft, countdown::Countdown};
use crate::plan::{Position, SampleIndex};

/// The samples that were planned for one batch.
///
/// In order they fill the lot's own draft, slot by slot. In `ready` order they go into whatever
/// draft is open when they are done, and the lot only says which samples may be worked on.
pub(crate) struct Lot {
    pub(crate) generation: u64,
    /// Its place among the lots of its generation.
    pub(crate) turn: u64,
    pub(crate) epoch: u64,
    pub(crate) indices: Vec<SampleIndex>,
    pub(crate) positions: Positions,
    pub(crate) draft: Option<Arc<Draft>>,
    /// Samples not done yet; counted in `ready` order only, where it moves the window.
    pub(crate) countdown: Countdown,
}

/// Which positions of the epoch a lot has.
pub(crate) enum Positions {
    /// Consecutive ones from here on.
    From(u64),
    /// These: what an earlier run left behind, or the order in which it delivered them.
    Listed(Vec<u64>),
}

impl Positions {
    /// The positions, if they are not just consecutive.
    pub(crate) fn listed(&self) -> Vec<u64> {
        match self {
            Positions::From(_) => Vec::new(),
            Positions::Listed(positions) => positions.clone(),
        }
    }
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
    /// Which substitute to make; 0 for the planned sample itself.
    pub(crate) attempt: u32,
}
