//! Several samples of one batch, written together.

use std::ops::Range;

use crate::assemble::{DType, Element, Field, FieldKey, FieldPlace, GroupRows, Schema};
use crate::plan::SampleIndex;

use super::dataset::WriteError;

/// Neighbouring samples of one batch: for each fixed field, one stretch of memory that holds the
/// values of all of them, one after the other.
pub struct Group<'a> {
    indices: &'a [SampleIndex],
    schema: &'a Schema,
    rows: GroupRows<'a>,
    written: &'a mut [bool],
    /// The fields this dataset writes: a range of the loader's, where datasets are joined.
    first: usize,
    count: usize,
}

impl<'a> Group<'a> {
    /// `written` has an entry per field, all false.
    pub(crate) fn new(
        indices: &'a [SampleIndex],
        schema: &'a Schema,
        rows: GroupRows<'a>,
        written: &'a mut [bool],
    ) -> Group<'a> {
        let count = schema.fields().len();
        Group { indices, schema, rows, written, first: 0, count }
    }

    /// The samples that are wanted, in this order.
    #[must_use]
    pub fn indices(&self) -> &'a [SampleIndex] {
        self.indices
    }

    /// The values of a field, sample after sample, to be written in place. What they hold before is
    /// unspecified.
    pub fn rows<T: Element>(&mut self, field: impl FieldKey) -> Result<&mut [T], WriteError> {
        let field = self.find(field)?;
        let declared = self.field(field);
        if !T::is(declared.dtype()) {
            let (expected, got): (DType, DType) = (declared.dtype(), T::DTYPE);
            return Err(WriteError::DType { field: declared.name().to_string(), expected, got });
        }
        self.rows_bytes(field).map(bytemuck::cast_slice_mut)
    }

    /// The same as bytes.
    pub fn rows_bytes(&mut self, field: impl FieldKey) -> Result<&mut [u8], WriteError> {
        let field = self.find(field)?;
        let declared = self.field(field);
        let at = self.first + field;
        match self.schema.place(at) {
            FieldPlace::Row { .. } => {
                self.written[at] = true;
                Ok(self.rows.rows(at))
            }
            FieldPlace::Loose { .. } => {
                Err(WriteError::NoSlot { field: declared.name().to_string() })
            }
        }
    }

    /// Lets another dataset write a part of these samples: its samples `indices`, as many as there are
    /// in the group, into `fields`. Returns what `work` returns, or `false` if the numbers differ.
    pub fn part(
        &mut self,
        indices: &[SampleIndex],
        fields: Range<usize>,
        work: impl FnOnce(&mut Group<'_>) -> bool,
    ) -> bool {
        if indices.len() != self.indices.len() {
            return false;
        }
        let start = fields.start.min(self.count);
        let mut part = Group {
            indices,
            schema: self.schema,
            rows: self.rows.reborrow(),
            written: &mut *self.written,
            first: self.first + start,
            count: fields.len().min(self.count - start),
        };
        work(&mut part)
    }

    fn find(&self, field: impl FieldKey) -> Result<usize, WriteError> {
        let fields = &self.schema.fields()[self.first..self.first + self.count];
        let unknown = || WriteError::NoSuchField { field: field.describe(), count: self.count };
        field.find(fields).ok_or_else(unknown)
    }

    fn field(&self, field: usize) -> &'a Field {
        &self.schema.fields()[self.first + field]
    }
}
