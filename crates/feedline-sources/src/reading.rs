//! What becomes of a part that is no picture: a number, text, an array, or its bytes.

use feedline_core::{Cause, DType, Field, Ragged, Sample, SampleIndex};

use crate::npy::{NpyHeader, write_array};
use crate::{Encoded, escaped};

/// Extensions of labels, as webdataset has them.
const LABELS: [&str; 7] = ["cls", "cls2", "class", "count", "index", "inx", "id"];
/// Extensions of text.
const TEXTS: [&str; 6] = ["txt", "text", "transcript", "json", "jsn", KEY];

/// The part that is no member of a shard but the sample's name there.
pub const KEY: &str = "__key__";

/// How a part's bytes become a field's value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reading {
    /// As they are.
    Bytes,
    /// Text: UTF-8, or an error of the sample.
    Text,
    /// A whole number in decimal digits, with blanks around it or not: an `int64`.
    Label,
    /// A `.npy` file of this dtype and shape; another one is an error of its sample.
    Array {
        /// The elements' type.
        dtype: DType,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The elements of an array of this dtype and shape in native byte order, and nothing else.
    Elements {
        /// The elements' type.
        dtype: DType,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The same of any number of items, each of this dtype and shape.
    Items {
        /// The elements' type.
        dtype: DType,
        /// The shape of one item; nothing for numbers.
        shape: Vec<usize>,
        /// How different numbers of them share a batch.
        rule: Ragged,
    },
}

/// Why a part is not what its name says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadingError {
    /// No number.
    #[error("part `{part}` must be a whole number, got `{got}`")]
    NotANumber {
        /// The part's name.
        part: String,
        /// What it holds, cut short and escaped.
        got: String,
    },
    /// A number that no `int64` can hold.
    #[error("part `{part}` holds {got}, which is beyond the 64 bits of a label")]
    TooLarge {
        /// The part's name.
        part: String,
        /// The number, cut short.
        got: String,
    },
    /// No `.npy` file.
    #[error("part `{part}`: {source}")]
    Header {
        /// The part's name.
        part: String,
        /// What is wrong.
        source: crate::npy::HeaderError,
    },
    /// An array of another kind than the first sample's.
    #[error(
        "part `{part}` holds {dtype} of shape {shape:?}, but the first sample's holds \
         {expected_dtype} of shape {expected_shape:?}; read it as bytes if shapes differ"
    )]
    Mismatch {
        /// The part's name.
        part: String,
        /// Its dtype.
        dtype: DType,
        /// Its shape.
        shape: Vec<usize>,
        /// The dtype of the first sample's.
        expected_dtype: DType,
        /// The shape of the first sample's.
        expected_shape: Vec<usize>,
    },
    /// An array that was cut off.
    #[error("part `{part}` has {actual} bytes but its header asks for {expected}: it was cut off")]
    Short {
        /// The part's name.
        part: String,
        /// Bytes that the header asks for.
        expected: usize,
        /// Bytes that are there.
        actual: usize,
    },
}

impl Reading {
    /// How a part is read, if the source does not say it, by its name: `cls` is a label, `txt` and `json` are text, `npy` is an array
    /// like that of the first sample, everything else stays bytes.
    pub fn by_name(source: &dyn Encoded, part: usize) -> Result<Reading, Cause> {
        if let Some(reading) = source.reading(part) {
            return Ok(reading);
        }
        let name = source.parts().get(part).map_or("", String::as_str);
        // Of several extensions the last one says what it is: `left.npy`, `seg.png`.
        let kind = name.rsplit('.').next().unwrap_or(name);
        if LABELS.contains(&kind) {
            Ok(Reading::Label)
        } else if TEXTS.contains(&kind) {
            Ok(Reading::Text)
        } else if kind == "npy" && !source.is_empty() {
            let mut raw = Vec::new();
            source.load(SampleIndex(0), &mut raw)?;
            let header = NpyHeader::parse(source.part(SampleIndex(0), &raw, part)?)
                .map_err(|e| ReadingError::Header { part: name.to_string(), source: e })?;
            Ok(Reading::Array { dtype: header.dtype(), shape: header.shape().to_vec() })
        } else {
            Ok(Reading::Bytes)
        }
    }

    /// The field that it fills.
    #[must_use]
    pub fn field(&self, name: &str) -> Field {
        match self {
            Reading::Bytes => Field::bytes(name),
            Reading::Text => Field::text(name),
            Reading::Label => Field::fixed(name, DType::I64, []),
            Reading::Array { dtype, shape } | Reading::Elements { dtype, shape } => {
                Field::fixed(name, *dtype, shape.as_slice())
            }
            Reading::Items { dtype, shape, rule } => {
                let axes = std::iter::once(None).chain(shape.iter().copied().map(Some));
                Field::ragged(name, *dtype, axes.collect::<Vec<_>>(), rule.clone())
            }
        }
    }

    /// Writes a part's value as the sample's field `field`; `name` is for messages.
    pub fn write(
        &self,
        name: &str,
        bytes: &[u8],
        sample: &mut Sample<'_>,
        field: usize,
    ) -> Result<(), Cause> {
        match self {
            Reading::Bytes | Reading::Text => sample.put_bytes(field, bytes)?,
            Reading::Elements { shape, .. } => sample.put_elements(field, shape, bytes)?,
            Reading::Items { dtype, shape, .. } => {
                let item =
                    shape.iter().fold(dtype.size(), |bytes, axis| bytes.saturating_mul(*axis));
                let axes = std::iter::once(bytes.len() / item.max(1)).chain(shape.iter().copied());
                sample.put_elements(field, &axes.collect::<Vec<_>>(), bytes)?;
            }
            Reading::Label => sample.put(field, &[parse_label(name, bytes)?])?,
            Reading::Array { dtype, shape } => {
                let part = || name.to_string();
                let header = NpyHeader::parse(bytes)
                    .map_err(|source| ReadingError::Header { part: part(), source })?;
                if header.dtype() != *dtype || header.shape() != shape {
                    let (expected_dtype, expected_shape) = (*dtype, shape.clone());
                    let (dtype, shape) = (header.dtype(), header.shape().to_vec());
                    return Err(ReadingError::Mismatch {
                        part: part(),
                        dtype,
                        shape,
                        expected_dtype,
                        expected_shape,
                    }
                    .into());
                }
                let from = header.data_offset();
                let expected = from.saturating_add(header.data_bytes());
                let Some(data) = bytes.get(from..expected) else {
                    let actual = bytes.len();
                    return Err(ReadingError::Short { part: part(), expected, actual }.into());
                };
                write_array(&header, data, sample.view_bytes(field)?);
            }
        }
        Ok(())
    }
}

/// The number that a part such as `cls` holds.
fn parse_label(part: &str, bytes: &[u8]) -> Result<i64, ReadingError> {
    let digits = bytes.trim_ascii();
    let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<i64>().ok());
    number.ok_or_else(|| {
        let (start, more) = match digits.split_at_checked(40) {
            Some((start, _)) => (start, "…"),
            None => (digits, ""),
        };
        let got = format!("{}{more}", escaped(start));
        let part = part.to_string();
        let unsigned = digits.strip_prefix(b"-").or(digits.strip_prefix(b"+")).unwrap_or(digits);
        if !unsigned.is_empty() && unsigned.iter().all(u8::is_ascii_digit) {
            ReadingError::TooLarge { part, got }
        } else {
            ReadingError::NotANumber { part, got }
        }
    })
}
