//! Some parts of encoded samples, read without the others.

use std::sync::Arc;

use feedline_core::{Cause, Dataset, Field, Group, Sample, SampleIndex};

use crate::zip::{LENGTH, NOT_OURS};
use crate::{Encoded, Reading};

/// What becomes a field.
pub(crate) enum FieldSource {
    /// The class that the source knows.
    Label,
    /// A part that is no picture.
    Part(usize, Reading),
}

/// Samples of some parts: what [`Dataset::only`] makes of encoded samples.
pub(crate) struct SomeParts {
    source: Arc<dyn Encoded>,
    wanted: Vec<FieldSource>,
    fields: Vec<Field>,
    /// Those that are read.
    parts: Vec<usize>,
}

impl SomeParts {
    /// `fields` says what each of `wanted` is called.
    pub(crate) fn new(
        source: Arc<dyn Encoded>,
        wanted: Vec<FieldSource>,
        fields: Vec<Field>,
    ) -> SomeParts {
        let part = |wanted: &FieldSource| match wanted {
            FieldSource::Label => None,
            FieldSource::Part(part, _) => Some(*part),
        };
        let parts = wanted.iter().filter_map(part).collect();
        SomeParts { source, wanted, fields, parts }
    }

    fn label(&self, index: SampleIndex) -> Result<i64, Cause> {
        self.source.label(index).ok_or_else(|| format!("sample {} has no label", index.0).into())
    }
}

impl Dataset for SomeParts {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    /// The parts one after the other, then the length of each.
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        if !self.parts.is_empty() {
            let lengths = self.source.load_parts(index, &self.parts, raw)?;
            raw.extend(lengths.into_iter().flat_map(|length| (length as u64).to_le_bytes()));
        }
        Ok(())
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let index = sample.index();
        let split = raw.len().checked_sub(self.parts.len() * LENGTH).ok_or(NOT_OURS)?;
        let (mut rest, lengths) = raw.split_at(split);
        let mut lengths = lengths.as_chunks::<LENGTH>().0.iter().map(|n| u64::from_le_bytes(*n));
        for (field, wanted) in self.wanted.iter().enumerate() {
            match wanted {
                FieldSource::Label => sample.put(field, &[self.label(index)?])?,
                FieldSource::Part(part, reading) => {
                    let length = lengths.next().and_then(|n| usize::try_from(n).ok());
                    let own;
                    (own, rest) = rest.split_at_checked(length.ok_or(NOT_OURS)?).ok_or(NOT_OURS)?;
                    reading.write(&self.source.parts()[*part], own, sample, field)?;
                }
            }
        }
        Ok(())
    }

    /// Where labels are all there is, nothing is read.
    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let indices = group.indices();
        if !self.parts.is_empty() {
            return false;
        }
        (0..self.wanted.len()).all(|field| {
            let Ok(rows) = group.rows::<i64>(field) else { return false };
            rows.iter_mut().zip(indices).all(|(row, index)| {
                let label = self.source.label(*index);
                *row = label.unwrap_or_default();
                label.is_some()
            })
        })
    }

    /// Where parts are read, the whole samples: that is one request as well.
    fn look_ahead(&self) -> usize {
        if self.parts.is_empty() { 0 } else { self.source.look_ahead() }
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.source.expect_parts(indices, &self.parts);
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.source.origin(index)
    }
}
