//! Fields with the places of their values: in the batch, and in a sample that is not placed yet.

use std::sync::Arc;

use super::field::{self, Field, FieldError, Form, Ragged};
use super::parcel::Parcel;
use super::pool::ALIGN;

/// Values inside a [parcel](super::parcel) start at multiples of this, the largest element size.
const RECORD_ALIGN: usize = 16;

/// A checked list of fields and where their values lie.
#[derive(Debug)]
pub(crate) struct Schema {
    fields: Vec<Field>,
    places: Vec<FieldPlace>,
    record_bytes: usize,
    variable: usize,
}

/// Where one field's value lies.
#[derive(Copy, Clone, Debug)]
pub(crate) enum FieldPlace {
    /// A fixed shape: `bytes` of the batch's row, or at `offset` of an unplaced sample's record.
    Row { bytes: usize, offset: usize },
    /// A length of its own: the `part`-th of an unplaced sample's loose parts.
    Loose { part: usize },
}

impl Schema {
    pub(crate) fn new(fields: Vec<Field>) -> Result<Schema, FieldError> {
        field::check(&fields)?;
        let (mut record_bytes, mut variable) = (0usize, 0);
        let mut places = Vec::with_capacity(fields.len());
        for field in &fields {
            places.push(match field.slot_shape() {
                Some(shape) => {
                    let too_large = || FieldError::TooLarge {
                        name: field.name().to_string(),
                        shape: shape.to_vec(),
                    };
                    let bytes = field::row_bytes(field.dtype(), shape).ok_or_else(too_large)?;
                    let offset = record_bytes;
                    record_bytes = bytes
                        .checked_next_multiple_of(RECORD_ALIGN)
                        .and_then(|b| b.checked_add(offset))
                        .filter(|total| *total <= isize::MAX as usize)
                        .ok_or_else(too_large)?;
                    FieldPlace::Row { bytes, offset }
                }
                None => {
                    variable += 1;
                    FieldPlace::Loose { part: variable - 1 }
                }
            });
        }
        Ok(Schema { fields, places, record_bytes, variable })
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub(crate) fn place(&self, field: usize) -> FieldPlace {
        self.places[field]
    }

    /// Bytes of all fixed values of one sample, each padded to the record's alignment.
    pub(crate) fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// How many fields have a length of their own.
    pub(crate) fn variable(&self) -> usize {
        self.variable
    }

    /// Bytes of the text and bytes of a sample.
    pub(crate) fn string_bytes(&self, parcel: &Parcel) -> usize {
        let bytes = |(field, place): (&Field, &FieldPlace)| match (field.form(), place) {
            (Form::Bytes { .. }, FieldPlace::Loose { part }) => {
                parcel.parts[*part].data.bytes().len()
            }
            _ => 0,
        };
        self.fields.iter().zip(&self.places).map(bytes).sum()
    }

    /// Whether values are padded to the longest of their batch.
    pub(crate) fn is_padded(&self) -> bool {
        let pads = |field: &Field| {
            matches!(
                field.form(),
                Form::Ragged { rule: Ragged::PadToLongest { .. } | Ragged::Sequence { .. }, .. }
            )
        };
        self.fields.iter().any(pads)
    }

    /// Bytes of all fixed values of one sample, without padding.
    pub(crate) fn row_bytes(&self) -> usize {
        self.places
            .iter()
            .map(|p| if let FieldPlace::Row { bytes, .. } = p { *bytes } else { 0 })
            .sum()
    }

    /// Where each fixed field starts in a batch of `rows`, and the bytes of the whole.
    pub(crate) fn layout(&self, rows: usize) -> Option<BatchLayout> {
        let mut end = 0usize;
        let mut starts = Vec::with_capacity(self.places.len());
        for place in &self.places {
            starts.push(end);
            if let FieldPlace::Row { bytes, .. } = place {
                let bytes = bytes.checked_mul(rows)?.checked_next_multiple_of(ALIGN)?;
                end = end.checked_add(bytes)?;
            }
        }
        (end <= isize::MAX as usize).then_some(BatchLayout { starts: starts.into(), bytes: end })
    }
}

/// Where each fixed field of a batch starts.
#[derive(Clone, Debug)]
pub(crate) struct BatchLayout {
    pub(crate) starts: Arc<[usize]>,
    pub(crate) bytes: usize,
}
