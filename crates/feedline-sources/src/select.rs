//! Some samples of a dataset, in a given order.

use std::sync::Arc;

use feedline_core::{Cause, Dataset, Field, Group, Sample, SampleIndex};

use crate::{ChosenWindows, SourceError};

/// Samples of another dataset: those that are listed, or equally spaced ones, or all of them several
/// times. One that comes twice draws its own random numbers each time, as these depend on the index that
/// the loader asked for.
pub struct Select<D: ?Sized> {
    inner: Arc<D>,
    choice: Choice,
}

/// Which samples.
#[derive(Clone)]
enum Choice {
    Listed(Arc<[u64]>),
    /// `first`, `first + step`, …; all of them are there.
    Spaced {
        first: u64,
        step: i64,
        count: u64,
    },
    /// All `of` samples, then all again.
    Repeated {
        of: u64,
        count: u64,
    },
}

impl<D: Dataset + ?Sized> Select<D> {
    /// The listed samples. Refuses indices that the dataset does not have.
    pub fn new(inner: Arc<D>, indices: impl Into<Arc<[u64]>>) -> Result<Select<D>, SourceError> {
        let (len, indices) = (inner.len(), indices.into());
        match indices.iter().position(|index| *index >= len) {
            Some(at) => Err(SourceError::NoSuchSample { at, index: indices[at], len }),
            None => Ok(Select { inner, choice: Choice::Listed(indices) }),
        }
    }

    /// `count` samples from `first` on, each `step` behind the one before it (or before it, if that is
    /// negative). Takes no memory, however many there are.
    pub fn spaced(
        inner: Arc<D>,
        first: u64,
        step: i64,
        count: u64,
    ) -> Result<Select<D>, SourceError> {
        let len = inner.len();
        let place = |n: u64| i128::from(first) + i128::from(step) * i128::from(n);
        for at in [0, count.saturating_sub(1)] {
            if count > 0 && !(0..i128::from(len)).contains(&place(at)) {
                let index = u64::try_from(place(at)).unwrap_or(u64::MAX);
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                return Err(SourceError::NoSuchSample { at, index, len });
            }
        }
        Ok(Select { inner, choice: Choice::Spaced { first, step, count } })
    }

    /// All samples, `times` times over.
    pub fn repeated(inner: Arc<D>, times: u64) -> Result<Select<D>, SourceError> {
        let of = inner.len();
        let count = of.checked_mul(times).ok_or(SourceError::TooManySamples)?;
        Ok(Select { inner, choice: Choice::Repeated { of, count } })
    }

    /// How these samples are shuffled if the other dataset's are by shards and windows.
    #[must_use]
    pub fn windows(&self, shards: &[u64], window: u64) -> ChosenWindows {
        match &self.choice {
            Choice::Listed(listed) => ChosenWindows::of_listed(listed, shards, window),
            Choice::Spaced { first, step, count } => {
                ChosenWindows::of_spaced((*first, *step, *count), shards, window)
            }
            Choice::Repeated { of, count } => {
                let times = usize::try_from(count.checked_div(*of).unwrap_or(0));
                ChosenWindows::Windows(shards.repeat(times.unwrap_or(0)), window)
            }
        }
    }

    /// The other dataset's index; the engine asks only for indices below `len`.
    fn inside(&self, index: SampleIndex) -> Result<SampleIndex, Cause> {
        let n = index.0;
        let inside = match &self.choice {
            Choice::Listed(indices) => {
                usize::try_from(n).ok().and_then(|n| indices.get(n).copied())
            }
            Choice::Spaced { first, step, count } => {
                (n < *count).then(|| first.wrapping_add_signed(step.wrapping_mul(n.cast_signed())))
            }
            Choice::Repeated { of, count } => (n < *count).then(|| n % of),
        };
        inside.map(SampleIndex).ok_or_else(|| format!("there is no sample {n}").into())
    }
}

impl<D: Dataset + ?Sized> Dataset for Select<D> {
    fn len(&self) -> u64 {
        match &self.choice {
            Choice::Listed(indices) => indices.len() as u64,
            Choice::Spaced { count, .. } | Choice::Repeated { count, .. } => *count,
        }
    }

    fn fields(&self) -> Vec<Field> {
        self.inner.fields()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.inner.load(self.inside(index)?, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let inside = self.inside(sample.index())?;
        sample.part(inside, 0..usize::MAX, |sample| self.inner.build(raw, sample))
    }

    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let inside: Result<Vec<_>, _> = group.indices().iter().map(|i| self.inside(*i)).collect();
        let Ok(inside) = inside else { return false };
        group.part(&inside, 0..usize::MAX, |group| self.inner.build_group(group))
    }

    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let inner = self.inner.only(fields)?;
        Some(Arc::new(Select { inner, choice: self.choice.clone() }))
    }

    fn look_ahead(&self) -> usize {
        self.inner.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        let inside: Vec<_> = indices.iter().filter_map(|i| self.inside(*i).ok()).collect();
        self.inner.expect(&inside);
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.inner.cost_hint(self.inside(index).ok()?)
    }

    fn known_length(&self, index: SampleIndex, field: usize) -> Option<u64> {
        self.inner.known_length(self.inside(index).ok()?, field)
    }

    fn read_part(
        &self,
        index: SampleIndex,
        field: usize,
        start: u64,
        out: &mut [u8],
    ) -> Result<bool, Cause> {
        self.inner.read_part(self.inside(index)?, field, start, out)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.inner.origin(self.inside(index).ok()?)
    }
}
