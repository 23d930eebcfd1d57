//! One epoch of a plan.

use std::fmt;
use std::sync::Arc;

use super::arrangement::Arrangement;
use super::builder::Plan;
use super::{Position, SampleIndex};

/// One epoch of a [`Plan`], ready to answer. Cheap to clone; clones share its tables.
///
/// Every position has an answer: those past `plan.samples()` go on as an epoch padded for ever would.
#[derive(Clone)]
pub struct EpochPlan {
    plan: Plan,
    epoch: u64,
    arrangement: Arc<dyn Arrangement>,
}

impl EpochPlan {
    pub(crate) fn new(plan: Plan, epoch: u64, arrangement: Arc<dyn Arrangement>) -> Self {
        Self { plan, epoch, arrangement }
    }

    /// The plan this is an epoch of.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Which epoch this is.
    pub fn epoch(&self) -> u64 {
        self.epoch
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

    /// Heap bytes of the tables that this epoch owns.
    pub fn table_bytes(&self) -> usize {
        self.arrangement.table_bytes()
    }

    pub(crate) fn arrangement(&self) -> &dyn Arrangement {
        &*self.arrangement
    }

    /// Rank `r`'s position `p` is global position `p * world + r`, so that ranks that have consumed `p`
    /// samples each have together consumed exactly the first `p * world`. Past the end of the order the
    /// global positions start again, which is what padding is.
    #[inline]
    pub(crate) fn place(&self, position: u64) -> u64 {
        let positions = self.plan.positions();
        if position >= self.plan.samples() {
            return (self.global(position) % u128::from(positions)) as u64;
        }
        // Cannot overflow: the plan was refused if its last global position exceeds 64 bits.
        let global = position * self.plan.world() + self.plan.rank();
        if global < positions { global } else { global % positions }
    }

    /// The global position, exact for any argument.
    pub(crate) fn global(&self, position: u64) -> u128 {
        u128::from(position) * u128::from(self.plan.world()) + u128::from(self.plan.rank())
    }
}

impl fmt::Debug for EpochPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochPlan").field("epoch", &self.epoch).field("plan", &self.plan).finish()
    }
}
