//! Datasets whose samples come one after the other, and nobody knows how many.

use super::dataset::Cause;

/// What makes the samples of a dataset that knows neither their number nor how to make them in any order: a
/// stream, a generator, a query. A [`Dataset`](crate::Dataset) has one by its
/// [`iterable`](crate::Dataset::iterable).
///
/// Each epoch is one pass over an iterator. Its samples are taken one by one, by one thread at a time, in order;
/// what is done to them after that ([`build`](crate::Dataset::build)) is done by all workers. Batches are the
/// same whatever the number of workers; the last one may be short.
///
/// ```
/// use feedline_core::{Cause, DType, Dataset, Field, Iterable, Loader, Pass, Sample, Samples};
///
/// /// The Collatz sequence: who knows when it ends?
/// struct Collatz(u64);
///
/// impl Dataset for Collatz {
///     fn len(&self) -> u64 {
///         0
///     }
///     fn fields(&self) -> Vec<Field> {
///         vec![Field::fixed("n", DType::U64, [])]
///     }
///     fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
///         Ok(sample.put_bytes(0, raw)?)
///     }
///     fn iterable(&self) -> Option<&dyn Iterable> {
///         Some(self)
///     }
/// }
///
/// impl Iterable for Collatz {
///     fn iterate(&self, _pass: Pass) -> Result<Box<dyn Samples>, Cause> {
///         let step = |n: &u64| match n {
///             1 => None,
///             n if n.is_multiple_of(2) => Some(n / 2),
///             n => Some(3 * n + 1),
///         };
///         Ok(Box::new(Numbers(std::iter::successors(Some(self.0), step))))
///     }
/// }
///
/// struct Numbers<I>(I);
///
/// impl<I: Iterator<Item = u64> + Send> Samples for Numbers<I> {
///     fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
///         let next = self.0.next();
///         raw.extend(next.iter().flat_map(|n| n.to_ne_bytes()));
///         Ok(next.is_some())
///     }
/// }
///
/// let loader = Loader::builder(Collatz(6)).batch_size(4).workers(2).build()?;
/// let mut batches = Vec::new();
/// for batch in loader.epoch() {
///     batches.push(batch?.get("n").unwrap().as_slice::<u64>()?.to_vec());
/// }
/// assert_eq!(batches, [vec![6, 3, 10, 5], vec![16, 8, 4, 2], vec![1]]);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub trait Iterable: Send + Sync {
    /// Begins a pass. Called when an epoch is begun, and again when one is resumed.
    fn iterate(&self, pass: Pass) -> Result<Box<dyn Samples>, Cause>;

    /// Whether [`iterate`](Iterable::iterate) gives each rank samples of its own.
    ///
    /// If not (the default), it gives all ranks the same samples, and each takes its share: of every `world`
    /// consecutive ones the one at its rank. What is left at the end and has not one for each rank is left out, so
    /// all ranks have equally many. Where it does, that is up to the dataset.
    fn shares(&self) -> bool {
        false
    }
}

/// Which pass over an [`Iterable`] is begun.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pass {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// Which of the processes that share the work this is.
    pub rank: u64,
    /// How many there are.
    pub world: u64,
}

/// One pass over an [`Iterable`].
pub trait Samples: Send {
    /// Appends the next sample's bytes to `raw`, which is empty: what [`Dataset::build`](crate::Dataset::build)
    /// gets. `false` if there is none any more, after which it is not called again. An error is that of the sample whose
    /// place it takes; then the next one is asked for.
    fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause>;

    /// Where it is, as text that [`restore`](Samples::restore) understands. `None` (the default) where it
    /// cannot tell: a loader that resumes then takes as many samples as were delivered, and drops them.
    ///
    /// Asked for after each batch, and part of the state that is taken when that batch was the last one delivered.
    fn state(&mut self) -> Result<Option<String>, Cause> {
        Ok(None)
    }

    /// Goes on where a state was taken, which was after so many samples. Called before the first sample is taken.
    /// `false` (the default) where it cannot.
    fn restore(&mut self, state: &str, samples: u64) -> Result<bool, Cause> {
        let _ = (state, samples);
        Ok(false)
    }
}
