//! A plan's batches and states without a loader, for those who make the samples themselves.

use crate::assemble::Field;
use crate::plan::{Plan, Position, Remaining, SampleIndex};
use crate::state::{
    BatchPlace, Course, PipelineIdentity, Positions, Segment, Start, State, StateError,
};

/// Which samples come in which batch, epoch by epoch, from where a state was taken or from the start.
///
/// ```
/// use feedline_core::{BatchPlace, BatchSampler, Plan, SampleIndex};
///
/// let plan = |batch| Plan::builder(10).batch_size(batch).build().unwrap();
/// let mut sampler = BatchSampler::new(plan(4), "numbers");
/// assert_eq!(sampler.batch(0, 1), [4, 5, 6, 7].map(SampleIndex));
/// let state = sampler.state(0, 1);
///
/// let mut resumed = BatchSampler::new(plan(3), "numbers");
/// assert_eq!(resumed.resume(&state, false)?, BatchPlace { epoch: 0, number: 0 });
/// assert_eq!((resumed.batches(0), resumed.batches(1)), (2, 4));
/// assert_eq!(resumed.batch(0, 0), [4, 5, 6].map(SampleIndex));
/// # Ok::<(), feedline_core::StateError>(())
/// ```
pub struct BatchSampler {
    plan: Plan,
    pipeline: PipelineIdentity,
    course: Course,
}

impl BatchSampler {
    /// `recipe` is what identifies the samples; see [`LoaderBuilder::recipe`](crate::LoaderBuilder::recipe).
    #[must_use]
    pub fn new(plan: Plan, recipe: &str) -> BatchSampler {
        let pipeline = PipelineIdentity::new(&[] as &[Field], recipe);
        let course = Course::whole(&plan);
        BatchSampler { plan, pipeline, course }
    }

    /// Goes on where a state was taken. Returns which batch comes next.
    ///
    /// # Errors
    ///
    /// If it does not fit; see [`Loader::load_state`](crate::Loader::load_state).
    pub fn resume(&mut self, state: &State, forced: bool) -> Result<BatchPlace, StateError> {
        let start: Start = state.fit(&self.plan, &self.pipeline, forced)?;
        self.course = Course::new(&self.plan, &start);
        Ok(BatchPlace { epoch: start.epoch, number: start.number })
    }

    /// Batches of an epoch, or of what is left of it.
    #[must_use]
    pub fn batches(&self, epoch: u64) -> u64 {
        self.course.batches(epoch)
    }

    /// The samples of some batches of an epoch, one after the other.
    #[must_use]
    pub fn samples(&self, epoch: u64, batches: std::ops::Range<u64>) -> Vec<SampleIndex> {
        let plan = self.course.epoch(epoch);
        let mut samples = Vec::new();
        for number in batches {
            match self.course.positions(epoch, number) {
                Positions::From(first) => {
                    let range = self.course.batch_range(epoch, number);
                    let start = samples.len();
                    samples.resize(start + (range.end - range.start) as usize, SampleIndex(0));
                    plan.fill(Position(first), &mut samples[start..]);
                }
                Positions::Listed(positions) => {
                    samples.extend(positions.into_iter().map(|p| plan.index(Position(p))));
                }
            }
        }
        samples
    }

    /// The samples of one batch.
    #[must_use]
    pub fn batch(&self, epoch: u64, number: u64) -> Vec<SampleIndex> {
        self.samples(epoch, number..number + 1)
    }

    /// The state when `number` batches of `epoch` have been delivered, one after the other.
    #[must_use]
    pub fn state(&self, epoch: u64, number: u64) -> State {
        if number >= self.batches(epoch) {
            return self.state(epoch + 1, 0);
        }
        let whole;
        let segment = match self.course.segment(epoch) {
            Some(segment) => segment,
            None => {
                whole = Segment::whole(&self.plan, epoch);
                &whole
            }
        };
        let own = match segment.own.is_contiguous() {
            true => Remaining::from(self.course.batch_range(epoch, number).start),
            false => segment.own.skip((number - segment.next) * self.plan.batch_size()),
        };
        State::new(&self.plan, &self.pipeline, segment, number, &own, None)
    }
}
