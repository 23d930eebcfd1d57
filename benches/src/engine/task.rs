//! Samples that cost something, made by the engine or by bare threads.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use feedline_bench::{BoxError, Digest, OrderedDigest, Outcome, Run};
use feedline_core::{
    Batch, Cause, DType, Dataset, Field, Loader, LoaderBuilder, Sample, SampleIndex,
};

/// What makes sample `index`: one number, after some time.
pub(crate) trait Task: Send + Sync + 'static {
    /// How many samples there are.
    fn len(&self) -> u64;

    /// Makes one.
    fn make(&self, index: u64) -> u64;

    /// What it costs, in a unit of the task's own, where that is known beforehand.
    fn cost(&self, index: u64) -> Option<u64> {
        let _ = index;
        None
    }
}

/// Samples that sleep, each for its own time.
pub(crate) struct Naps(pub(crate) Vec<Duration>);

impl Task for Naps {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn make(&self, index: u64) -> u64 {
        std::thread::sleep(self.0[index as usize]);
        index
    }
}

struct Tasks<T>(Arc<T>);

impl<T: Task> Dataset for Tasks<T> {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("value", DType::U64, [])]
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let value = self.0.make(sample.index().0);
        Ok(sample.put(0, &[value])?)
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.0.cost(index.0)
    }
}

/// A loader of the task's samples.
pub(crate) fn task_loader<T: Task>(task: &Arc<T>) -> LoaderBuilder {
    Loader::builder(Tasks(Arc::clone(task)))
}

/// A loader that stops after one epoch, as bare threads do.
pub(crate) fn one_epoch<T: Task>(task: &Arc<T>) -> LoaderBuilder {
    task_loader(task).epochs(1)
}

/// The values of a batch.
pub(crate) fn values(batch: &Batch) -> Result<&[u64], BoxError> {
    let array = batch.get("value").ok_or("the batch has no array `value`")?;
    Ok(array.as_slice::<u64>()?)
}

/// Takes one epoch from a loader as fast as it comes.
pub(crate) fn drained(run: &mut Run<'_>, loader: &Loader) -> Result<Outcome, BoxError> {
    let mut all = Vec::with_capacity(loader.plan().samples() as usize);
    run.start()?;
    for batch in loader.epoch() {
        all.extend_from_slice(values(&batch?)?);
    }
    run.stop()?;
    Ok(Outcome::items(all.len() as u64).digest(digest(&all)))
}

/// Makes each share of the samples in a bare thread of its own. Together the shares must hold every
/// sample once.
pub(crate) fn bare<T: Task>(
    run: &mut Run<'_>,
    task: &T,
    shares: &[Vec<u64>],
) -> Result<Outcome, BoxError> {
    // The engine's threads exist before the clock starts, so these do too.
    let gate = Barrier::new(shares.len() + 1);
    let mut all = vec![0; task.len() as usize];
    let (started, made) = std::thread::scope(|scope| {
        let work = |share: &[u64]| -> Vec<u64> {
            gate.wait();
            share.iter().map(|index| task.make(*index)).collect()
        };
        let threads: Vec<_> = shares.iter().map(|share| scope.spawn(move || work(share))).collect();
        let started = run.start();
        gate.wait();
        let made: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (started, made)
    });
    run.stop()?;
    started?;
    for (share, made) in shares.iter().zip(made) {
        let made = made.map_err(|_| "a bare thread panicked")?;
        share.iter().zip(made).for_each(|(index, value)| all[*index as usize] = value);
    }
    Ok(Outcome::items(all.len() as u64).digest(digest(&all)))
}

/// Samples `0..n` dealt out to `threads` in turn.
pub(crate) fn dealt(n: u64, threads: u64) -> Vec<Vec<u64>> {
    (0..threads).map(|thread| (thread..n).step_by(threads as usize).collect()).collect()
}

/// Samples dealt out so that all shares cost the same as nearly as can be: dearest first, each to the
/// share that has least so far.
pub(crate) fn balanced<T: Task>(task: &T, threads: usize) -> Vec<Vec<u64>> {
    let cost = |index: &u64| task.cost(*index).unwrap_or(1);
    let mut order: Vec<u64> = (0..task.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(cost(index)));
    let mut shares = vec![(0, Vec::new()); threads];
    for index in order {
        if let Some(share) = shares.iter_mut().min_by_key(|share| share.0) {
            share.0 += cost(&index);
            share.1.push(index);
        }
    }
    shares.into_iter().map(|share| share.1).collect()
}

fn digest(values: &[u64]) -> Digest {
    let mut digest = OrderedDigest::new();
    values.iter().for_each(|value| digest.update(&value.to_le_bytes()));
    digest.finish()
}
