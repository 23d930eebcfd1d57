//! The values of one column, in the memory that Arrow has them in.

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryViewArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use half::f16;

use feedline_core::DType;

/// The values of a column, or of a part of it.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    form: CellForm,
    nulls: Option<NullBuffer>,
}

#[derive(Clone, Debug)]
enum CellForm {
    /// Elements of `width` bytes, one after the other.
    Elements {
        values: Buffer,
        width: usize,
    },
    BitPerCell(BooleanBuffer),
    /// Integers of `width` bytes, each divided by ten to the power of `scale`.
    Decimals {
        values: Buffer,
        width: usize,
        scale: i8,
    },
    ShortOffsets(OffsetBuffer<i32>, Buffer),
    LongOffsets(OffsetBuffer<i64>, Buffer),
    Views(BinaryViewArray),
    Lists(OffsetBuffer<i32>, Box<Cells>),
    LongLists(OffsetBuffer<i64>, Box<Cells>),
    FixedLists(usize, Box<Cells>),
    /// Places among values, each an unsigned number of `width` bytes.
    Dictionary {
        keys: Buffer,
        width: usize,
        values: Box<Cells>,
    },
    Pictures {
        bytes: Box<Cells>,
        path: Box<Cells>,
    },
}

/// What stands for a null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filling {
    /// Nothing: a null is an error of its row.
    Refused,
    /// These bytes: an element, or a text.
    With(Vec<u8>),
}

/// Why a value cannot be delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CellFault {
    #[error(
        "is null; pass a value for it, as in nulls={{{name:?}: …}}, or ask for a field that tells: null_flags=[{name:?}]"
    )]
    Null { name: String },
    #[error("has a null in its list; pass a value for it, as in nulls={{{name:?}: …}}")]
    NullItem { name: String },
    #[error("has lists of {first} and {other} items side by side, which make no array")]
    Uneven { first: usize, other: usize },
    #[error("is not what its type says")]
    Damaged,
    #[error("names the file `{path}`, which cannot be read: {why}")]
    File { path: String, why: String },
}

/// A picture's bytes, or the file that has them.
pub(crate) enum PictureBytes<'a> {
    Here(&'a [u8]),
    In(&'a [u8]),
}

impl Cells {
    /// The values of an array; `None` for types that batches have no form for.
    pub(crate) fn of(array: &dyn Array) -> Option<Cells> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Some(Cells { form: CellForm::of(array)?, nulls })
    }

    /// The same, with nulls wherever the struct around them is null.
    pub(crate) fn within(mut self, outer: Option<&NullBuffer>) -> Cells {
        self.nulls = NullBuffer::union(outer, self.nulls.as_ref());
        self
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return true;
        }
        match &self.form {
            CellForm::Dictionary { keys, width, values } => {
                values.is_null(whole_number(keys, *width, row))
            }
            CellForm::Pictures { bytes, path } => bytes.is_null(row) && path.is_null(row),
            _ => false,
        }
    }

    /// Fixed-width elements without nulls, as they lie in memory, and how many bytes each has.
    pub(crate) fn plain(&self) -> Option<(&[u8], usize)> {
        match &self.form {
            _ if self.nulls.is_some() => None,
            CellForm::Elements { values, width } => Some((values, *width)),
            CellForm::FixedLists(length, items) => {
                let (values, width) = items.plain()?;
                Some((values, width * length))
            }
            _ => None,
        }
    }

    /// The bytes of a text or of binary data; empty for other values.
    pub(crate) fn bytes(&self, row: usize) -> &[u8] {
        match &self.form {
            CellForm::ShortOffsets(offsets, values) => {
                values.get(offsets[row] as usize..offsets[row + 1] as usize).unwrap_or_default()
            }
            CellForm::LongOffsets(offsets, values) => {
                values.get(offsets[row] as usize..offsets[row + 1] as usize).unwrap_or_default()
            }
            CellForm::Views(views) => views.value(row),
            CellForm::Elements { values, width } => {
                values.get(row * width..(row + 1) * width).unwrap_or_default()
            }
            CellForm::Dictionary { keys, width, values } => {
                values.bytes(whole_number(keys, *width, row))
            }
            _ => &[],
        }
    }

    /// A picture's bytes, where they are; a path counts only where there are none.
    pub(crate) fn picture(&self, row: usize) -> PictureBytes<'_> {
        match &self.form {
            CellForm::Pictures { bytes, path } if bytes.is_null(row) => {
                PictureBytes::In(path.bytes(row))
            }
            CellForm::Pictures { bytes, .. } => PictureBytes::Here(bytes.bytes(row)),
            _ => PictureBytes::Here(self.bytes(row)),
        }
    }

    /// Writes the elements of a value to `out` and its lengths along each axis to `shape`, which has as many entries as there
    /// are axes, all `usize::MAX`.
    pub(crate) fn append(
        &self,
        row: usize,
        filling: &Filling,
        name: &str,
        shape: &mut [usize],
        out: &mut Vec<u8>,
    ) -> Result<(), CellFault> {
        self.append_range(row..row + 1, filling, name, shape, out)
    }

    fn append_range(
        &self,
        rows: std::ops::Range<usize>,
        filling: &Filling,
        name: &str,
        shape: &mut [usize],
        out: &mut Vec<u8>,
    ) -> Result<(), CellFault> {
        if let (Some((values, width)), true) = (self.plain(), shape.is_empty()) {
            let bytes = values.get(rows.start * width..rows.end * width);
            out.extend_from_slice(bytes.ok_or(CellFault::Damaged)?);
            return Ok(());
        }
        for row in rows {
            let Some((axis, inner)) = shape.split_first_mut() else {
                if self.is_null(row) {
                    let Filling::With(element) = filling else {
                        return Err(CellFault::NullItem { name: name.to_string() });
                    };
                    out.extend_from_slice(element);
                } else {
                    self.append_element(row, out).ok_or(CellFault::Damaged)?;
                }
                continue;
            };
            // A list within a list that is null counts as empty.
            let (range, items) = match &self.form {
                _ if self.is_null(row) => (0..0, None),
                CellForm::Lists(offsets, items) => {
                    (offsets[row] as usize..offsets[row + 1] as usize, Some(items))
                }
                CellForm::LongLists(offsets, items) => {
                    (offsets[row] as usize..offsets[row + 1] as usize, Some(items))
                }
                CellForm::FixedLists(length, items) => {
                    (row * length..(row + 1) * length, Some(items))
                }
                CellForm::Dictionary { keys, width, values } => {
                    let row = whole_number(keys, *width, row);
                    values.append_range(row..row + 1, filling, name, shape, out)?;
                    continue;
                }
                _ => return Err(CellFault::Damaged),
            };
            match *axis {
                usize::MAX => *axis = range.len(),
                first if first != range.len() => {
                    return Err(CellFault::Uneven { first, other: range.len() });
                }
                _ => {}
            }
            if let Some(items) = items {
                items.append_range(range, filling, name, inner, out)?;
            }
        }
        Ok(())
    }

    /// Appends a number; `None` if it is none.
    fn append_element(&self, row: usize, out: &mut Vec<u8>) -> Option<()> {
        match &self.form {
            CellForm::Elements { values, width } => {
                out.extend_from_slice(values.get(row * width..(row + 1) * width)?);
            }
            CellForm::BitPerCell(bits) => out.push(u8::from(bits.value(row))),
            CellForm::Decimals { values, width, scale } => {
                let value = decimal(values.get(row * width..(row + 1) * width)?, *scale)?;
                out.extend_from_slice(&value.to_ne_bytes());
            }
            CellForm::Dictionary { keys, width, values } => {
                values.append_element(whole_number(keys, *width, row), out)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// What it takes in memory that it does not share with its file.
    pub(crate) fn memory(&self) -> usize {
        let own = match &self.form {
            CellForm::Elements { values, .. } | CellForm::Decimals { values, .. } => values.len(),
            CellForm::BitPerCell(bits) => bits.len() / 8,
            CellForm::ShortOffsets(offsets, values) => offsets.len() * 4 + values.len(),
            CellForm::LongOffsets(offsets, values) => offsets.len() * 8 + values.len(),
            CellForm::Views(views) => views.get_buffer_memory_size(),
            CellForm::Lists(offsets, items) => offsets.len() * 4 + items.memory(),
            CellForm::LongLists(offsets, items) => offsets.len() * 8 + items.memory(),
            CellForm::FixedLists(_, items) => items.memory(),
            CellForm::Dictionary { keys, values, .. } => keys.len() + values.memory(),
            CellForm::Pictures { bytes, path } => bytes.memory() + path.memory(),
        };
        own + self.nulls.as_ref().map_or(0, |nulls| nulls.len() / 8)
    }
}

impl CellForm {
    fn of(array: &dyn Array) -> Option<CellForm> {
        let inner = |array: &dyn Array| Cells::of(array).map(Box::new);
        Some(match array.data_type() {
            DataType::Boolean => CellForm::BitPerCell(array.as_boolean().values().clone()),
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                CellForm::ShortOffsets(texts.offsets().clone(), texts.values().clone())
            }
            DataType::LargeUtf8 => {
                let texts = array.as_string::<i64>();
                CellForm::LongOffsets(texts.offsets().clone(), texts.values().clone())
            }
            DataType::Binary => {
                let bytes = array.as_binary::<i32>();
                CellForm::ShortOffsets(bytes.offsets().clone(), bytes.values().clone())
            }
            DataType::LargeBinary => {
                let bytes = array.as_binary::<i64>();
                CellForm::LongOffsets(bytes.offsets().clone(), bytes.values().clone())
            }
            DataType::Utf8View => CellForm::Views(array.as_string_view().clone().to_binary_view()),
            DataType::BinaryView => CellForm::Views(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(width) => CellForm::Elements {
                values: elements(array, usize::try_from(*width).ok()?)?,
                width: usize::try_from(*width).ok()?,
            },
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                CellForm::Lists(lists.offsets().clone(), inner(lists.values())?)
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                CellForm::LongLists(lists.offsets().clone(), inner(lists.values())?)
            }
            DataType::FixedSizeList(_, length) => {
                let lists = array.as_fixed_size_list();
                CellForm::FixedLists(usize::try_from(*length).ok()?, inner(lists.values())?)
            }
            DataType::Dictionary(key, _) => {
                let (dictionary, width) = (array.as_any_dictionary(), key.primitive_width()?);
                let keys = elements(dictionary.keys(), width)?;
                CellForm::Dictionary { keys, width, values: inner(dictionary.values())? }
            }
            DataType::Struct(_) => {
                let children = array.as_struct();
                let child = |name| children.column_by_name(name).and_then(|child| inner(child));
                CellForm::Pictures { bytes: child("bytes")?, path: child("path")? }
            }
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => {
                let width = array.data_type().primitive_width()?;
                CellForm::Decimals { values: elements(array, width)?, width, scale: *scale }
            }
            number => {
                let width = number.primitive_width()?;
                CellForm::Elements { values: elements(array, width)?, width }
            }
        })
    }
}

/// The bytes of an array's elements, each of `width`.
fn elements(array: &dyn Array, width: usize) -> Option<Buffer> {
    let data = array.to_data();
    let buffer = data.buffers().first()?;
    let (start, length) = (data.offset().checked_mul(width)?, data.len().checked_mul(width)?);
    (start.checked_add(length)? <= buffer.len()).then(|| buffer.slice_with_length(start, length))
}

/// An unsigned number of so many bytes.
fn whole_number(values: &[u8], width: usize, row: usize) -> usize {
    let mut bytes = [0; 8];
    if let Some(value) = values.get(row * width..(row + 1) * width) {
        bytes[..width].copy_from_slice(value);
    }
    usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX)
}

/// The float64 nearest to a decimal.
fn decimal(bytes: &[u8], scale: i8) -> Option<f64> {
    let digits: String = match bytes.len() {
        4 => i32::from_le_bytes(bytes.try_into().ok()?).to_string(),
        8 => i64::from_le_bytes(bytes.try_into().ok()?).to_string(),
        16 => i128::from_le_bytes(bytes.try_into().ok()?).to_string(),
        _ => arrow_buffer::i256::from_le_bytes(bytes.try_into().ok()?).to_string(),
    };
    // Parsing rounds once, where a division of two floats rounds twice.
    format!("{digits}e{}", -i32::from(scale)).parse().ok()
}

/// The bytes of an element that means "not a number", for the types that have it.
pub(crate) fn not_a_number(dtype: DType) -> Option<Vec<u8>> {
    Some(match dtype {
        DType::F16 => f16::NAN.to_ne_bytes().to_vec(),
        DType::F32 => f32::NAN.to_ne_bytes().to_vec(),
        DType::F64 => f64::NAN.to_ne_bytes().to_vec(),
        _ => return None,
    })
}
