//! Some samples of a dataset, in a given order.

use std::sync::Arc;

use feedline_core::{Cause, Dataset, Field, Group, Sample, SampleIndex};

use crate::SourceError;

/// The listed samples of another dataset; one listed twice comes twice.
pub struct Select<D: ?Sized> {
    inner: Arc<D>,
    indices: Vec<u64>,
}

impl<D: Dataset + ?Sized> Select<D> {
    /// Refuses indices that the dataset does not have.
    pub fn new(inner: Arc<D>, indices: Vec<u64>) -> Result<Select<D>, SourceError> {
        let len = inner.len();
        match indices.iter().position(|index| *index >= len) {
            Some(at) => Err(SourceError::NoSuchSample { at, index: indices[at], len }),
            None => Ok(Select { inner, indices }),
        }
    }

    /// The other dataset's index; the engine asks only for indices below `len`.
    fn inside(&self, index: SampleIndex) -> Result<SampleIndex, Cause> {
        let inside = self.indices.get(index.0 as usize).copied().map(SampleIndex);
        inside.ok_or_else(|| format!("there is no sample {}", index.0).into())
    }
}

impl<D: Dataset + ?Sized> Dataset for Select<D> {
    fn len(&self) -> u64 {
        self.indices.len() as u64
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

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.inner.cost_hint(self.inside(index).ok()?)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.inner.origin(self.inside(index).ok()?)
    }
}
