//! A dataset that notes who made which sample when, for pictures of the work.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use feedline_core::{Cause, Dataset, Field, Group, Iterable, Sample, SampleIndex};

use crate::results::Stretch;

thread_local! {
    /// What this thread has loaded and not yet built, and since when it is at it.
    static LOADED: Cell<Option<(SampleIndex, Instant)>> = const { Cell::new(None) };
}

/// Another dataset, watched. It costs two readings of the clock and a short lock for each sample.
///
/// ```
/// use feedline_bench::Traced;
/// use feedline_core::{Cause, DType, Dataset, Field, Loader, Sample};
///
/// struct Numbers;
///
/// impl Dataset for Numbers {
///     fn len(&self) -> u64 {
///         8
///     }
///     fn fields(&self) -> Vec<Field> {
///         vec![Field::fixed("number", DType::U64, [])]
///     }
///     fn build(&self, _: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
///         let number = sample.index().0;
///         Ok(sample.put(0, &[number])?)
///     }
/// }
///
/// let (dataset, notes) = Traced::new(Numbers, 100);
/// let loader = Loader::builder(dataset).batch_size(4).epochs(1).build()?;
/// loader.epoch().for_each(drop);
/// let mut seen: Vec<u64> = notes.take().iter().map(|stretch| stretch.1).collect();
/// seen.sort();
/// assert_eq!(seen, (0..8).collect::<Vec<_>>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Traced<D> {
    inner: D,
    notes: Arc<Notes>,
}

/// What was seen.
#[derive(Debug)]
pub struct Notes {
    origin: Instant,
    most: usize,
    kept: Mutex<TracedSamples>,
}

#[derive(Debug, Default)]
struct TracedSamples {
    threads: Vec<ThreadId>,
    stretches: Vec<Stretch>,
    seen: usize,
}

impl<D: Dataset> Traced<D> {
    /// Watches a dataset, for its first `most` samples. Times count from now.
    pub fn new(inner: D, most: usize) -> (Self, Arc<Notes>) {
        let notes = Arc::new(Notes { origin: Instant::now(), most, kept: Mutex::default() });
        (Self { inner, notes: Arc::clone(&notes) }, notes)
    }
}

impl Notes {
    /// What was seen since the last call. Workers are numbered in the order in which they came.
    pub fn take(&self) -> Vec<Stretch> {
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).stretches)
    }

    /// Notes that this thread made samples from `began` until now, one after the other.
    fn add(&self, samples: &[SampleIndex], began: Instant) {
        let at = |moment: Instant| moment.saturating_duration_since(self.origin).as_secs_f64();
        let (from, to) = (at(began), at(Instant::now()));
        let share = (to - from) / samples.len().max(1) as f64;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let me = thread::current().id();
        let worker = kept.threads.iter().position(|it| *it == me).unwrap_or_else(|| {
            kept.threads.push(me);
            kept.threads.len() - 1
        });
        for (place, sample) in samples.iter().enumerate() {
            if kept.seen >= self.most {
                return;
            }
            kept.seen += 1;
            let begin = from + share * place as f64;
            kept.stretches.push(Stretch(worker as u32, sample.0, begin, begin + share));
        }
    }
}

impl<D: Dataset> Dataset for Traced<D> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.inner.fields()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        LOADED.set(Some((index, Instant::now())));
        self.inner.load(index, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let index = sample.index();
        // With threads of their own for loading, what is seen here is the building.
        let loaded = LOADED.take().filter(|(it, _)| *it == index);
        let began = loaded.map_or_else(Instant::now, |(_, began)| began);
        let built = self.inner.build(raw, sample);
        self.notes.add(&[index], began);
        built
    }

    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let (samples, began) = (group.indices(), Instant::now());
        let is_built = self.inner.build_group(group);
        if is_built {
            self.notes.add(samples, began);
        }
        is_built
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        self.inner.iterable()
    }

    fn look_ahead(&self) -> usize {
        self.inner.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.inner.expect(indices);
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.inner.cost_hint(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.inner.origin(index)
    }
}
