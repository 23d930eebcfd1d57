//! What a user of the engine implements: a dataset, and the sample it writes.

use std::sync::Arc;

use crate::assemble::{
    DType, Element, Field, FieldKey, FieldPlace, Form, Parcel, Pool, Ragged, Schema, SlotRows,
};

use crate::plan::{SampleIndex, Stream};

use super::group::Group;
use super::iterable::Iterable;
use super::stage::{Stage, StageWatch};

/// Why user code could not make a sample.
pub type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A collection of samples that can be made in any order, from any thread.
///
/// ```
/// use feedline_core::{Cause, DType, Dataset, Field, Sample};
///
/// struct Squares;
///
/// impl Dataset for Squares {
///     fn len(&self) -> u64 {
///         1000
///     }
///     fn fields(&self) -> Vec<Field> {
///         vec![Field::fixed("square", DType::U64, [])]
///     }
///     fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
///         let i = sample.index().0;
///         sample.put(0, &[i * i])?;
///         Ok(())
///     }
/// }
/// # let loader = feedline_core::Loader::builder(Squares).batch_size(10).build().unwrap();
/// # let batch = loader.epoch().next().unwrap().unwrap();
/// # assert_eq!(batch.get("square").unwrap().as_slice::<u64>().unwrap()[9], 81);
/// ```
pub trait Dataset: Send + Sync + 'static {
    /// How many samples there are; 0 where nobody knows and they are [`iterable`](Dataset::iterable).
    fn len(&self) -> u64;

    /// What each sample consists of.
    fn fields(&self) -> Vec<Field>;

    /// Stage *load*: fetches the sample's bytes into `raw`, which is empty and reused.
    ///
    /// Datasets whose samples are in memory leave it out. What is read here, and not in
    /// [`build`](Dataset::build), can be read by threads of their own
    /// ([`io_workers`](crate::LoaderBuilder::io_workers)).
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let _ = (index, raw);
        Ok(())
    }

    /// Stages *decode* and *transform*: writes every field of the sample.
    ///
    /// It starts in stage decode; call [`Sample::begin`] where transforming starts.
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause>;

    /// Writes several samples at once, and returns whether it did.
    ///
    /// For datasets in memory whose samples cost next to nothing: a loop over rows is several times
    /// faster than a call for each. It is tried for groups of samples whose fields are all fixed, and
    /// `load` is not called for them. After `false` (the default; also the answer where anything is
    /// amiss) the samples are made one by one, and one that cannot be made says why.
    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let _ = group;
        false
    }

    /// The same samples with some of the fields, given by number in the order that is wanted, where
    /// those cost less than whole samples: labels without decoding pictures. `None` (the default) where
    /// nothing is gained. It is not asked for all fields in their order: that is the dataset itself.
    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let _ = fields;
        None
    }

    /// Told that these samples are made next, one after the other: a dataset in memory may begin to fetch them, so that
    /// the processor need not wait for each. Datasets that make a sample of several of another's tell that one; what it
    /// does changes nothing but time.
    fn prefetch(&self, indices: &mut dyn Iterator<Item = SampleIndex>) {
        let _ = indices;
    }

    /// How many samples before they are made it wants to [expect](Dataset::expect) them: as many as it can fetch at a
    /// time. 0 (the default) where samples are at hand.
    fn look_ahead(&self) -> usize {
        0
    }

    /// Told that these samples are wanted soon, in this order: a dataset that is far away may begin to fetch them. Nothing
    /// but time may depend on it: samples may be asked for that were not told of, and the other way round. It must
    /// return at once, for batches are not opened meanwhile.
    fn expect(&self, indices: &[SampleIndex]) {
        let _ = indices;
    }

    /// A number proportional to the sample's cost, such as its file's size. Policies that order by
    /// cost use it until they have measured the sample.
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        let _ = index;
        None
    }

    /// How long a field of varying length is in a sample, along its first axis, where that is known without making the
    /// sample; of text its bytes. Whoever sorts samples by length or packs them asks for it.
    fn known_length(&self, index: SampleIndex, field: usize) -> Option<u64> {
        let _ = (index, field);
        None
    }

    /// Writes values of a field of varying length into `out`, as many as fill it, from value `start` on, where that takes less
    /// than making the sample. `false` (the default): nothing was written, make the sample. Whoever packs sequences asks for it.
    fn read_part(
        &self,
        index: SampleIndex,
        field: usize,
        start: u64,
        out: &mut [u8],
    ) -> Result<bool, Cause> {
        let _ = (index, field, start, out);
        Ok(false)
    }

    /// Where the sample comes from, for messages: a path, a shard and member, a row.
    fn origin(&self, index: SampleIndex) -> Option<String> {
        let _ = index;
        None
    }

    /// Set where samples come one after the other, and nobody knows how many: what they are taken from. The
    /// engine then asks neither [`len`](Dataset::len) nor [`load`](Dataset::load), and there is no order but that of
    /// the samples. A dataset that changes the samples of another one passes its answer on.
    fn iterable(&self) -> Option<&dyn Iterable> {
        None
    }

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0 && self.iterable().is_none()
    }
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    fn len(&self) -> u64 {
        (**self).len()
    }
    fn fields(&self) -> Vec<Field> {
        (**self).fields()
    }
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        (**self).load(index, raw)
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        (**self).build(raw, sample)
    }
    fn build_group(&self, group: &mut Group<'_>) -> bool {
        (**self).build_group(group)
    }
    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        (**self).only(fields)
    }
    fn prefetch(&self, indices: &mut dyn Iterator<Item = SampleIndex>) {
        (**self).prefetch(indices);
    }
    fn look_ahead(&self) -> usize {
        (**self).look_ahead()
    }
    fn expect(&self, indices: &[SampleIndex]) {
        (**self).expect(indices);
    }
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        (**self).cost_hint(index)
    }
    fn known_length(&self, index: SampleIndex, field: usize) -> Option<u64> {
        (**self).known_length(index, field)
    }
    fn read_part(
        &self,
        index: SampleIndex,
        field: usize,
        start: u64,
        out: &mut [u8],
    ) -> Result<bool, Cause> {
        (**self).read_part(index, field, start, out)
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        (**self).origin(index)
    }
    fn iterable(&self) -> Option<&dyn Iterable> {
        (**self).iterable()
    }
}

/// What a sample's randomness depends on, and nothing else.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct SampleKey {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch it is wanted for.
    pub epoch: u64,
    /// The index that the loader asked for, however datasets are nested.
    pub index: SampleIndex,
    /// Which time it comes in its epoch, where an order may give a sample more than once: 0, or a number that nothing
    /// else in the epoch has, on whichever rank. Drawn by weight, with replacement: its place among all draws of the
    /// epoch, counted from 1. In a list: 0 for its first entry, otherwise the entry's place, counted from 1.
    pub repeat: u64,
}

impl SampleKey {
    /// The key of a sample that comes once in its epoch.
    #[must_use]
    pub fn new(seed: u64, epoch: u64, index: SampleIndex) -> SampleKey {
        SampleKey { seed, epoch, index, repeat: 0 }
    }

    /// The random stream with this name.
    #[must_use]
    pub fn stream(&self) -> Stream {
        match self.repeat {
            0 => Stream::new(self.seed, self.epoch, self.index.0),
            repeat => Stream::of_repeat(self.seed, self.epoch, repeat),
        }
    }
}

/// The sample being made: what it is, and where its fields are written.
pub struct Sample<'a> {
    index: SampleIndex,
    key: SampleKey,
    /// The fields this dataset writes: a range of the loader's, where datasets are joined.
    first: usize,
    count: usize,
    schema: &'a Schema,
    rows: Option<SlotRows<'a>>,
    parcel: &'a mut Parcel,
    /// What makes room for large values, if they count towards a loader's budget.
    pool: Option<&'a Pool>,
    watch: StageWatch<'a>,
}

/// Why a field of a sample could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No such field.
    #[error("there is no field {field}; the dataset declares {count}")]
    NoSuchField {
        /// The number or name asked for.
        field: String,
        /// How many there are.
        count: usize,
    },
    /// The values' type is not the field's.
    #[error(
        "field `{field}` has dtype {expected}, got values of {got}; convert them or declare {got}"
    )]
    DType {
        /// The field's name.
        field: String,
        /// Its dtype.
        expected: DType,
        /// The values' dtype.
        got: DType,
    },
    /// The value's shape does not fit the field's.
    #[error(
        "field `{field}` has shape {expected}, got {got}; make the shapes equal or declare the field ragged"
    )]
    Shape {
        /// The field's name.
        field: String,
        /// The declared shape.
        expected: String,
        /// The value's shape.
        got: String,
    },
    /// Text that is not UTF-8.
    #[error(
        "field `{field}` is text, but its value is not UTF-8 (at byte {at}); declare it with `Field::bytes`"
    )]
    NotUtf8 {
        /// The field's name.
        field: String,
        /// How many bytes of it are valid.
        at: usize,
    },
    /// In-place writing of a field whose length is not known beforehand.
    #[error(
        "field `{field}` has no fixed shape, so it has no slot to view; use `put_shaped` or `put_bytes`"
    )]
    NoSlot {
        /// The field's name.
        field: String,
    },
    /// A field was left out.
    #[error("field `{field}` was not written; every sample must write every field")]
    Missing {
        /// The field's name.
        field: String,
    },
}

impl<'a> Sample<'a> {
    pub(crate) fn new(
        key: SampleKey,
        schema: &'a Schema,
        rows: Option<SlotRows<'a>>,
        (parcel, pool): (&'a mut Parcel, Option<&'a Pool>),
        watch: StageWatch<'a>,
    ) -> Sample<'a> {
        let record = if rows.is_some() { 0 } else { schema.record_bytes() };
        parcel.reset(record, schema.variable(), schema.fields().len());
        let count = schema.fields().len();
        Sample { index: key.index, key, first: 0, count, schema, rows, parcel, pool, watch }
    }

    /// Lets another dataset write a part of this sample: its sample `index` into `fields`.
    ///
    /// For datasets made of datasets. The other one sees its own index and its own fields, numbered
    /// from 0; randomness stays keyed by the index the loader asked for.
    pub fn part<R>(
        &mut self,
        index: SampleIndex,
        fields: std::ops::Range<usize>,
        work: impl FnOnce(&mut Sample<'_>) -> R,
    ) -> R {
        let whole = (self.index, self.first, self.count);
        self.index = index;
        self.first += fields.start.min(self.count);
        self.count = fields.len().min(self.count - fields.start.min(self.count));
        let result = work(self);
        (self.index, self.first, self.count) = whole;
        result
    }

    /// Which sample of the dataset is wanted.
    #[must_use]
    pub fn index(&self) -> SampleIndex {
        self.index
    }

    /// What this sample's randomness depends on.
    #[must_use]
    pub fn key(&self) -> SampleKey {
        self.key
    }

    /// The epoch it is wanted for.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.key.epoch
    }

    /// A random stream of this sample's own: the same for one seed, epoch and sample, whichever
    /// worker asks. Each time that a sample comes in one epoch has another.
    #[must_use]
    pub fn rng(&self) -> Stream {
        self.key.stream()
    }

    /// Says that `stage` starts now; its time is measured apart.
    pub fn begin(&mut self, stage: Stage) {
        self.watch.begin(stage);
    }

    /// Writes all values of a field: exactly as many as a fixed shape has, or any number for a
    /// field with a single, varying axis.
    pub fn put<T: Element>(
        &mut self,
        field: impl FieldKey,
        values: &[T],
    ) -> Result<(), WriteError> {
        let field = self.find(field)?;
        let declared = self.field(field);
        match declared.form() {
            Form::Fixed { .. } if !T::is(declared.dtype()) => {
                Err(self.wrong_dtype(field, T::DTYPE))
            }
            Form::Fixed { .. } => {
                let bytes: &[u8] = bytemuck::cast_slice(values);
                let slot = self.slot(field, bytes.len(), None);
                if slot.len() != bytes.len() {
                    return Err(self.wrong_shape(field, &[values.len()]));
                }
                slot.copy_from_slice(bytes);
                Ok(())
            }
            _ => self.put_shaped(field, &[values.len()], values),
        }
    }

    /// Writes a value of the given shape, its elements in row-major order.
    pub fn put_shaped<T: Element>(
        &mut self,
        field: impl FieldKey,
        shape: &[usize],
        values: &[T],
    ) -> Result<(), WriteError> {
        let field = self.find(field)?;
        let declared = self.field(field);
        if !T::is(declared.dtype()) {
            return Err(self.wrong_dtype(field, T::DTYPE));
        }
        self.put_elements(field, shape, bytemuck::cast_slice(values))
    }

    /// Writes a value of the given shape, its elements as bytes in native order.
    pub fn put_elements(
        &mut self,
        field: impl FieldKey,
        shape: &[usize],
        bytes: &[u8],
    ) -> Result<(), WriteError> {
        let field = self.find(field)?;
        if self.bytes_of(field, shape) != Some(bytes.len()) {
            return Err(self.wrong_shape(field, shape));
        }
        if let Form::Bytes { text: true } = self.field(field).form() {
            self.check_text(field, bytes)?;
        }
        self.slot(field, bytes.len(), Some(shape)).copy_from_slice(bytes);
        Ok(())
    }

    /// The place of a value of the given shape, to be written in place: [`view`](Sample::view) for values whose length
    /// is known only when they are made. What it holds before is unspecified. Text has none, as it is checked.
    pub fn view_shaped<T: Element>(
        &mut self,
        field: impl FieldKey,
        shape: &[usize],
    ) -> Result<&mut [T], WriteError> {
        let field = self.find(field)?;
        if !T::is(self.field(field).dtype()) {
            return Err(self.wrong_dtype(field, T::DTYPE));
        }
        Ok(bytemuck::cast_slice_mut(self.view_elements(field, shape)?))
    }

    /// The same as bytes of elements in native order, whatever their type.
    pub fn view_elements(
        &mut self,
        field: impl FieldKey,
        shape: &[usize],
    ) -> Result<&mut [u8], WriteError> {
        let field = self.find(field)?;
        let declared = self.field(field);
        if let Form::Bytes { text: true } = declared.form() {
            return Err(WriteError::NoSlot { field: declared.name().to_string() });
        }
        match self.bytes_of(field, shape) {
            Some(bytes) => Ok(self.slot(field, bytes, Some(shape))),
            None => Err(self.wrong_shape(field, shape)),
        }
    }

    /// How many bytes a value of this shape has, if it is one that the field may have.
    fn bytes_of(&self, field: usize, shape: &[usize]) -> Option<usize> {
        let declared = self.field(field);
        let fits = match declared.form() {
            Form::Fixed { shape: expected } => expected == shape,
            Form::Ragged { shape: expected, rule } => {
                expected.len() == shape.len()
                    && expected.iter().zip(shape).all(|(e, s)| e.is_none_or(|e| e == *s))
                    && rule.admits(shape)
            }
            Form::Bytes { .. } => shape.len() == 1,
        };
        let size = declared.dtype().size();
        shape.iter().try_fold(size, |n, axis| n.checked_mul(*axis)).filter(|_| fits)
    }

    /// Writes raw bytes: to a field of bytes or text, or the elements of a fixed field in native
    /// byte order.
    pub fn put_bytes(&mut self, field: impl FieldKey, bytes: &[u8]) -> Result<(), WriteError> {
        let field = self.find(field)?;
        let declared = self.field(field);
        match declared.form() {
            Form::Bytes { text } => {
                if *text {
                    self.check_text(field, bytes)?;
                }
                self.slot(field, bytes.len(), Some(&[bytes.len()])).copy_from_slice(bytes);
            }
            Form::Fixed { .. } => {
                let slot = self.slot(field, bytes.len(), None);
                if slot.len() != bytes.len() {
                    return Err(self.wrong_shape(field, &[bytes.len()]));
                }
                slot.copy_from_slice(bytes);
            }
            Form::Ragged { .. } => {
                return Err(self.wrong_dtype(field, DType::U8));
            }
        }
        Ok(())
    }

    /// The slot of a fixed field, to be written in place. What it holds before is unspecified.
    pub fn view<T: Element>(&mut self, field: impl FieldKey) -> Result<&mut [T], WriteError> {
        let field = self.find(field)?;
        if !T::is(self.field(field).dtype()) {
            return Err(self.wrong_dtype(field, T::DTYPE));
        }
        self.view_bytes(field).map(bytemuck::cast_slice_mut)
    }

    /// The slot of a fixed field as bytes.
    pub fn view_bytes(&mut self, field: impl FieldKey) -> Result<&mut [u8], WriteError> {
        let field = self.find(field)?;
        let declared = self.field(field);
        match self.place(field) {
            FieldPlace::Row { bytes, .. } => Ok(self.slot(field, bytes, None)),
            FieldPlace::Loose { .. } => {
                Err(WriteError::NoSlot { field: declared.name().to_string() })
            }
        }
    }

    /// Counts a value that the dataset has padded itself: how many of its `places` hold values. The share of padding is in
    /// the loader's statistics; that of ragged fields is counted by the engine.
    pub fn count_padding(&self, values: usize, places: usize) {
        if let Some(pool) = self.pool {
            pool.count_padding(values as u64, places as u64);
        }
    }

    /// What the values of varying length take that were written so far.
    #[must_use]
    pub fn loose_bytes(&self) -> usize {
        self.parcel.parts.iter().map(|part| part.data.bytes().len()).sum()
    }

    /// The place of `field`'s value, `len` bytes long, marked as written.
    fn slot(&mut self, field: usize, len: usize, shape: Option<&[usize]>) -> &mut [u8] {
        self.parcel.written[self.first + field] = true;
        match self.place(field) {
            FieldPlace::Row { bytes, offset } => match &mut self.rows {
                Some(rows) => rows.row(self.first + field),
                None => &mut self.parcel.record.bytes_mut()[offset..offset + bytes],
            },
            FieldPlace::Loose { part } => {
                let part = &mut self.parcel.parts[part];
                part.begin(len, shape.unwrap_or(&[]), self.pool);
                part.data.bytes_mut()
            }
        }
    }

    /// The number of a field among those that this dataset writes.
    fn find(&self, field: impl FieldKey) -> Result<usize, WriteError> {
        let fields = &self.schema.fields()[self.first..self.first + self.count];
        let unknown = || WriteError::NoSuchField { field: field.describe(), count: self.count };
        field.find(fields).ok_or_else(unknown)
    }

    fn field(&self, field: usize) -> &'a Field {
        &self.schema.fields()[self.first + field]
    }

    fn place(&self, field: usize) -> FieldPlace {
        self.schema.place(self.first + field)
    }

    fn wrong_dtype(&self, field: usize, got: DType) -> WriteError {
        let field = &self.schema.fields()[self.first + field];
        WriteError::DType { field: field.name().to_string(), expected: field.dtype(), got }
    }

    fn wrong_shape(&self, field: usize, got: &[usize]) -> WriteError {
        let field = &self.schema.fields()[self.first + field];
        let expected = match field.form() {
            Form::Fixed { shape } => format!("{shape:?}"),
            Form::Ragged { rule: Ragged::PadTo { shape, .. }, .. } => format!("at most {shape:?}"),
            Form::Ragged { shape, .. } => {
                let axes = shape.iter().map(|s| s.map_or("*".to_string(), |s| s.to_string()));
                format!("[{}]", axes.collect::<Vec<_>>().join(", "))
            }
            Form::Bytes { .. } => "[*]".to_string(),
        };
        WriteError::Shape { field: field.name().to_string(), expected, got: format!("{got:?}") }
    }

    fn check_text(&self, field: usize, bytes: &[u8]) -> Result<(), WriteError> {
        std::str::from_utf8(bytes).map(|_| ()).map_err(|e| WriteError::NotUtf8 {
            field: self.schema.fields()[self.first + field].name().to_string(),
            at: e.valid_up_to(),
        })
    }

    /// Refuses a sample with a field left out: its slot would still hold an older sample's value.
    pub(crate) fn check_complete(&self) -> Result<(), WriteError> {
        match self.parcel.written.iter().position(|written| !written) {
            None => Ok(()),
            Some(field) => {
                Err(WriteError::Missing { field: self.schema.fields()[field].name().to_string() })
            }
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        self.watch.current()
    }

    pub(crate) fn stop_watch(self) -> [u64; 3] {
        self.watch.stop()
    }
}
