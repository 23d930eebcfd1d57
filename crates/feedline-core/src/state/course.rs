//! The way that delivery takes: whole epochs of the plan, the first perhaps being the rest of one.

use std::ops::Range;
use std::sync::Arc;

use crate::plan::{EpochPlan, EpochShare, Plan};

use super::{Segment, Start};

/// Which batch of which epoch.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchPlace {
    /// The epoch.
    pub epoch: u64,
    /// Its place among the batches of its epoch, or of what is left of it.
    pub number: u64,
}

/// Which batches come after which. Cheap to clone; whoever needs it has its own, so that nobody has to
/// ask for a lock to know where an epoch ends.
#[derive(Clone)]
pub(crate) struct Course {
    plan: Plan,
    resumed: Option<Arc<Resumed>>,
}

struct Resumed {
    segment: Segment,
    share: EpochShare,
}

impl Course {
    pub(crate) fn new(plan: &Plan, start: &Start) -> Course {
        let resumed = start.segment.clone().map(|segment| {
            let share = plan.share_rest(&segment.rest);
            Arc::new(Resumed { segment, share })
        });
        Course { plan: plan.clone(), resumed }
    }

    /// Whole epochs from the start.
    pub(crate) fn whole(plan: &Plan) -> Course {
        Course { plan: plan.clone(), resumed: None }
    }

    /// Whether it is the same one.
    pub(crate) fn is(&self, other: &Course) -> bool {
        let is_resumed_alike = match (&self.resumed, &other.resumed) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        };
        is_resumed_alike && self.plan.is(&other.plan)
    }

    /// What it is a course through.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn resumed(&self, epoch: u64) -> Option<&Resumed> {
        self.resumed.as_deref().filter(|resumed| resumed.segment.epoch == epoch)
    }

    /// The segment that `epoch` is, if it is not a whole one.
    pub(crate) fn segment(&self, epoch: u64) -> Option<&Segment> {
        self.resumed(epoch).map(|resumed| &resumed.segment)
    }

    fn share(&self, epoch: u64) -> EpochShare {
        let whole = || EpochShare { batches: self.plan.batches(), samples: self.plan.samples() };
        self.resumed(epoch).map_or_else(whole, |resumed| resumed.share)
    }

    /// Whether nobody knows where an epoch ends.
    pub(crate) fn is_unbounded(&self) -> bool {
        self.plan.is_unbounded()
    }

    /// Batches of an epoch.
    pub(crate) fn batches(&self, epoch: u64) -> u64 {
        self.share(epoch).batches
    }

    /// Samples of an epoch.
    pub(crate) fn samples(&self, epoch: u64) -> u64 {
        self.share(epoch).samples
    }

    /// How many positions batch `number` of an epoch has, as a range of them where they are delivered one
    /// after the other.
    pub(crate) fn batch_range(&self, epoch: u64, number: u64) -> Range<u64> {
        self.share(epoch).batch_range(number, self.plan.batch_size())
    }

    /// The positions of batch `number` of an epoch.
    pub(crate) fn positions(&self, epoch: u64, number: u64) -> Positions {
        let range = self.batch_range(epoch, number);
        match self.segment(epoch).filter(|segment| !segment.own.is_contiguous()) {
            None => Positions::From(range.start),
            Some(segment) => {
                let first = segment.next * self.plan.batch_size();
                let turns = range.start.saturating_sub(first)..range.end.saturating_sub(first);
                Positions::Listed(turns.map(|turn| segment.own.nth(turn)).collect())
            }
        }
    }

    /// The arrangement of an epoch.
    pub(crate) fn epoch(&self, epoch: u64) -> EpochPlan {
        match self.segment(epoch) {
            None => self.plan.epoch(epoch),
            Some(segment) => self.plan.rest_of(epoch, segment.rest.clone(), segment.step),
        }
    }

    /// How many batches come between the first and the second.
    pub(crate) fn turns(&self, from: BatchPlace, to: BatchPlace) -> u64 {
        if from.epoch == to.epoch {
            return to.number - from.number;
        }
        let between = (to.epoch - from.epoch - 1) * self.plan.batches();
        self.batches(from.epoch) - from.number + between + to.number
    }
}

/// Which positions of the epoch a batch has.
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
