//! A sample outside of any batch: for datasets that make their samples of another's.

use crate::assemble::{Field, FieldError, Parcel, SampleView, Schema};
use crate::plan::SampleIndex;

use super::dataset::{Cause, Dataset, Sample, SampleKey};
use super::stage::{Stage, StageWatch};

/// A place to make a single sample in, reused from sample to sample.
///
/// A dataset that changes what another one delivers (a map, a cache) makes the inner sample here,
/// reads it, and writes its own.
///
/// ```
/// use feedline_core::{Cause, DType, Dataset, Field, Sample, SampleIndex, SampleKey, Scratch};
///
/// struct Squares;
/// impl Dataset for Squares {
///     fn len(&self) -> u64 { 10 }
///     fn fields(&self) -> Vec<Field> { vec![Field::fixed("square", DType::U64, [])] }
///     fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
///         let i = sample.index().0;
///         Ok(sample.put(0, &[i * i])?)
///     }
/// }
///
/// let mut scratch = Scratch::new(Squares.fields())?;
/// let index = SampleIndex(3);
/// let nine = scratch.read(&Squares, index, SampleKey::new(0, 0, index))?;
/// assert_eq!(nine.get::<u64>(0), Some(&[9][..]));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct Scratch {
    schema: Schema,
    parcel: Parcel,
    raw: Vec<u8>,
}

impl Scratch {
    /// A place for samples of these fields.
    pub fn new(fields: Vec<Field>) -> Result<Scratch, FieldError> {
        let schema = Schema::new(fields)?;
        let mut parcel = Parcel::default();
        parcel.reset(schema.record_bytes(), schema.variable(), schema.fields().len());
        Ok(Scratch { schema, parcel, raw: Vec::new() })
    }

    /// Loads and builds sample `index` of `dataset`, whose fields these are. `key` is what its
    /// randomness depends on: [`Sample::key`] of the sample it is made for.
    pub fn read(
        &mut self,
        dataset: &dyn Dataset,
        index: SampleIndex,
        key: SampleKey,
    ) -> Result<SampleView<'_>, Cause> {
        let mut raw = std::mem::take(&mut self.raw);
        raw.clear();
        let built = dataset
            .load(index, &mut raw)
            .and_then(|()| self.build(dataset, index, &raw, key).map(|_| ()));
        self.raw = raw;
        built?;
        Ok(SampleView { schema: &self.schema, parcel: &self.parcel })
    }

    /// Builds sample `index` of `dataset` of bytes that were loaded already.
    pub fn build(
        &mut self,
        dataset: &dyn Dataset,
        index: SampleIndex,
        raw: &[u8],
        key: SampleKey,
    ) -> Result<SampleView<'_>, Cause> {
        let fields = 0..self.schema.fields().len();
        self.write(key, |sample| sample.part(index, fields, |sample| dataset.build(raw, sample)))
    }

    /// Makes a sample by a function that writes its fields.
    pub fn write(
        &mut self,
        key: SampleKey,
        write: impl FnOnce(&mut Sample<'_>) -> Result<(), Cause>,
    ) -> Result<SampleView<'_>, Cause> {
        let watch = StageWatch::start(false, None);
        let mut sample = Sample::new(key, &self.schema, None, (&mut self.parcel, None), watch);
        sample.begin(Stage::Decode);
        write(&mut sample)?;
        sample.check_complete()?;
        Ok(SampleView { schema: &self.schema, parcel: &self.parcel })
    }

    /// The sample that was made last; zeros and nothing before the first.
    #[must_use]
    pub fn view(&self) -> SampleView<'_> {
        SampleView { schema: &self.schema, parcel: &self.parcel }
    }

    /// Frees what is large, when the sample that was made last is not needed any more: a place that waits for its next use
    /// should not keep the memory of the largest sample there has been.
    pub fn shrink(&mut self) {
        self.parcel.shrink();
        if self.raw.capacity() >= crate::assemble::LARGE {
            self.raw = Vec::new();
        }
    }

    /// The fields.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        self.schema.fields()
    }
}
