//! Text to ids, and sequences truncated and padded.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use feedline_core::{
    Cause, DType, Dataset, Field, Form, Iterable, Ragged, Sample, SampleIndex, SampleView, Scratch,
    Stage,
};
use feedline_text::Encode;

use crate::sync::lock;

/// Which length sequences are padded to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PadLength {
    /// The longest of the batch, rounded up to a multiple of this; 1 for the longest itself.
    LongestOf(usize),
    /// This one; a longer sequence is an error of its sample.
    Exactly(usize),
}

/// How sequences are padded.
#[derive(Clone, Debug, PartialEq)]
pub struct SequencePadding {
    /// To which length.
    pub to: PadLength,
    /// Whether the padding comes in front.
    pub left: bool,
    /// With what, converted to the field's dtype.
    pub fill: f64,
    /// Whether a mask tells which places hold values: the field `<name>_mask`.
    pub mask: bool,
}

impl Default for SequencePadding {
    /// Zeros behind the values, to the longest of the batch.
    fn default() -> SequencePadding {
        SequencePadding { to: PadLength::LongestOf(1), left: false, fill: 0.0, mask: false }
    }
}

/// What is done to the sequences of a field.
#[derive(Clone)]
pub struct SequenceOptions {
    /// What makes ids of text; without it the field holds sequences already.
    pub encoder: Option<Arc<dyn Encode>>,
    /// The dtype of ids: [`DType::I64`] or [`DType::I32`].
    pub dtype: DType,
    /// Longer sequences are cut.
    pub max_length: Option<usize>,
    /// Whether cutting keeps the end.
    pub keep_end: bool,
    /// Without it batches have the sequences one behind the other, with offsets.
    pub padding: Option<SequencePadding>,
}

impl SequenceOptions {
    /// Ids of text as `int64`, neither cut nor padded.
    #[must_use]
    pub fn of(encoder: Arc<dyn Encode>) -> SequenceOptions {
        SequenceOptions { encoder: Some(encoder), ..SequenceOptions::default() }
    }
}

impl Default for SequenceOptions {
    /// Nothing is done.
    fn default() -> SequenceOptions {
        let (encoder, max_length, padding) = (None, None, None);
        SequenceOptions { encoder, dtype: DType::I64, max_length, keep_end: false, padding }
    }
}

/// Why a field holds no sequences, or cannot be padded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SequenceError {
    /// No such field.
    #[error("there is no field {field}; there are {count}")]
    NoField {
        /// The number asked for.
        field: usize,
        /// How many there are.
        count: usize,
    },
    /// Ids of something else than text.
    #[error("field `{field}` is no text, so there is nothing to make tokens of")]
    NotText {
        /// The field's name.
        field: String,
    },
    /// Something else than one axis of varying length.
    #[error(
        "field `{field}` holds no sequences: its values must have one axis of varying length; make tokens of text first"
    )]
    NotASequence {
        /// The field's name.
        field: String,
    },
    /// A dtype that ids cannot have.
    #[error("ids are int64 or int32, not {dtype}")]
    IdType {
        /// What was asked for.
        dtype: DType,
    },
    /// A length that means nothing.
    #[error("sequences are padded to at least 1, got {to}")]
    NoLength {
        /// What was asked for.
        to: usize,
    },
    /// A sequence that is too long.
    #[error(
        "field `{field}` has {got} tokens, more than the {to} that it is padded to; call truncate({to}) before"
    )]
    TooLong {
        /// The field's name.
        field: String,
        /// Its length.
        got: usize,
        /// The length it is padded to.
        to: usize,
    },
    /// An id that the dtype cannot hold.
    #[error("the id {id} is beyond the 32 bits of its field; deliver int64")]
    IdTooLarge {
        /// The id.
        id: u32,
    },
}

/// A dataset one of whose fields becomes sequences: text becomes ids, sequences are cut and padded. Other fields are delivered as they are.
///
/// Sequences that are padded to one length are written straight into the batch.
pub struct Sequences {
    inner: Arc<dyn Dataset>,
    inner_fields: Vec<Field>,
    field: usize,
    name: String,
    dtype: DType,
    options: SequenceOptions,
    fields: Vec<Field>,
    /// Places for the inner sample, one per worker that is at it.
    scratches: Mutex<Vec<Scratch>>,
}

thread_local! {
    /// Ids before they have their place, and as they are there.
    static IDS: Cell<(Vec<u32>, Vec<i64>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// Ids that are kept room for between samples.
const KEPT: usize = 1 << 16;

impl Sequences {
    /// The field of `inner` with this number.
    pub fn new(
        inner: Arc<dyn Dataset>,
        field: usize,
        options: SequenceOptions,
    ) -> Result<Sequences, SequenceError> {
        let inner_fields = inner.fields();
        let count = inner_fields.len();
        let given = inner_fields.get(field).ok_or(SequenceError::NoField { field, count })?;
        let name = given.name().to_string();
        let dtype = match (&options.encoder, given.form()) {
            (Some(_), Form::Bytes { text: true }) => match options.dtype {
                DType::I64 | DType::I32 => options.dtype,
                dtype => return Err(SequenceError::IdType { dtype }),
            },
            (Some(_), _) => return Err(SequenceError::NotText { field: name }),
            (None, Form::Ragged { shape, .. }) if **shape == [None] => given.dtype(),
            (None, _) => return Err(SequenceError::NotASequence { field: name }),
        };
        if let Some(SequencePadding { to, .. }) = &options.padding {
            let (PadLength::LongestOf(length) | PadLength::Exactly(length)) = *to;
            if length == 0 {
                return Err(SequenceError::NoLength { to: length });
            }
        }
        let mut fields = inner_fields.clone();
        fields.splice(field..=field, declared(&name, dtype, &options));
        let scratches = Mutex::default();
        Ok(Sequences { inner, inner_fields, field, name, dtype, options, fields, scratches })
    }

    /// Whether all sequences are delivered with the same length.
    fn is_fixed(&self) -> bool {
        matches!(&self.options.padding, Some(SequencePadding { to: PadLength::Exactly(_), .. }))
    }

    fn scratch(&self) -> Result<Scratch, Cause> {
        let spare = lock(&self.scratches).pop();
        match spare {
            Some(scratch) => Ok(scratch),
            None => Ok(Scratch::new(self.inner_fields.clone())?),
        }
    }

    fn keep(&self, mut scratch: Scratch) {
        scratch.shrink();
        lock(&self.scratches).push(scratch);
    }

    /// Fields that come before the one with this number of the inner dataset: one more behind the sequences where
    /// these have a mask of their own.
    fn place(&self, number: usize) -> usize {
        let more = self.fields.len() - self.inner_fields.len();
        if number > self.field { number + more } else { number }
    }

    fn write(&self, given: &SampleView<'_>, sample: &mut Sample<'_>) -> Result<(), Cause> {
        for (number, field) in self.inner_fields.iter().enumerate() {
            if number == self.field {
                continue;
            }
            let at = self.place(number);
            match field.form() {
                Form::Fixed { .. } => sample.put_bytes(at, given.bytes(number))?,
                _ => sample.put_elements(at, given.shape(number), given.bytes(number))?,
            }
        }
        let bytes = given.bytes(self.field);
        let Some(encoder) = &self.options.encoder else {
            return self.write_sequence(self.cut(bytes), sample);
        };
        let text = std::str::from_utf8(bytes)?;
        let (mut ids, mut wide) = IDS.take();
        ids.clear();
        wide.clear();
        let limit = match self.options.keep_end {
            true => usize::MAX,
            false => self.options.max_length.unwrap_or(usize::MAX),
        };
        encoder.encode(text, limit, &mut ids)?;
        if let (true, Some(most)) = (self.options.keep_end, self.options.max_length) {
            ids.drain(..ids.len().saturating_sub(most));
        }
        if self.dtype == DType::I32 {
            if let Some(id) = ids.iter().find(|id| i32::try_from(**id).is_err()) {
                return Err(SequenceError::IdTooLarge { id: *id }.into());
            }
            self.write_sequence(bytemuck::cast_slice(&ids), sample)?;
        } else {
            wide.extend(ids.iter().map(|id| i64::from(*id)));
            self.write_sequence(bytemuck::cast_slice(&wide), sample)?;
        }
        if ids.capacity() <= KEPT {
            IDS.set((ids, wide));
        }
        Ok(())
    }

    /// The elements of a sequence that stay.
    fn cut<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let size = self.dtype.size();
        match self.options.max_length.map(|most| most.saturating_mul(size)) {
            Some(most) if most < bytes.len() && self.options.keep_end => {
                &bytes[bytes.len() - most..]
            }
            Some(most) if most < bytes.len() => &bytes[..most],
            _ => bytes,
        }
    }

    /// Writes the elements of a sequence, and its mask.
    fn write_sequence(&self, elements: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let length = elements.len() / self.dtype.size();
        let padding = match &self.options.padding {
            Some(padding) => padding,
            None => return Ok(sample.put_elements(self.field, &[length], elements)?),
        };
        let PadLength::Exactly(to) = padding.to else {
            return Ok(sample.put_elements(self.field, &[length], elements)?);
        };
        if length > to {
            let field = self.name.clone();
            return Err(SequenceError::TooLong { field, got: length, to }.into());
        }
        let sides = |row: usize, value: usize| match padding.left {
            true => (row - value..row, 0..row - value),
            false => (0..value, value..row),
        };
        let row = sample.view_bytes(self.field)?;
        let (value, rest) = sides(row.len(), elements.len());
        row[value].copy_from_slice(elements);
        self.dtype.fill(padding.fill, &mut row[rest]);
        if padding.mask {
            let row = sample.view_bytes(self.field + 1)?;
            let (value, rest) = sides(to, length);
            row[value].fill(1);
            row[rest].fill(0);
        }
        sample.count_padding(length, to);
        Ok(())
    }
}

/// The fields of sequences: themselves, and their mask where they are padded to one length.
fn declared(name: &str, dtype: DType, options: &SequenceOptions) -> Vec<Field> {
    let Some(SequencePadding { to, left, fill, mask }) = options.padding else {
        return vec![Field::ragged(name, dtype, [None], Ragged::Packed)];
    };
    match to {
        PadLength::Exactly(to) => {
            let mask_field = mask.then(|| Field::fixed(&format!("{name}_mask"), DType::Bool, [to]));
            std::iter::once(Field::fixed(name, dtype, [to])).chain(mask_field).collect()
        }
        PadLength::LongestOf(multiple) if multiple > 1 || left || mask => {
            let rule = Ragged::Sequence { multiple, left, fill, mask };
            vec![Field::ragged(name, dtype, [None], rule)]
        }
        PadLength::LongestOf(_) => {
            vec![Field::ragged(name, dtype, [None], Ragged::PadToLongest { fill })]
        }
    }
}

impl Dataset for Sequences {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.inner.load(index, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        // After an error or a panic scratch and buffers are lost with it and made anew.
        let mut scratch = self.scratch()?;
        let given = scratch.build(&*self.inner, sample.index(), raw, sample.key())?;
        sample.begin(Stage::Transform);
        self.write(&given, sample)?;
        self.keep(scratch);
        Ok(())
    }

    /// Fields that are no sequences, without making any.
    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let before = |field: &usize| {
            let number =
                (0..self.inner_fields.len()).find(|number| self.place(*number) == *field)?;
            (number != self.field).then_some(number)
        };
        let numbers = fields.iter().map(before).collect::<Option<Vec<_>>>()?;
        crate::only(&self.inner, &numbers)
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        self.inner.iterable()
    }

    fn known_length(&self, index: SampleIndex, field: usize) -> Option<u64> {
        if field == self.field && self.options.encoder.is_none() && !self.is_fixed() {
            let most = self.options.max_length.map_or(u64::MAX, |most| most as u64);
            return self.inner.known_length(index, field).map(|length| length.min(most));
        }
        let number = (0..self.inner_fields.len()).find(|number| self.place(*number) == field)?;
        if number == self.field { None } else { self.inner.known_length(index, number) }
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

impl std::fmt::Debug for Sequences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sequences")
            .field("field", &self.name)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}
