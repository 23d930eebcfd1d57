//! What one sample consists of: named fields with a dtype and a shape.

use std::sync::Arc;

use super::dtype::DType;

/// One named array of a sample and how its values of a whole batch are put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    name: Arc<str>,
    dtype: DType,
    form: Form,
}

/// The form of a [`Field`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Form {
    /// The same shape in each sample: workers write straight into the batch.
    Fixed {
        /// The shape of one sample's value; empty for a scalar.
        shape: Vec<usize>,
    },
    /// A shape that differs from sample to sample along the axes that are `None`.
    Ragged {
        /// `None` where the length varies.
        shape: Vec<Option<usize>>,
        /// How values of different length share a batch.
        rule: Ragged,
    },
    /// Any number of bytes, delivered packed with offsets; `text` promises UTF-8.
    Bytes {
        /// Whether each value must be valid UTF-8.
        text: bool,
    },
}

/// How ragged values share one array.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Ragged {
    /// Pad each value to the longest of its batch; `<name>_lengths` tells the true lengths.
    PadToLongest {
        /// The padding, converted to the field's dtype.
        fill: f64,
    },
    /// Pad each value to one shape; a longer value is an error of its sample.
    /// `<name>_lengths` tells the true lengths.
    PadTo {
        /// The shape each value is padded to.
        shape: Vec<usize>,
        /// The padding, converted to the field's dtype.
        fill: f64,
    },
    /// Pad the one axis of a sequence to the longest of its batch, rounded up to a multiple, in front of the values or behind
    /// them. `<name>_lengths` tells the true lengths, or `<name>_mask` which places hold values.
    Sequence {
        /// What padded lengths are a multiple of, at least 1.
        multiple: usize,
        /// Whether the padding comes in front.
        left: bool,
        /// The padding, converted to the field's dtype.
        fill: f64,
        /// Whether a mask comes along in place of lengths.
        mask: bool,
    },
    /// Concatenate along the first axis; `<name>_offsets` has one entry more than there are samples.
    /// Only the first axis may vary.
    Packed,
}

impl Ragged {
    /// Whether a value of this shape may be put under the rule at all.
    pub(crate) fn admits(&self, shape: &[usize]) -> bool {
        match self {
            Ragged::PadTo { shape: to, .. } => shape.iter().zip(to).all(|(s, t)| s <= t),
            Ragged::PadToLongest { .. } | Ragged::Sequence { .. } | Ragged::Packed => true,
        }
    }
}

/// Why a [`Field`] or a list of them is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// A dataset without fields.
    #[error("the dataset has no fields; return at least one `Field` from `Dataset::fields`")]
    None,
    /// Two fields with one name.
    #[error("two fields are called `{0}`; give each its own name")]
    Duplicate(String),
    /// A field with the name of an array that another one brings along.
    #[error(
        "field `{field}` brings an array `{name}` along, which another field is called; rename that one"
    )]
    Companion {
        /// The field whose length varies.
        field: String,
        /// The name that is needed twice.
        name: String,
    },
    /// A shape whose size in bytes does not fit the address space.
    #[error("field `{name}` of shape {shape:?} is too large; split it or check its shape")]
    TooLarge {
        /// The field's name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A ragged field without a varying axis, or packed along another axis than the first.
    #[error("ragged field `{name}`: {why}")]
    Ragged {
        /// The field's name.
        name: String,
        /// What is wrong and what to write instead.
        why: String,
    },
}

impl Field {
    /// A field with the same shape in each sample; `[]` for a scalar.
    pub fn fixed(name: &str, dtype: DType, shape: impl Into<Vec<usize>>) -> Field {
        Field { name: name.into(), dtype, form: Form::Fixed { shape: shape.into() } }
    }

    /// A field whose length differs along the axes given as `None`.
    pub fn ragged(
        name: &str,
        dtype: DType,
        shape: impl Into<Vec<Option<usize>>>,
        rule: Ragged,
    ) -> Field {
        Field { name: name.into(), dtype, form: Form::Ragged { shape: shape.into(), rule } }
    }

    /// A field of raw bytes of any length.
    pub fn bytes(name: &str) -> Field {
        Field { name: name.into(), dtype: DType::U8, form: Form::Bytes { text: false } }
    }

    /// A field of UTF-8 text of any length.
    pub fn text(name: &str) -> Field {
        Field { name: name.into(), dtype: DType::U8, form: Form::Bytes { text: true } }
    }

    /// The same field under another name.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Field {
        Field { name: name.into(), ..self.clone() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dtype of its elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its form.
    #[must_use]
    pub fn form(&self) -> &Form {
        &self.form
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// The shape a slot of the batch is reserved for, if it is known before the sample exists.
    pub(crate) fn slot_shape(&self) -> Option<&[usize]> {
        match &self.form {
            Form::Fixed { shape } => Some(shape),
            _ => None,
        }
    }

    /// The name of the array that says how long each value is, where that varies.
    fn companion(&self) -> Option<String> {
        match &self.form {
            Form::Fixed { .. } => None,
            Form::Ragged { rule: Ragged::Sequence { mask: true, .. }, .. } => {
                Some(format!("{}_mask", self.name))
            }
            Form::Ragged {
                rule: Ragged::PadTo { .. } | Ragged::PadToLongest { .. } | Ragged::Sequence { .. },
                ..
            } => Some(format!("{}_lengths", self.name)),
            Form::Ragged { .. } | Form::Bytes { .. } => Some(format!("{}_offsets", self.name)),
        }
    }

    fn check(&self) -> Result<(), FieldError> {
        let name = || self.name.to_string();
        match &self.form {
            Form::Fixed { shape } => {
                row_bytes(self.dtype, shape)
                    .ok_or_else(|| FieldError::TooLarge { name: name(), shape: shape.clone() })?;
            }
            Form::Ragged { shape, rule } => {
                if shape.iter().all(Option::is_some) {
                    let why =
                        "no axis varies; use `Field::fixed`, or `None` for the axis that does";
                    return Err(FieldError::Ragged { name: name(), why: why.into() });
                }
                match rule {
                    Ragged::PadTo { shape: to, .. } => {
                        let fits = to.len() == shape.len()
                            && shape.iter().zip(to).all(|(s, t)| s.is_none_or(|s| s == *t));
                        if !fits {
                            let why = format!(
                                "cannot pad {shape:?} to {to:?}; give one length per axis and keep the fixed ones"
                            );
                            return Err(FieldError::Ragged { name: name(), why });
                        }
                        row_bytes(self.dtype, to).ok_or_else(|| FieldError::TooLarge {
                            name: name(),
                            shape: to.clone(),
                        })?;
                    }
                    Ragged::Packed if shape[1..].iter().any(Option::is_none) => {
                        let why = "only the first axis of a packed field may vary; pad the others";
                        return Err(FieldError::Ragged { name: name(), why: why.into() });
                    }
                    Ragged::Sequence { multiple, .. } if *multiple == 0 || shape.len() != 1 => {
                        let why =
                            "a sequence has one axis and is padded to a multiple of at least 1";
                        return Err(FieldError::Ragged { name: name(), why: why.into() });
                    }
                    Ragged::Packed | Ragged::PadToLongest { .. } | Ragged::Sequence { .. } => {}
                }
            }
            Form::Bytes { .. } => {}
        }
        Ok(())
    }
}

/// Bytes of one value, or `None` where they overflow.
pub(crate) fn row_bytes(dtype: DType, shape: &[usize]) -> Option<usize> {
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &axis| bytes.checked_mul(axis))?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// Refuses lists of fields that no batch can be made of.
pub(crate) fn check(fields: &[Field]) -> Result<(), FieldError> {
    if fields.is_empty() {
        return Err(FieldError::None);
    }
    for (i, field) in fields.iter().enumerate() {
        field.check()?;
        if fields[..i].iter().any(|other| other.name == field.name) {
            return Err(FieldError::Duplicate(field.name.to_string()));
        }
        if let Some(name) = field.companion()
            && fields.iter().any(|other| *other.name == *name)
        {
            return Err(FieldError::Companion { field: field.name.to_string(), name });
        }
    }
    Ok(())
}

/// Says which field of a sample is meant: its number, or its name.
pub trait FieldKey: Copy {
    /// The number of the field among these.
    fn find(self, fields: &[Field]) -> Option<usize>;

    /// How to name it in a message.
    fn describe(self) -> String;
}

impl FieldKey for usize {
    fn find(self, fields: &[Field]) -> Option<usize> {
        (self < fields.len()).then_some(self)
    }

    fn describe(self) -> String {
        self.to_string()
    }
}

impl FieldKey for &str {
    fn find(self, fields: &[Field]) -> Option<usize> {
        fields.iter().position(|field| field.name() == self)
    }

    fn describe(self) -> String {
        format!("`{self}`")
    }
}
