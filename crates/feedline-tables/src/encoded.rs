//! Rows as those take them who decode bytes: pictures in a column.

use std::sync::Arc;

use feedline_core::{Cause, DType, Dataset, SampleIndex};
use feedline_sources::{Encoded, Reading};

use crate::columns::flag_name;
use crate::kind::ValueKind;
use crate::table::Table;

/// Bytes of one length in the trailer of a row's raw bytes.
const LENGTH: usize = size_of::<u64>();

/// The columns of a table as parts of encoded samples. Lists of lists whose lengths vary are no part.
pub struct TableColumns {
    table: Arc<Table>,
    names: Vec<String>,
    parts: Vec<ColumnPart>,
}

/// What a part is.
#[derive(Copy, Clone, Debug)]
enum ColumnPart {
    /// The values of a column.
    Values(usize),
    /// Where they are null.
    Flag(usize),
}

impl TableColumns {
    /// Those of a table; `None` where no column has bytes.
    #[must_use]
    pub fn of(table: &Arc<Table>) -> Option<TableColumns> {
        let all = table.columns();
        let has_bytes = |kind: &ValueKind| matches!(kind, ValueKind::Bytes | ValueKind::Picture);
        if !all.iter().any(|column| has_bytes(&column.kind)) {
            return None;
        }
        let is_part = |kind: &ValueKind| match kind {
            ValueKind::Numbers { axes, .. } => axes.iter().skip(1).all(Option::is_some),
            _ => true,
        };
        let values = (0..all.len()).filter(|i| is_part(&all[*i].kind));
        let flags = (0..all.len()).filter(|i| all[*i].flagged);
        let parts: Vec<ColumnPart> =
            values.map(ColumnPart::Values).chain(flags.map(ColumnPart::Flag)).collect();
        let name = |part: &ColumnPart| match part {
            ColumnPart::Values(column) => all[*column].name.clone(),
            ColumnPart::Flag(column) => flag_name(&all[*column].name),
        };
        let names = parts.iter().map(name).collect();
        Some(TableColumns { table: Arc::clone(table), names, parts })
    }

    fn append(
        &self,
        index: SampleIndex,
        parts: &[usize],
        raw: &mut Vec<u8>,
    ) -> Result<Vec<usize>, Cause> {
        self.table.with_row(index, |chunk, row| {
            self.table.check(chunk, row)?;
            let append = |part: &usize| {
                let before = raw.len();
                match self.parts[*part] {
                    ColumnPart::Flag(column) => {
                        raw.push(u8::from(self.table.is_null(chunk, row, column)));
                    }
                    ColumnPart::Values(column) => match &self.table.columns()[column].kind {
                        kind if kind.fixed().is_some() => {
                            self.table.append_fixed(chunk, row, column, raw)?;
                        }
                        ValueKind::Numbers { .. } => {
                            self.table.append_ragged(chunk, row, column, raw)?;
                        }
                        _ => self.table.with_bytes(chunk, row, column, |bytes| {
                            raw.extend_from_slice(bytes);
                            Ok(())
                        })?,
                    },
                }
                Ok(raw.len() - before)
            };
            parts.iter().map(append).collect()
        })
    }
}

impl Encoded for TableColumns {
    fn len(&self) -> u64 {
        Dataset::len(&*self.table)
    }

    fn parts(&self) -> &[String] {
        &self.names
    }

    /// The parts one after the other, then the length of each.
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let all: Vec<usize> = (0..self.parts.len()).collect();
        let lengths = self.append(index, &all, raw)?;
        raw.extend(lengths.into_iter().flat_map(|length| (length as u64).to_le_bytes()));
        Ok(())
    }

    fn part<'a>(
        &'a self,
        _index: SampleIndex,
        raw: &'a [u8],
        part: usize,
    ) -> Result<&'a [u8], Cause> {
        let find = || {
            let split = raw.len().checked_sub(self.parts.len() * LENGTH)?;
            let (bytes, lengths) = raw.split_at(split);
            let lengths = lengths.as_chunks::<LENGTH>().0;
            let length = |part: usize| Some(u64::from_le_bytes(*lengths.get(part)?) as usize);
            let start = (0..part).map(length).sum::<Option<usize>>()?;
            bytes.get(start..start.checked_add(length(part)?)?)
        };
        find().ok_or_else(|| "raw bytes that were not loaded by this table".into())
    }

    fn load_parts(
        &self,
        index: SampleIndex,
        parts: &[usize],
        raw: &mut Vec<u8>,
    ) -> Result<Vec<usize>, Cause> {
        self.append(index, parts, raw)
    }

    fn look_ahead(&self) -> usize {
        self.table.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.table.expect(indices);
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.table.origin(index)
    }

    fn windows(&self) -> Option<(&[u64], u64)> {
        self.table.windows()
    }

    fn reading(&self, part: usize) -> Option<Reading> {
        let column = match self.parts.get(part)? {
            ColumnPart::Values(column) => *column,
            ColumnPart::Flag(_) => {
                return Some(Reading::Elements { dtype: DType::Bool, shape: Vec::new() });
            }
        };
        let kind = &self.table.columns()[column].kind;
        Some(match (kind.fixed(), kind) {
            (Some((dtype, shape)), _) => Reading::Elements { dtype, shape },
            (None, ValueKind::Numbers { dtype, axes }) => Reading::Items {
                dtype: *dtype,
                shape: axes.iter().skip(1).copied().collect::<Option<_>>()?,
                rule: self.table.ragged().clone(),
            },
            (None, ValueKind::Text) => Reading::Text,
            _ => Reading::Bytes,
        })
    }
}
