//! The order in which an epoch was delivered, to be replayed by a later run.

use serde::{Deserialize, Serialize};

/// The delivered order of one epoch in `ready` order.
///
/// Give it to [`LoaderBuilder::replay`](crate::LoaderBuilder::replay) of a loader with the same plan
/// and the epoch is delivered again, batch by batch, bit by bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLog {
    epoch: u64,
    plan: u64,
    positions: Vec<u64>,
}

impl OrderLog {
    pub(crate) fn new(epoch: u64, plan: u64, positions: Vec<u64>) -> OrderLog {
        OrderLog { epoch, plan, positions }
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The fingerprint of the plan whose positions these are.
    #[must_use]
    pub fn plan(&self) -> u64 {
        self.plan
    }

    /// The planned positions in the order of their delivery.
    #[must_use]
    pub fn positions(&self) -> &[u64] {
        &self.positions
    }

    /// Whether it has every position of an epoch of `samples` exactly once.
    pub(crate) fn is_complete(&self, samples: u64) -> bool {
        let mut seen = vec![false; usize::try_from(samples).unwrap_or(0)];
        self.positions.len() as u64 == samples
            && self.positions.iter().all(|p| {
                let seen = usize::try_from(*p).ok().and_then(|p| seen.get_mut(p));
                seen.is_some_and(|seen| !std::mem::replace(seen, true))
            })
    }
}
