//! Putting a batch together once all its samples are there.
//!
//! Fixed fields are in place already; this pads or packs the ragged ones, closes the gaps that
//! skipped samples left, and gives custom collation its turn.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::Error;
use crate::flow::Charge;
use crate::work::Cause;

use super::batch::Array;
use super::block::Block;
use super::dtype::{DType, Element};
use super::field::{Field, Form, Ragged, row_bytes};
use super::parcel::{LooseValue, Parcel};
use super::pool::Pool;
use super::schema::{BatchLayout, FieldPlace, Schema};

/// Puts whole batches together in another way than field by field.
///
/// It sees every sample of the batch and writes the arrays it wants delivered.
pub trait Collate: Send + Sync + 'static {
    /// Writes the batch's arrays to `out`.
    fn collate(&self, samples: &[SampleView<'_>], out: &mut BatchWriter<'_>) -> Result<(), Cause>;
}

/// One sample as [`Collate`] sees it.
pub struct SampleView<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) parcel: &'a Parcel,
}

impl SampleView<'_> {
    /// The elements of a field, or `None` if there is no such field of this type.
    #[must_use]
    pub fn get<T: Element>(&self, field: usize) -> Option<&[T]> {
        let declared = self.schema.fields().get(field)?;
        T::is(declared.dtype()).then(|| bytemuck::cast_slice(self.bytes(field)))
    }

    /// What the sample consists of.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        self.schema.fields()
    }

    /// The bytes of a field; empty if there is none.
    #[must_use]
    pub fn bytes(&self, field: usize) -> &[u8] {
        if field >= self.schema.fields().len() {
            return &[];
        }
        match self.schema.place(field) {
            FieldPlace::Row { bytes, offset } => {
                &self.parcel.record.bytes()[offset..offset + bytes]
            }
            FieldPlace::Loose { part } => self.parcel.parts[part].data.bytes(),
        }
    }

    /// The shape of a field's value.
    #[must_use]
    pub fn shape(&self, field: usize) -> &[usize] {
        match self.schema.fields().get(field).map(Field::form) {
            Some(Form::Fixed { shape }) => shape,
            Some(_) => match self.schema.place(field) {
                FieldPlace::Loose { part } => &self.parcel.parts[part].shape,
                FieldPlace::Row { .. } => &[],
            },
            None => &[],
        }
    }
}

/// Where [`Collate`] writes.
pub struct BatchWriter<'a> {
    pool: &'a Arc<Pool>,
    arrays: Vec<Array>,
}

impl<'a> BatchWriter<'a> {
    pub(crate) fn new(pool: &'a Arc<Pool>) -> BatchWriter<'a> {
        BatchWriter { pool, arrays: Vec::new() }
    }

    /// Adds an array and gives its elements out to be written; they are unspecified before.
    pub fn array<T: Element>(&mut self, name: &str, shape: &[usize]) -> Result<&mut [T], Error> {
        self.array_bytes(name, T::DTYPE, shape).map(bytemuck::cast_slice_mut)
    }

    /// The same for a dtype that is known when it runs; the elements as bytes in native order.
    pub fn array_bytes(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[usize],
    ) -> Result<&mut [u8], Error> {
        let bytes = row_bytes(dtype, shape)
            .filter(|bytes| *bytes as u64 <= self.pool.budget())
            .ok_or_else(|| Error::TooLong {
                field: name.to_string(),
                shape: shape.to_vec(),
                bytes: row_bytes(dtype, shape).map_or(u64::MAX, |b| b as u64),
                budget: self.pool.budget(),
            })?;
        let block = Arc::new(self.pool.take(bytes, 0)?);
        let shape = shape.into();
        self.arrays.push(Array { name: name.into(), dtype, shape, block, offset: 0, copy: None });
        let array = self.arrays.last_mut().expect("just pushed");
        Ok(array.as_bytes_mut())
    }

    pub(crate) fn into_arrays(self) -> Vec<Array> {
        self.arrays
    }
}

/// Makes arrays of the filled slots. `kept[i]` tells whether slot i has a sample. Loose values are freed as they are
/// copied, and the arrays booked in their place where their memory comes as they go.
pub(super) fn assemble(
    schema: &Schema,
    rows: Option<(Block, &BatchLayout)>,
    loose: &mut [Option<Parcel>],
    kept: &[bool],
    pool: &Arc<Pool>,
    charge: &mut Charge,
    copies_strings: bool,
) -> Result<Vec<Array>, Error> {
    let count = kept.iter().filter(|kept| **kept).count();
    let mut parcels: Vec<&mut Parcel> = Vec::with_capacity(loose.len());
    parcels.extend(loose.iter_mut().zip(kept).filter_map(|(p, kept)| p.as_mut().filter(|_| *kept)));
    debug_assert!(schema.variable() == 0 || parcels.len() == count);
    let mut rows = rows.map(|(block, layout)| {
        if count < kept.len() {
            close_gaps(schema, &block, layout, kept);
        }
        (Arc::new(block), layout)
    });
    let mut arrays = Vec::with_capacity(schema.fields().len() + schema.variable());
    for (i, field) in schema.fields().iter().enumerate() {
        match (schema.place(i), field.form()) {
            (FieldPlace::Row { .. }, Form::Fixed { shape }) => {
                let (block, layout) = rows.as_mut().expect("a fixed field has a row in the block");
                let mut whole = SmallVec::with_capacity(shape.len() + 1);
                whole.push(count);
                whole.extend_from_slice(shape);
                arrays.push(Array {
                    name: field.shared_name().clone(),
                    dtype: field.dtype(),
                    shape: whole,
                    block: Arc::clone(block),
                    offset: layout.starts[i],
                    copy: None,
                });
            }
            (FieldPlace::Loose { part }, form) => {
                let mut parts: Vec<&mut LooseValue> =
                    parcels.iter_mut().map(|p| &mut p.parts[part]).collect();
                let charge = &mut *charge;
                let mut out = Booked { field, pool, charge, arrays: &mut arrays, copies_strings };
                match form {
                    Form::Ragged { shape, rule: Ragged::PadToLongest { fill } } => {
                        let longest = longest(shape, &parts);
                        pad(&longest, *fill, &mut parts, &mut out)?;
                    }
                    Form::Ragged { rule: Ragged::PadTo { shape, fill }, .. } => {
                        pad(shape, *fill, &mut parts, &mut out)?;
                    }
                    Form::Ragged {
                        rule: Ragged::Sequence { multiple, left, fill, mask }, ..
                    } => {
                        let longest = parts.iter().map(|part| part.shape[0]).max().unwrap_or(0);
                        let to = longest.checked_next_multiple_of(*multiple).unwrap_or(longest);
                        pad_sequence(to, (*left, *mask), *fill, &mut parts, &mut out)?;
                    }
                    _ => pack(&mut parts, &mut out)?,
                }
            }
            (FieldPlace::Row { .. }, _) => unreachable!("only fixed fields have rows"),
        }
    }
    Ok(arrays)
}

/// Moves the rows behind a skipped sample down.
fn close_gaps(schema: &Schema, block: &Block, layout: &BatchLayout, kept: &[bool]) {
    for field in 0..schema.fields().len() {
        let FieldPlace::Row { bytes, .. } = schema.place(field) else { continue };
        // SAFETY: the field's rows lie within the block (see `Schema::layout`), and the draft's last
        // worker, which calls this, is the only one with access to it.
        let rows = unsafe {
            let start = block.address().as_ptr().add(layout.starts[field]);
            std::slice::from_raw_parts_mut(start, kept.len() * bytes)
        };
        for (to, from) in (0..kept.len()).filter(|from| kept[*from]).enumerate() {
            if from != to {
                rows.copy_within(from * bytes..(from + 1) * bytes, to * bytes);
            }
        }
    }
}

fn longest(declared: &[Option<usize>], parts: &[&mut LooseValue]) -> Vec<usize> {
    let axis = |(a, fixed): (usize, &Option<usize>)| {
        fixed.unwrap_or_else(|| parts.iter().map(|part| part.shape[a]).max().unwrap_or(0))
    };
    declared.iter().enumerate().map(axis).collect()
}

fn pad(
    to: &[usize],
    fill: f64,
    parts: &mut [&mut LooseValue],
    out: &mut Booked<'_>,
) -> Result<(), Error> {
    let field = out.field;
    let whole: Vec<usize> = std::iter::once(parts.len()).chain(to.iter().copied()).collect();
    let mut padded = out.allocate("", field.dtype(), whole)?;
    let rows = padded.as_bytes_mut();
    let row = row_bytes(field.dtype(), to).unwrap_or(0);
    for (i, part) in parts.iter_mut().enumerate() {
        let row = &mut rows[i * row..(i + 1) * row];
        if part.shape == to {
            row.copy_from_slice(part.data.bytes());
        } else {
            field.dtype().fill(fill, row);
            copy_corner(field.dtype().size(), &part.shape, to, part.data.bytes(), row);
        }
        part.data.shrink();
    }
    out.arrays.push(padded);
    let values = parts.iter().map(|part| part.shape.iter().product::<usize>() as u64).sum();
    out.pool.count_padding(values, (parts.len() * to.iter().product::<usize>()) as u64);
    let Form::Ragged { shape, .. } = field.form() else { return Ok(()) };
    let varying: Vec<usize> = (0..shape.len()).filter(|a| shape[*a].is_none()).collect();
    let mut whole = vec![parts.len()];
    if varying.len() > 1 {
        whole.push(varying.len());
    }
    let mut lengths = out.allocate("_lengths", DType::I64, whole)?;
    let rows: &mut [i64] = bytemuck::cast_slice_mut(lengths.as_bytes_mut());
    for (row, part) in rows.chunks_exact_mut(varying.len()).zip(parts) {
        for (length, axis) in row.iter_mut().zip(&varying) {
            *length = part.shape[*axis] as i64;
        }
    }
    out.arrays.push(lengths);
    Ok(())
}

/// Pads values of one axis to `to`, in front of them or behind, and says where they are.
fn pad_sequence(
    to: usize,
    (left, mask): (bool, bool),
    fill: f64,
    parts: &mut [&mut LooseValue],
    out: &mut Booked<'_>,
) -> Result<(), Error> {
    let (field, dtype) = (out.field, out.field.dtype());
    let mut padded = out.allocate("", dtype, vec![parts.len(), to])?;
    let row = row_bytes(dtype, &[to]).unwrap_or(0);
    for (row, part) in padded.as_bytes_mut().chunks_exact_mut(row.max(1)).zip(&mut *parts) {
        let value = part.data.bytes();
        let (value_place, rest) = sides(row, value.len(), left);
        value_place.copy_from_slice(value);
        field.dtype().fill(fill, rest);
        part.data.shrink();
    }
    out.arrays.push(padded);
    let values: u64 = parts.iter().map(|part| part.shape[0] as u64).sum();
    out.pool.count_padding(values, (parts.len() * to) as u64);
    if mask {
        let mut mask = out.allocate("_mask", DType::Bool, vec![parts.len(), to])?;
        for (row, part) in mask.as_bytes_mut().chunks_exact_mut(to.max(1)).zip(parts) {
            let (values, rest) = sides(row, part.shape[0], left);
            values.fill(1);
            rest.fill(0);
        }
        out.arrays.push(mask);
    } else {
        let mut lengths = out.allocate("_lengths", DType::I64, vec![parts.len()])?;
        let rows: &mut [i64] = bytemuck::cast_slice_mut(lengths.as_bytes_mut());
        for (length, part) in rows.iter_mut().zip(parts) {
            *length = part.shape[0] as i64;
        }
        out.arrays.push(lengths);
    }
    Ok(())
}

/// Where in a row its value of so many bytes is, and where the padding.
fn sides(row: &mut [u8], value: usize, left: bool) -> (&mut [u8], &mut [u8]) {
    if left {
        let (rest, value) = row.split_at_mut(row.len() - value);
        return (value, rest);
    }
    row.split_at_mut(value)
}

/// Copies a row-major array of `from` into the near corner of a larger one of `to`.
fn copy_corner(size: usize, from: &[usize], to: &[usize], value: &[u8], out: &mut [u8]) {
    match (from, to) {
        ([], _) | (_, []) => out[..size].copy_from_slice(&value[..size]),
        ([last], _) => out[..last * size].copy_from_slice(&value[..last * size]),
        ([axis, from @ ..], [_, to @ ..]) => {
            let inner = size * from.iter().product::<usize>();
            let outer = size * to.iter().product::<usize>();
            for i in 0..*axis {
                let value = &value[i * inner..(i + 1) * inner];
                copy_corner(size, from, to, value, &mut out[i * outer..(i + 1) * outer]);
            }
        }
    }
}

fn pack(parts: &mut [&mut LooseValue], out: &mut Booked<'_>) -> Result<(), Error> {
    let field = out.field;
    let mut whole = vec![parts.iter().map(|part| part.shape[0]).sum::<usize>()];
    if let Form::Ragged { shape, .. } = field.form() {
        whole.extend(shape[1..].iter().map(|axis| axis.expect("only the first axis varies")));
    }
    let mut packed = out.allocate("", field.dtype(), whole)?;
    let mut rest = packed.as_bytes_mut();
    for part in &mut *parts {
        let value = part.data.bytes();
        let (head, tail) = rest.split_at_mut(value.len());
        head.copy_from_slice(value);
        rest = tail;
        part.data.shrink();
    }
    let mut offsets = out.allocate("_offsets", DType::I64, vec![parts.len() + 1])?;
    let ends: &mut [i64] = bytemuck::cast_slice_mut(offsets.as_bytes_mut());
    ends[0] = 0;
    for (i, part) in parts.iter().enumerate() {
        ends[i + 1] = ends[i] + part.shape[0] as i64;
    }
    out.arrays.push(packed);
    out.arrays.push(offsets);
    Ok(())
}

/// Where the arrays of one field go: their memory is booked in place of the loose values that are copied there.
struct Booked<'a> {
    field: &'a Field,
    pool: &'a Arc<Pool>,
    charge: &'a mut Charge,
    arrays: &'a mut Vec<Array>,
    copies_strings: bool,
}

impl Booked<'_> {
    fn allocate(&mut self, suffix: &str, dtype: DType, shape: Vec<usize>) -> Result<Array, Error> {
        let (field, budget) = (self.field, self.pool.budget());
        let bytes = row_bytes(dtype, &shape);
        let Some(bytes) = bytes.filter(|bytes| *bytes as u64 <= budget) else {
            return Err(Error::TooLong {
                field: field.name().to_string(),
                bytes: bytes.map_or(u64::MAX, |b| b as u64),
                budget,
                shape,
            });
        };
        let name: Arc<str> = match suffix {
            "" => field.shared_name().clone(),
            suffix => format!("{}{suffix}", field.name()).into(),
        };
        let block = Arc::new(self.pool.take_for_copies(bytes, self.charge)?);
        let is_copied = self.copies_strings && matches!(field.form(), Form::Bytes { .. });
        let copy = is_copied.then(|| self.charge.split(bytes as u64));
        Ok(Array { name, dtype, shape: shape.into(), block, offset: 0, copy })
    }
}
