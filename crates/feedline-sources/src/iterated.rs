//! The order of samples that come one after the other: some of them left out, or shuffled in a buffer.

use std::sync::Arc;

use feedline_core::plan::Stream;
use feedline_core::{Cause, Dataset, Field, Iterable, Pass, Sample, SampleIndex, Samples};

/// What becomes of the samples of a pass, whatever is done to each of them later.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassChange {
    /// Only the first so many.
    Take(u64),
    /// All but the first so many.
    Skip(u64),
    /// Each is drawn from the next so many that are left, which wait in memory: the way of `tf.data` and WebDataset.
    /// It depends on the loader's seed and the epoch alone.
    Shuffle(usize),
}

/// An iterable dataset whose passes are changed, one change after the other.
///
/// Iterators tell where they are through [`PassChange::Take`] and [`PassChange::Skip`]. What waits in the buffer of a
/// [`PassChange::Shuffle`] is no part of a state: a loader that resumes goes through the epoch again from its start, to
/// the same place. The buffer is not part of the loader's byte budget.
pub struct Iterated<D: ?Sized> {
    changes: Vec<PassChange>,
    inner: Arc<D>,
}

impl<D: Dataset + ?Sized> Iterated<D> {
    /// Changes the passes of an iterable dataset; of another one there are none.
    pub fn new(inner: Arc<D>, changes: Vec<PassChange>) -> Iterated<D> {
        Iterated { changes, inner }
    }
}

impl<D: Dataset + ?Sized> Dataset for Iterated<D> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.inner.fields()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.inner.load(index, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        self.inner.build(raw, sample)
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        self.inner.iterable().map(|_| self as &dyn Iterable)
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.inner.cost_hint(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.inner.origin(index)
    }
}

impl<D: Dataset + ?Sized> Iterable for Iterated<D> {
    fn iterate(&self, pass: Pass) -> Result<Box<dyn Samples>, Cause> {
        let inner = self.inner.iterable().ok_or("the dataset is not iterable")?;
        let mut samples = inner.iterate(pass)?;
        for (number, change) in self.changes.iter().enumerate() {
            samples = match *change {
                PassChange::Take(left) => Box::new(Take { inner: samples, left }),
                PassChange::Skip(count) => Box::new(Skip { inner: samples, count, skipped: false }),
                PassChange::Shuffle(size) => {
                    let rank = if inner.shares() { pass.rank } else { 0 };
                    let draws = Stream::of_pass(pass.seed, pass.epoch, rank, number as u64);
                    let waiting = AfterBuffer::More;
                    Box::new(ShuffleBuffer {
                        inner: samples,
                        size: size.max(1),
                        held: Vec::new(),
                        waiting,
                        draws,
                    })
                }
            };
        }
        Ok(samples)
    }

    fn shares(&self) -> bool {
        self.inner.iterable().is_some_and(Iterable::shares)
    }
}

struct Take {
    inner: Box<dyn Samples>,
    left: u64,
}

impl Samples for Take {
    fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
        self.left = left;
        self.inner.next(raw)
    }

    fn state(&mut self) -> Result<Option<String>, Cause> {
        self.inner.state()
    }

    fn restore(&mut self, state: &str, samples: u64) -> Result<bool, Cause> {
        let restored = self.inner.restore(state, samples)?;
        if restored {
            self.left = self.left.saturating_sub(samples);
        }
        Ok(restored)
    }
}

struct Skip {
    inner: Box<dyn Samples>,
    count: u64,
    skipped: bool,
}

impl Samples for Skip {
    fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
        if !std::mem::replace(&mut self.skipped, true) {
            for _ in 0..self.count {
                let there = self.inner.next(raw)?;
                raw.clear();
                if !there {
                    return Ok(false);
                }
            }
        }
        self.inner.next(raw)
    }

    fn state(&mut self) -> Result<Option<String>, Cause> {
        self.inner.state()
    }

    fn restore(&mut self, state: &str, samples: u64) -> Result<bool, Cause> {
        self.skipped = self.inner.restore(state, samples.saturating_add(self.count))?;
        Ok(self.skipped)
    }
}

/// A shuffle buffer.
struct ShuffleBuffer {
    inner: Box<dyn Samples>,
    size: usize,
    held: Vec<Vec<u8>>,
    waiting: AfterBuffer,
    draws: Stream,
}

/// What comes when the buffer is empty.
enum AfterBuffer {
    More,
    End,
    Failure(Cause),
}

impl ShuffleBuffer {
    fn fill(&mut self) {
        while self.held.len() < self.size && matches!(self.waiting, AfterBuffer::More) {
            let mut raw = Vec::new();
            match self.inner.next(&mut raw) {
                Ok(true) => self.held.push(raw),
                Ok(false) => self.waiting = AfterBuffer::End,
                // What came before it is delivered before it.
                Err(cause) => self.waiting = AfterBuffer::Failure(cause),
            }
        }
    }
}

impl Samples for ShuffleBuffer {
    fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
        self.fill();
        if self.held.is_empty() {
            return match std::mem::replace(&mut self.waiting, AfterBuffer::End) {
                AfterBuffer::Failure(cause) => {
                    self.waiting = AfterBuffer::More;
                    Err(cause)
                }
                AfterBuffer::More | AfterBuffer::End => Ok(false),
            };
        }
        let drawn = self.draws.below(self.held.len() as u64) as usize;
        *raw = self.held.swap_remove(drawn);
        Ok(true)
    }
}
