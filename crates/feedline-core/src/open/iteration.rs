//! A pass over an iterable dataset: its iterator, how far it is, and what it has given for the next batch.
//!
//! The iterator gives its samples in order, and batches are opened in order; so whoever opens a batch takes its
//! samples. Each batch wants samples by index, in ascending order. Where the dataset gives all ranks the same
//! samples, index `i` is the `i`-th of them, and those of one *round*, one for each rank, are taken together: a round
//! that is not complete is left out by every rank. Where it gives each rank its own, a round is one sample.
//!
//! What lies before the first index that is wanted is taken and dropped: an epoch that is resumed by an iterator that
//! cannot tell where it is, or a batch for which there was no memory.
//!
//! An error takes the place of its sample, and the iterator is asked for the next one; one that panics is not. What
//! fails of another rank's samples is that rank's to tell.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::Panicked;
use crate::flow::BatchId;
use crate::plan::{Boundary, SampleIndex};
use crate::work::{Cause, Dataset, Iterable, Pass, Samples};

/// How an iterable dataset is gone through.
pub(crate) struct Iterating {
    pub(crate) dataset: Arc<dyn Dataset>,
    pub(crate) seed: u64,
    pub(crate) rank: u64,
    pub(crate) world: u64,
    pub(crate) boundary: Boundary,
}

/// A pass that is under way.
pub(super) struct Iteration {
    generation: u64,
    samples: Box<dyn Samples>,
    /// How many were taken from it.
    taken: u64,
    /// Whether it panicked, and is not to be asked again.
    broken: bool,
}

/// What was taken for a batch.
#[derive(Default)]
pub(super) struct TakenSamples {
    /// The bytes of each sample, or why there are none.
    pub(super) samples: Vec<Result<Vec<u8>, Cause>>,
    /// Whether there are no more.
    pub(super) ended: bool,
    /// Where the iterator is then, where it can tell.
    pub(super) iterator: Option<Arc<str>>,
}

/// Which samples of the iterator one index stands for.
#[derive(Copy, Clone)]
struct Round {
    first: u64,
    /// How many there are, and which of them is this rank's.
    width: u64,
    own: u64,
}

impl Iterating {
    /// Takes the samples with these indices, or as many as there are. `pass` is what was under way before; it goes on,
    /// unless this is another generation. `iterator` is where a new one begins, where that is known. Whatever is
    /// taken once `is_stale` is dropped.
    pub(super) fn take(
        &self,
        pass: &mut Option<Iteration>,
        id: BatchId,
        iterator: Option<&str>,
        indices: &[SampleIndex],
        is_stale: impl Fn() -> bool,
    ) -> TakenSamples {
        let mut taken = TakenSamples::default();
        let Some(iterable) = self.dataset.iterable() else { return taken };
        if pass.as_ref().is_none_or(|pass| pass.generation != id.generation) {
            *pass = None;
            let first = indices.first().map_or(0, |index| self.round(iterable, *index).first);
            match caught(|| self.begin(iterable, id, iterator, first)) {
                Ok(begun) => *pass = Some(begun),
                Err(cause) => taken.samples.push(Err(cause)),
            }
        }
        match pass {
            Some(pass) => self.fill(&mut taken, pass, iterable, indices, is_stale),
            None => taken.ended = true,
        }
        // An error is told, in however short a batch.
        let is_short =
            taken.samples.len() < indices.len() && taken.samples.iter().all(Result::is_ok);
        if is_short && self.boundary == Boundary::Drop {
            taken.samples.clear();
        }
        if taken.ended {
            *pass = None;
        }
        taken
    }

    fn fill(
        &self,
        taken: &mut TakenSamples,
        pass: &mut Iteration,
        iterable: &dyn Iterable,
        indices: &[SampleIndex],
        is_stale: impl Fn() -> bool,
    ) {
        for index in indices {
            if is_stale() {
                return;
            }
            match pass.round(self.round(iterable, *index), &is_stale) {
                Some(sample) => taken.samples.push(sample),
                None => {
                    taken.ended = true;
                    return;
                }
            }
        }
        match caught(|| pass.samples.state()) {
            Ok(state) => taken.iterator = state.map(Arc::from),
            // Nobody could go on from here, so this batch cannot be delivered.
            Err(cause) => {
                if let Some(last) = taken.samples.last_mut() {
                    *last = Err(cause);
                }
            }
        }
    }

    /// Begins a pass whose first sample is to be number `first` of it.
    fn begin(
        &self,
        iterable: &dyn Iterable,
        id: BatchId,
        iterator: Option<&str>,
        first: u64,
    ) -> Result<Iteration, Cause> {
        let Iterating { seed, rank, world, .. } = *self;
        let mut samples = iterable.iterate(Pass { seed, epoch: id.epoch, rank, world })?;
        let restored = match iterator {
            Some(state) => samples.restore(state, first)?,
            None => false,
        };
        let taken = if restored { first } else { 0 };
        Ok(Iteration { generation: id.generation, samples, taken, broken: false })
    }

    fn round(&self, iterable: &dyn Iterable, SampleIndex(index): SampleIndex) -> Round {
        let first = index - self.rank;
        match iterable.shares() {
            true => Round { first: first / self.world, width: 1, own: 0 },
            false => Round { first, width: self.world, own: self.rank },
        }
    }
}

impl Iteration {
    /// This rank's sample of a round, or why there is none; `None` if the round is not complete.
    fn round(
        &mut self,
        Round { first, width, own }: Round,
        is_stale: impl Fn() -> bool,
    ) -> Option<Result<Vec<u8>, Cause>> {
        while self.taken < first {
            if is_stale() {
                return None;
            }
            drop(self.next()?);
        }
        let mut sample = None;
        for member in 0..width {
            let next = self.next()?;
            if member == own {
                sample = Some(next);
            }
        }
        sample
    }

    fn next(&mut self) -> Option<Result<Vec<u8>, Cause>> {
        if self.broken {
            return None;
        }
        let mut raw = Vec::new();
        let next = match caught(|| self.samples.next(&mut raw)) {
            Ok(false) => return None,
            Ok(true) => Ok(raw),
            Err(cause) => {
                self.broken = cause.is::<Panicked>();
                Err(cause)
            }
        };
        self.taken += 1;
        Some(next)
    }
}

/// Runs user code; its panic is an error.
fn caught<T>(run: impl FnOnce() -> Result<T, Cause>) -> Result<T, Cause> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(panic) => Err(Panicked::from_payload(&*panic).into()),
    }
}
