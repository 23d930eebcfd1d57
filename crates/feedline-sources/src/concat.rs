//! Several datasets one after the other.

use std::sync::Arc;

use feedline_core::{Cause, Dataset, Field, Form, Group, Sample, SampleIndex};

use crate::{SourceError, only};

/// Fields as a user reads them: `image: float32 [3, 224, 224], label: int64 []`.
fn describe(fields: &[Field]) -> String {
    let field = |field: &Field| {
        let (name, dtype) = (field.name(), field.dtype());
        match field.form() {
            Form::Fixed { shape } => format!("{name}: {dtype} {shape:?}"),
            Form::Ragged { shape, rule } => {
                let axes =
                    shape.iter().map(|axis| axis.map_or("*".into(), |axis| axis.to_string()));
                let axes: Vec<String> = axes.collect();
                format!("{name}: {dtype} [{}], {rule:?}", axes.join(", "))
            }
            Form::Bytes { text: true } => format!("{name}: text"),
            _ => format!("{name}: bytes"),
        }
    };
    fields.iter().map(field).collect::<Vec<_>>().join(", ")
}

/// Datasets with the same fields, as one: first all samples of the first, then of the second…
pub struct Concat {
    parts: Vec<Arc<dyn Dataset>>,
    /// Where each part ends.
    ends: Vec<u64>,
}

impl Concat {
    /// Refuses parts whose fields differ from the first's.
    pub fn new(parts: Vec<Arc<dyn Dataset>>) -> Result<Concat, SourceError> {
        Concat::join(parts, |a, b| a == b)
    }

    fn join(
        parts: Vec<Arc<dyn Dataset>>,
        alike: impl Fn(&[Field], &[Field]) -> bool,
    ) -> Result<Concat, SourceError> {
        let first = parts.first().ok_or(SourceError::NothingToJoin { what: "concat" })?.fields();
        let mut ends = Vec::with_capacity(parts.len());
        let mut end = 0u64;
        for (number, part) in parts.iter().enumerate() {
            if part.iterable().is_some() {
                return Err(SourceError::UnknownLength { what: "concat" });
            }
            let fields = part.fields();
            if !alike(&first, &fields) {
                return Err(SourceError::FieldsDiffer {
                    part: number,
                    first: describe(&first),
                    other: describe(&fields),
                });
            }
            end = end.checked_add(part.len()).ok_or(SourceError::TooManySamples)?;
            ends.push(end);
        }
        Ok(Concat { parts, ends })
    }

    /// The same for parts whose fields may have different names; the first's count.
    pub fn by_place(parts: Vec<Arc<dyn Dataset>>) -> Result<Concat, SourceError> {
        Concat::join(parts, |a, b| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| *a == b.renamed(a.name()))
        })
    }

    /// The part a sample is in, and its index there.
    fn inside(&self, index: SampleIndex) -> Result<(&dyn Dataset, SampleIndex), Cause> {
        let part = self.ends.partition_point(|end| *end <= index.0);
        let dataset =
            self.parts.get(part).ok_or_else(|| format!("there is no sample {}", index.0))?;
        let before = if part == 0 { 0 } else { self.ends[part - 1] };
        Ok((&**dataset, SampleIndex(index.0 - before)))
    }
}

impl Dataset for Concat {
    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn fields(&self) -> Vec<Field> {
        self.parts[0].fields()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let (part, inside) = self.inside(index)?;
        part.load(inside, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let (part, inside) = self.inside(sample.index())?;
        sample.part(inside, 0..usize::MAX, |sample| part.build(raw, sample))
    }

    /// As long as all of a group are in one part; where parts meet, samples are made one by one.
    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let indices = group.indices();
        let part_of = |index: &SampleIndex| self.ends.partition_point(|end| *end <= index.0);
        let Some(part) = indices.first().map(part_of) else { return false };
        let Some(dataset) = self.parts.get(part) else { return false };
        if !indices.iter().all(|index| part_of(index) == part) {
            return false;
        }
        let before = if part == 0 { 0 } else { self.ends[part - 1] };
        let inside: Vec<_> = indices.iter().map(|index| SampleIndex(index.0 - before)).collect();
        group.part(&inside, 0..usize::MAX, |group| dataset.build_group(group))
    }

    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let parts = self.parts.iter().map(|part| only(part, fields)).collect::<Option<_>>()?;
        Some(Arc::new(Concat { parts, ends: self.ends.clone() }))
    }

    fn look_ahead(&self) -> usize {
        self.parts.iter().map(|part| part.look_ahead()).max().unwrap_or(0)
    }

    fn expect(&self, indices: &[SampleIndex]) {
        for index in indices {
            if let Ok((part, inside)) = self.inside(*index) {
                part.expect(&[inside]);
            }
        }
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        let (part, inside) = self.inside(index).ok()?;
        part.cost_hint(inside)
    }

    fn known_length(&self, index: SampleIndex, field: usize) -> Option<u64> {
        let (part, inside) = self.inside(index).ok()?;
        part.known_length(inside, field)
    }

    fn read_part(
        &self,
        index: SampleIndex,
        field: usize,
        start: u64,
        out: &mut [u8],
    ) -> Result<bool, Cause> {
        let (part, inside) = self.inside(index)?;
        part.read_part(inside, field, start, out)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        let (part, inside) = self.inside(index).ok()?;
        part.origin(inside)
    }
}
