//! Several datasets side by side.

use std::cell::Cell;
use std::sync::Arc;

use feedline_core::{Cause, Dataset, Field, Group, Sample, SampleIndex};

use crate::{SourceError, only};

/// Datasets of equal length whose fields together make one sample: sample i has all fields of every
/// part's sample i.
///
/// ```
/// # use feedline_core::DType;
/// # use feedline_sources::{Zip, npy};
/// # let dir = tempfile::tempdir()?;
/// # for (name, n) in [("images.npy", 2), ("labels.npy", 3)] {
/// #     let mut writer = npy::Writer::create(dir.path().join(name), DType::I64, [])?;
/// #     for i in 0..n { writer.row(&[i as i64])?; }
/// #     writer.finish()?;
/// # }
/// let images = npy::Packed::open(dir.path().join("images.npy"), "image")?;
/// let labels = npy::Packed::open(dir.path().join("labels.npy"), "label")?;
/// let error = Zip::of(images).and(labels).unwrap_err();
/// assert!(error.to_string().starts_with("field `image` has 2 samples and field `label` has 3"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Zip {
    parts: Vec<Arc<dyn Dataset>>,
    fields: Vec<Field>,
    /// Where each part's fields end.
    ends: Vec<usize>,
}

impl Zip {
    /// Begins with one dataset.
    #[must_use]
    pub fn of(first: impl Dataset) -> Zip {
        let fields = first.fields();
        Zip { ends: vec![fields.len()], fields, parts: vec![Arc::new(first)] }
    }

    /// Puts another dataset beside those that are there. It must be as long as they are, and its
    /// fields must have other names.
    pub fn and(self, next: impl Dataset) -> Result<Zip, SourceError> {
        let fields = next.fields();
        self.with(Arc::new(next), fields)
    }

    /// All parts at once.
    pub fn new(parts: Vec<Arc<dyn Dataset>>) -> Result<Zip, SourceError> {
        Zip::join(parts, |_, _, field| field)
    }

    /// All parts at once. Fields that are called by a number, or as one before them, are called by their
    /// place: 0, 1, 2…
    pub fn by_place(parts: Vec<Arc<dyn Dataset>>) -> Result<Zip, SourceError> {
        Zip::join(parts, |before, place, field| {
            let number = field.name().bytes().all(|letter| letter.is_ascii_digit());
            if number || before.iter().any(|other| other.name() == field.name()) {
                return field.renamed(&place.to_string());
            }
            field
        })
    }

    fn join(
        parts: Vec<Arc<dyn Dataset>>,
        name: impl Fn(&[Field], usize, Field) -> Field,
    ) -> Result<Zip, SourceError> {
        if parts.is_empty() {
            return Err(SourceError::NothingToJoin { what: "zip" });
        }
        let mut zip = Zip { parts: Vec::new(), fields: Vec::new(), ends: Vec::new() };
        for part in parts {
            let fields = part.fields().into_iter().enumerate();
            let first = zip.fields.len();
            let fields = fields.map(|(i, field)| name(&zip.fields, first + i, field)).collect();
            zip = zip.with(part, fields)?;
        }
        Ok(zip)
    }

    fn with(mut self, next: Arc<dyn Dataset>, fields: Vec<Field>) -> Result<Zip, SourceError> {
        let twice = fields.iter().find(|new| self.fields.iter().any(|f| f.name() == new.name()));
        if let Some(twice) = twice {
            return Err(SourceError::DuplicateField { name: twice.name().to_string() });
        }
        if !self.parts.is_empty() && self.len() != next.len() {
            let name = |fields: &[Field]| fields.first().map_or("", Field::name).to_string();
            return Err(SourceError::Lengths {
                first: name(&self.fields),
                first_len: self.len(),
                second: name(&fields),
                second_len: next.len(),
            });
        }
        self.fields.extend(fields);
        self.ends.push(self.fields.len());
        self.parts.push(next);
        Ok(self)
    }

    /// Each part with its range of the fields.
    fn ranges(&self) -> impl Iterator<Item = (&dyn Dataset, std::ops::Range<usize>)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).map(|(start, end)| start..*end);
        self.parts.iter().map(|part| &**part).zip(ranges)
    }
}

/// Bytes of one length in the trailer of a sample's raw bytes.
pub(crate) const LENGTH: usize = size_of::<u64>();
pub(crate) const NOT_OURS: &str = "raw bytes that were not loaded by this dataset";

thread_local! {
    /// Where a part loads its bytes before they are appended to the others'. Nested zips find it taken
    /// and make one of their own.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Dataset for Zip {
    fn len(&self) -> u64 {
        self.parts[0].len()
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    /// The parts' raw bytes one after the other, then the length of each; nothing at all if none of
    /// them loads anything.
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let mut spare = SPARE.take();
        let mut lengths = Vec::new();
        for (i, part) in self.parts.iter().enumerate() {
            spare.clear();
            part.load(index, &mut spare)?;
            if !spare.is_empty() {
                // Parts that load nothing never come here, so they cost no allocation.
                lengths.resize(self.parts.len(), 0u64);
                lengths[i] = spare.len() as u64;
                raw.extend_from_slice(&spare);
            }
        }
        raw.extend(lengths.into_iter().flat_map(u64::to_le_bytes));
        SPARE.set(spare);
        Ok(())
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let trailer = if raw.is_empty() { 0 } else { self.parts.len() * LENGTH };
        let split = raw.len().checked_sub(trailer).ok_or(NOT_OURS)?;
        let (mut rest, lengths) = raw.split_at(split);
        let mut lengths = lengths.chunks_exact(LENGTH);
        for (part, fields) in self.ranges() {
            let length = match lengths.next() {
                Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("chunks of this size")),
                None => 0,
            };
            let own;
            (own, rest) = rest.split_at_checked(length as usize).ok_or(NOT_OURS)?;
            sample.part(sample.index(), fields, |sample| part.build(own, sample))?;
        }
        Ok(())
    }

    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let indices = group.indices();
        self.ranges()
            .all(|(part, fields)| group.part(indices, fields, |group| part.build_group(group)))
    }

    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let mut zip = Zip { parts: Vec::new(), fields: Vec::new(), ends: Vec::new() };
        let part_of = |field: &usize| self.ends.partition_point(|end| end <= field);
        // Neighbours of one part stay together.
        for wanted in fields.chunk_by(|a, b| part_of(a) == part_of(b)) {
            let part = part_of(&wanted[0]);
            let first = if part == 0 { 0 } else { self.ends[part - 1] };
            let inside: Vec<usize> = wanted.iter().map(|field| field - first).collect();
            zip.parts.push(only(self.parts.get(part)?, &inside)?);
            zip.fields.extend(wanted.iter().map(|field| self.fields[*field].clone()));
            zip.ends.push(zip.fields.len());
        }
        (!zip.parts.is_empty()).then(|| Arc::new(zip) as Arc<dyn Dataset>)
    }

    fn look_ahead(&self) -> usize {
        self.parts.iter().map(|part| part.look_ahead()).max().unwrap_or(0)
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.parts.iter().for_each(|part| part.expect(indices));
    }

    /// The sum of those that the parts know.
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        let hints = self.parts.iter().filter_map(|part| part.cost_hint(index));
        hints.reduce(u64::saturating_add)
    }

    fn known_length(&self, index: SampleIndex, field: usize) -> Option<u64> {
        let (part, range) = self.ranges().find(|(_, range)| range.contains(&field))?;
        part.known_length(index, field - range.start)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        let origins: Vec<String> =
            self.parts.iter().filter_map(|part| part.origin(index)).collect();
        (!origins.is_empty()).then(|| origins.join(" + "))
    }
}

impl std::fmt::Debug for Zip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zip").field("len", &self.len()).field("fields", &self.fields).finish()
    }
}
