//! From a state to where a loader begins, if the two fit.

use std::sync::Arc;

use crate::plan::{Plan, Remaining};

use super::error::StateError;
use super::merge::gather;
use super::{PipelineIdentity, State, VERSION, gaps};

/// Epochs beyond this are damage: counting on from there could overflow.
const LAST_EPOCH: u64 = 1 << 62;

/// What is left of one epoch, for one rank.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) epoch: u64,
    /// The places that were left, for all ranks, when the segment began.
    pub(crate) rest: Remaining,
    /// What all ranks consumed at a time when the epoch was begun, where its order depends on it.
    pub(crate) step: Option<u64>,
    /// The batch of the segment that is next, and this rank's positions that are left then.
    pub(crate) next: u64,
    pub(crate) own: Remaining,
}

impl Segment {
    /// A whole epoch.
    pub(crate) fn whole(plan: &Plan, epoch: u64) -> Segment {
        let (rest, own) = (Remaining::default(), Remaining::default());
        Segment { epoch, rest, step: plan.step(), next: 0, own }
    }
}

/// Where a loader begins.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    /// Set where the epoch is not simply continued at `number`.
    pub(crate) segment: Option<Segment>,
    /// Where the iterator of an iterable dataset was then, where it can tell.
    pub(crate) iterator: Option<Arc<str>>,
}

impl Start {
    pub(crate) fn at(epoch: u64, number: u64) -> Start {
        Start { epoch, number, segment: None, iterator: None }
    }
}

impl State {
    /// Where a loader with this plan and pipeline goes on. With `forced`, what it was taken with does
    /// not matter.
    pub(crate) fn fit(
        &self,
        plan: &Plan,
        pipeline: &PipelineIdentity,
        forced: bool,
    ) -> Result<Start, StateError> {
        self.check_version()?;
        if let Some(what) = self.difference(plan, pipeline).filter(|_| !forced) {
            return Err(StateError::Differs { what });
        }
        let start = self.placed(plan, forced)?;
        let iterator = self.iterator.as_deref().filter(|_| start.epoch == self.epoch);
        Ok(Start { iterator: iterator.map(Arc::from), ..start })
    }

    /// Where in the epoch that is.
    fn placed(&self, plan: &Plan, forced: bool) -> Result<Start, StateError> {
        let (rest, own) = self.remains()?;
        let same_step = plan.batch_size() == self.batch_size
            && plan.boundary() == self.boundary
            && plan.world() == self.world_size;
        if same_step && (own.is_contiguous() || self.rank == plan.rank()) {
            return self.continued(plan, rest, own, forced);
        }
        if !own.is_contiguous() && self.world_size > 1 {
            return Err(StateError::OneRankOnly { rank: self.rank, world: self.world_size });
        }
        if self.batch == 0 && rest == Remaining::default() {
            return Ok(Start::at(self.epoch, 0));
        }
        // All ranks are where this one is, and what they have left is dealt out anew.
        let all = if own.is_contiguous() {
            own.start().checked_mul(self.world_size).map(|turns| rest.skip(turns))
        } else {
            gather(&rest, plan.positions(), 1, &[own]).ok()
        };
        let rest = all.ok_or_else(|| damaged("it counts more samples than there can be"))?;
        if plan.share_rest(&rest).batches == 0 {
            return Ok(Start::at(self.epoch + 1, 0));
        }
        let (epoch, own) = (self.epoch, Remaining::default());
        let segment = Segment { epoch, rest, step: self.step, next: 0, own };
        Ok(Start { segment: Some(segment), ..Start::at(epoch, 0) })
    }

    /// Refuses to go on where no iterator can: it gives its samples in order, and where it gives each rank its own,
    /// none of another's.
    pub(crate) fn check_iterable(
        &self,
        plan: &Plan,
        start: &Start,
        shares: bool,
    ) -> Result<(), StateError> {
        let in_order =
            |segment: &Segment| segment.rest.is_contiguous() && segment.own.is_contiguous();
        if !start.segment.as_ref().is_none_or(in_order) {
            let what = "their ranks were at different steps, and an iterator goes on at one";
            return Err(StateError::Unmergeable { what: what.into() });
        }
        let (then, now) = ((self.rank, self.world_size), (plan.rank(), plan.world()));
        if shares && then != now && start.number + self.batch > 0 {
            let what = format!(
                "it was rank {} of {} and is rank {} of {}, of samples that their iterator gives to each rank",
                then.0, then.1, now.0, now.1,
            );
            return Err(StateError::Differs { what });
        }
        Ok(())
    }

    /// The same ranks and batches: the segment goes on where it was.
    fn continued(
        &self,
        plan: &Plan,
        rest: Remaining,
        own: Remaining,
        forced: bool,
    ) -> Result<Start, StateError> {
        let batches = plan.share_rest(&rest).batches;
        if self.batch >= batches && (forced || self.batch == 0) {
            return Ok(Start::at(self.epoch + 1, 0));
        }
        if self.batch >= batches {
            return Err(damaged(&format!(
                "it points at batch {} of an epoch of {batches}",
                self.batch
            )));
        }
        let whole = rest == Remaining::default() && own.is_contiguous() && self.step == plan.step();
        let (epoch, next) = (self.epoch, self.batch);
        let segment = Segment { epoch, rest, step: self.step, next, own };
        Ok(Start { segment: (!whole).then_some(segment), ..Start::at(epoch, next) })
    }

    pub(super) fn check_version(&self) -> Result<(), StateError> {
        match self.version {
            VERSION => Ok(()),
            got => Err(StateError::Version { got, known: VERSION }),
        }
    }

    /// What is left of the epoch for all ranks, and which of its positions this rank has left.
    pub(super) fn remains(&self) -> Result<(Remaining, Remaining), StateError> {
        if self.epoch >= LAST_EPOCH || self.world_size == 0 || self.batch_size == 0 {
            return Err(damaged("a number is impossible"));
        }
        let rest =
            gaps::decode(self.start, &self.gaps).ok_or_else(|| damaged("`gaps` cannot be read"))?;
        let done = self.batch.checked_mul(self.batch_size);
        let own = match (self.own_start, done) {
            (_, None) => None,
            (None, Some(done)) => Some(Remaining::from(done)),
            (Some(start), Some(done)) => {
                gaps::decode(start, &self.own_gaps).filter(|own| own.done() == done)
            }
        };
        let own = own.ok_or_else(|| damaged("`own_gaps` do not agree with `batch`"))?;
        Ok((rest, own))
    }

    /// What differs in a way that makes the state worthless, in words.
    fn difference(&self, plan: &Plan, pipeline: &PipelineIdentity) -> Option<String> {
        let mut differences = Vec::new();
        let mut compare =
            |what: &str, then: &dyn std::fmt::Display, now: &dyn std::fmt::Display| {
                let (then, now) = (then.to_string(), now.to_string());
                if then != now {
                    differences.push(format!("{what} was {then} and is {now}"));
                }
            };
        let samples = |n: u64| if n == 0 { "unknown".into() } else { n.to_string() };
        let now = if plan.is_unbounded() { 0 } else { plan.dataset_len() };
        compare("the number of samples", &samples(self.samples), &samples(now));
        compare("the seed", &self.seed, &plan.seed());
        compare("the order", &self.order, &plan.order_name());
        let print = format!("{:016x}", plan.order_fingerprint());
        if differences.is_empty() && self.plan != print {
            differences.push(format!("the order's {} differ", plan.order_tables()));
        }
        if self.pipeline != format!("{:016x}", pipeline.print) {
            differences.push(match self.stages == pipeline.stages {
                true => "the pipeline's fields or settings differ".into(),
                false => {
                    format!("the pipeline was `{}` and is `{}`", self.stages, pipeline.stages)
                }
            });
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

pub(super) fn damaged(what: &str) -> StateError {
    StateError::Damaged { what: what.into() }
}
