//! Where delivery is, as plain data of a few hundred bytes.
//!
//! Because the plan answers any position at once, an epoch, a batch number and what identifies the plan
//! is all it takes to go on: a loader that resumes delivers exactly what was not delivered, with any
//! number of workers, any read-ahead and any order of delivery.
//!
//! Uses `plan` alone.
//!
//! # What is counted
//!
//! Batches that were handed out, whether they came as batches or as errors; nothing that was only read
//! ahead. The state after an epoch's last batch is the start of the next epoch, whether or not the
//! iterator was asked once more and said that the epoch is over: no resumed epoch is empty.
//!
//! # An epoch in pieces
//!
//! An epoch is a sequence of *places* that all ranks share. A *segment* is what was left of it
//! ([`Remaining`]) when somebody resumed with other ranks or another batch size; the first segment is
//! the whole epoch. In a segment, position `p` of rank `r` is the `(p * world + r)`-th place that is
//! left. So when each of `w` ranks has delivered `p` samples of a segment, the next segment is the old
//! one without its first `p * w` places, and that is one number, however often it is done.
//!
//! Only two things leave gaps: `ready` order, where a rank delivers positions ahead of slower ones, and
//! ranks that stopped at different steps. Gaps are written as text ([`gaps`]): the length of runs, or a
//! bit per position, whichever is shorter. In `ready` order they lie within `window * batch_size`
//! positions, so a state is below 1 KB up to `window * batch_size = 3,000` or so even in the worst case,
//! and mostly far beyond. States of ranks are joined by [`State::merge`].

mod course;
mod error;
mod fit;
mod gaps;
mod merge;
mod undelivered;

use serde::{Deserialize, Serialize};

use crate::plan::{Boundary, Plan, Remaining};

pub use course::BatchPlace;
pub use error::StateError;

pub(crate) use course::{Course, Positions};
pub(crate) use fit::{Segment, Start};
pub(crate) use undelivered::Undelivered;

/// The version of the layout below.
const VERSION: u32 = 1;
/// The most that is kept of a pipeline's description.
const DESCRIPTION: usize = 160;

/// A position between two batches.
///
/// It can be written with any serde format and names its parts in words, so that people can read it too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    epoch: u64,
    /// Batches of the segment that this rank has delivered.
    batch: u64,
    batch_size: u64,
    rank: u64,
    world_size: u64,
    boundary: Boundary,
    /// Samples in the dataset; 0 where nobody knows.
    samples: u64,
    /// Places in one epoch.
    places: u64,
    seed: u64,
    order: String,
    /// The fingerprint of the order, in hexadecimal.
    plan: String,
    /// The fingerprint of the pipeline, in hexadecimal.
    pipeline: String,
    /// What people call the pipeline.
    stages: String,
    /// How many samples this epoch repeats and leaves out at its end, over all ranks, as things stand.
    repeated: u64,
    dropped: u64,
    /// Where the segment goes on without gaps, and its gaps.
    #[serde(default, skip_serializing_if = "is_zero")]
    start: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    gaps: String,
    /// The same of this rank's positions, where it has not delivered them one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_start: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    own_gaps: String,
    /// What all ranks consumed at a time when the epoch was begun, where its order depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    /// Where the iterator of an iterable dataset was, where it can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iterator: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What identifies the pipeline that a loader loads.
#[derive(Clone, Debug)]
pub(crate) struct PipelineIdentity {
    pub(crate) print: u64,
    pub(crate) stages: String,
}

impl PipelineIdentity {
    /// `recipe` is what identifies it besides its fields; the beginning of it is kept for people.
    pub(crate) fn new(fields: &[impl std::fmt::Debug], recipe: &str) -> PipelineIdentity {
        let mut print = crate::plan::Fingerprint::new(u64::from(VERSION));
        print.text(recipe);
        for field in fields {
            print.text(&format!("{field:?}"));
        }
        let stages = recipe.chars().take(DESCRIPTION).collect();
        PipelineIdentity { print: print.finish(), stages }
    }
}

impl State {
    /// Where a rank is: it has delivered `batch` batches of a segment and `own` is left of its positions.
    pub(crate) fn new(
        plan: &Plan,
        pipeline: &PipelineIdentity,
        segment: &Segment,
        batch: u64,
        own: &Remaining,
        iterator: Option<&str>,
    ) -> State {
        let left = segment.rest.count_below(plan.positions());
        let given = plan.share_rest(&segment.rest).samples.saturating_mul(plan.world());
        let contiguous = own.is_contiguous();
        State {
            version: VERSION,
            epoch: segment.epoch,
            batch,
            batch_size: plan.batch_size(),
            rank: plan.rank(),
            world_size: plan.world(),
            boundary: plan.boundary(),
            samples: if plan.is_unbounded() { 0 } else { plan.dataset_len() },
            places: plan.positions(),
            seed: plan.seed(),
            order: plan.order_name().into(),
            plan: format!("{:016x}", plan.order_fingerprint()),
            pipeline: format!("{:016x}", pipeline.print),
            stages: pipeline.stages.clone(),
            repeated: if plan.is_unbounded() { 0 } else { given.saturating_sub(left) },
            dropped: if plan.is_unbounded() { 0 } else { left.saturating_sub(given) },
            start: segment.rest.start(),
            gaps: gaps::encode(&segment.rest),
            own_start: (!contiguous).then(|| own.start()),
            own_gaps: gaps::encode(own),
            step: segment.step,
            iterator: iterator.map(String::from),
        }
    }

    /// The same where epochs have orders of their own. Before its first batch an epoch may get any, so at
    /// an epoch's start it is a state of `plan`.
    pub(crate) fn in_order_of(&self, plan: &Plan) -> State {
        let mut state = self.clone();
        if (self.batch, self.start) == (0, 0) && self.gaps.is_empty() && self.own_start.is_none() {
            state.plan = format!("{:016x}", plan.order_fingerprint());
        }
        state
    }

    /// The epoch of the next batch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the next batch within its epoch, or within what was left of its epoch when the
    /// loader was resumed with other ranks or another batch size.
    #[must_use]
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// How many samples the current epoch repeats at its end, over all ranks, to give each rank the same
    /// number of them.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// How many samples the current epoch leaves out at its end, over all ranks.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Its parts by name, for those who hand it to other languages. The same as what serde writes.
    #[must_use]
    pub fn parts(&self) -> Vec<(&'static str, StatePart<'_>)> {
        use StatePart::{Number, Text};
        let boundary = match self.boundary {
            Boundary::Drop => "drop",
            Boundary::Pad => "pad",
            Boundary::Keep => "keep",
        };
        let mut parts = vec![
            ("version", Number(u64::from(self.version))),
            ("epoch", Number(self.epoch)),
            ("batch", Number(self.batch)),
            ("batch_size", Number(self.batch_size)),
            ("rank", Number(self.rank)),
            ("world_size", Number(self.world_size)),
            ("boundary", Text(boundary)),
            ("samples", Number(self.samples)),
            ("places", Number(self.places)),
            ("seed", Number(self.seed)),
            ("order", Text(&self.order)),
            ("plan", Text(&self.plan)),
            ("pipeline", Text(&self.pipeline)),
            ("stages", Text(&self.stages)),
            ("repeated", Number(self.repeated)),
            ("dropped", Number(self.dropped)),
        ];
        if self.start > 0 {
            parts.push(("start", Number(self.start)));
        }
        if !self.gaps.is_empty() {
            parts.push(("gaps", Text(&self.gaps)));
        }
        parts.extend(self.own_start.map(|start| ("own_start", Number(start))));
        if !self.own_gaps.is_empty() {
            parts.push(("own_gaps", Text(&self.own_gaps)));
        }
        parts.extend(self.step.map(|step| ("step", Number(step))));
        parts.extend(self.iterator.as_deref().map(|state| ("iterator", Text(state))));
        parts
    }
}

/// One part of a [`State`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StatePart<'a> {
    /// A count or a number.
    Number(u64),
    /// A name, a fingerprint or a list of gaps.
    Text(&'a str),
}
