//! Changing a batch as a whole, once its samples are in place.
//!
//! Unlike [`Collate`](super::Collate), which sees samples that are kept aside, this works on the arrays
//! where they are: workers still write straight into the batch, and the one that filled the last slot
//! changes it before it is finished.

use std::sync::Arc;

use crate::error::Error;
use crate::plan::Stream;
use crate::work::{Cause, SampleKey};

use super::batch::Array;
use super::collate::BatchWriter;
use super::dtype::Element;
use super::pool::Pool;

/// Changes batches as a whole: mixes their samples, say.
pub trait Alter: Send + Sync + 'static {
    /// Changes the batch's arrays.
    fn alter(&self, batch: &mut Assembled<'_>) -> Result<(), Cause>;

    /// Whether it is called for batches without samples, too, of which all were skipped.
    fn takes_empty(&self) -> bool {
        false
    }
}

impl<A: Alter + ?Sized> Alter for Arc<A> {
    fn alter(&self, batch: &mut Assembled<'_>) -> Result<(), Cause> {
        (**self).alter(batch)
    }
    fn takes_empty(&self) -> bool {
        (**self).takes_empty()
    }
}

/// A batch whose samples are in place.
pub struct Assembled<'a> {
    pub(crate) arrays: &'a mut Vec<Array>,
    pub(crate) rows: usize,
    pub(crate) key: SampleKey,
    pub(crate) stream: Stream,
    pub(crate) pool: &'a Arc<Pool>,
}

impl Assembled<'_> {
    /// How many samples it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// A random stream of the batch's own: the same for one seed, epoch and first sample, whichever worker
    /// asks.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// What the batch's randomness depends on: the seed, the epoch and its first sample.
    #[must_use]
    pub fn key(&self) -> SampleKey {
        self.key
    }

    /// Its arrays, in the order of the fields.
    #[must_use]
    pub fn arrays(&mut self) -> &mut [Array] {
        self.arrays
    }

    /// Puts a new array in the place of another; `write` gets the old one and the new one's elements, which
    /// are unspecified before.
    pub fn replace<T: Element>(
        &mut self,
        place: usize,
        shape: &[usize],
        write: impl FnOnce(&Array, &mut [T]) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let old = self.arrays.get(place).ok_or("there is no such array")?;
        let mut writer = BatchWriter::new(self.pool);
        let elements = writer.array::<T>(old.name(), shape).map_err(|e: Error| Cause::from(e))?;
        write(old, elements)?;
        self.arrays.splice(place..=place, writer.into_arrays());
        Ok(())
    }

    /// Puts new arrays in the place of all: as many, of such names, types and shapes as `write` makes of
    /// the old ones. After an error the batch has none.
    pub fn remake(
        &mut self,
        write: impl FnOnce(Vec<Array>, &mut BatchWriter<'_>) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let mut writer = BatchWriter::new(self.pool);
        write(std::mem::take(self.arrays), &mut writer)?;
        *self.arrays = writer.into_arrays();
        Ok(())
    }
}
