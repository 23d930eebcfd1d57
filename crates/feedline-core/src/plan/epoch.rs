//! One epoch of a plan, or what is left of one.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::arrangement::Arrangement;
use super::boundary::EpochShare;
use super::builder::Plan;
use super::remaining::Remaining;
use super::{Position, SampleIndex};

/// One epoch of a [`Plan`], ready to answer. Cheap to clone; clones share its tables.
///
/// Every position has an answer: those past `samples()` go on as an epoch padded for ever would.
#[derive(Clone)]
pub struct EpochPlan {
    plan: Plan,
    epoch: u64,
    arrangement: Arc<dyn Arrangement>,
    /// The places that are still to come; all of them unless the epoch is resumed.
    rest: Remaining,
    /// How many those are.
    count: u64,
    share: EpochShare,
}

impl EpochPlan {
    pub(crate) fn new(
        plan: Plan,
        epoch: u64,
        arrangement: Arc<dyn Arrangement>,
        rest: Remaining,
        share: EpochShare,
    ) -> Self {
        let count = rest.count_below(plan.positions());
        Self { plan, epoch, arrangement, rest, count, share }
    }

    /// The plan this is an epoch of.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Which epoch this is.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Batches of this rank; the same on every rank.
    pub fn batches(&self) -> u64 {
        self.share.batches
    }

    /// Positions of this rank, padding included; the same on every rank.
    pub fn samples(&self) -> u64 {
        self.share.samples
    }

    /// The positions of one batch; empty past the last batch.
    pub fn batch_range(&self, batch: u64) -> Range<u64> {
        self.share.batch_range(batch, self.plan.batch_size())
    }

    /// The sample at one position.
    #[inline]
    pub fn index(&self, position: Position) -> SampleIndex {
        self.arrangement.at(self.place(position.0))
    }

    /// The samples at positions `start..start + out.len()`: what `index` gives one by one, faster.
    pub fn fill(&self, start: Position, out: &mut [SampleIndex]) {
        for (slot, i) in out.iter_mut().zip(0..) {
            slot.0 = self.place(start.0.saturating_add(i));
        }
        self.arrangement.map(out);
    }

    /// Whether a sample may come more than once in this epoch, padding aside.
    pub(crate) fn repeats(&self) -> bool {
        self.arrangement.repeats()
    }

    /// What tells the sample at this position from others of the epoch that are the same sample; see
    /// [`SampleKey`](crate::SampleKey). Padding is made as what it repeats.
    pub(crate) fn repeat(&self, position: Position) -> u64 {
        self.arrangement.repeat(self.place(position.0))
    }

    /// Heap bytes of the tables that this epoch owns.
    pub fn table_bytes(&self) -> usize {
        self.arrangement.table_bytes()
    }

    pub(crate) fn arrangement(&self) -> &dyn Arrangement {
        &*self.arrangement
    }

    /// Rank `r`'s position `p` is the `p * world + r`-th place that is still to come, so that ranks that
    /// have consumed `p` samples each have together consumed exactly the first `p * world`. Past the end
    /// the epoch starts again, which is what padding is.
    #[inline]
    pub(crate) fn place(&self, position: u64) -> u64 {
        if position < self.samples() {
            // Cannot overflow: the plan was refused if its last global position exceeds 64 bits.
            let turn = position * self.plan.world() + self.plan.rank();
            if turn < self.count {
                return self.rest.nth(turn);
            }
        }
        (self.global(position) % u128::from(self.plan.positions())) as u64
    }

    /// The place, counted on past the end of the epoch where it is padded; exact for any argument.
    pub(crate) fn global(&self, position: u64) -> u128 {
        let turn =
            u128::from(position) * u128::from(self.plan.world()) + u128::from(self.plan.rank());
        match turn.checked_sub(u128::from(self.count)) {
            None => u128::from(self.rest.nth(turn as u64)),
            Some(beyond) => u128::from(self.plan.positions()) + beyond,
        }
    }
}

impl fmt::Debug for EpochPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochPlan")
            .field("epoch", &self.epoch)
            .field("rest", &self.rest)
            .field("plan", &self.plan)
            .finish()
    }
}
