//! The order in which an epoch was delivered, to be replayed by a later run.

use serde::{Deserialize, Serialize};

use crate::plan::Remaining;
use crate::state::{Start, StateError};

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

    /// Whether a loader may go on at `start` by this log: what was delivered of the epoch is what the log
    /// has first.
    pub(crate) fn check_start(&self, start: &Start, batch_size: u64) -> Result<(), StateError> {
        if start.epoch != self.epoch {
            return Ok(());
        }
        let (rest, own) = match &start.segment {
            Some(segment) => (segment.rest.clone(), segment.own.clone()),
            None => (Remaining::default(), Remaining::from(start.number * batch_size)),
        };
        let done = usize::try_from(own.done()).unwrap_or(usize::MAX);
        let is_left = |p: &u64| own.count_below(p.saturating_add(1)) > own.count_below(*p);
        let first = self.positions.get(..done);
        let fits = first.is_some_and(|first| !first.iter().any(is_left));
        if fits && rest == Remaining::default() {
            return Ok(());
        }
        let what = format!("the order log of epoch {} delivers other samples first", self.epoch);
        Err(StateError::Differs { what })
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
