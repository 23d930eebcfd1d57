//! Encoded samples as a dataset, without decoding pictures.

use std::sync::Arc;

use feedline_core::{Cause, DType, Dataset, Field, Iterable, Sample, SampleIndex};

use crate::some_parts::{FieldSource, SomeParts};
use crate::{Encoded, Reading};

/// The parts of encoded samples as fields: labels as numbers, text as text, arrays as arrays, and
/// everything else, pictures too, as bytes. Where the source knows classes, the field `label` comes
/// last.
pub struct Parts {
    source: Arc<dyn Encoded>,
    readings: Vec<Reading>,
}

impl Parts {
    /// With a reading for each part, in their order; parts beyond those given are bytes.
    #[must_use]
    pub fn new(source: Arc<dyn Encoded>, mut readings: Vec<Reading>) -> Parts {
        readings.resize(source.parts().len(), Reading::Bytes);
        Parts { source, readings }
    }

    /// Each part read as its name says. Looks at the first sample where that is needed.
    pub fn by_name(source: Arc<dyn Encoded>) -> Result<Parts, Cause> {
        let all = 0..source.parts().len();
        let readings =
            all.map(|part| Reading::by_name(&*source, part)).collect::<Result<_, _>>()?;
        Ok(Parts { source, readings })
    }
}

impl Dataset for Parts {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn fields(&self) -> Vec<Field> {
        let parts = self.source.parts().iter().zip(&self.readings);
        let label = self.source.classes().map(|_| Field::fixed("label", DType::I64, []));
        parts.map(|(name, reading)| reading.field(name)).chain(label).collect()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.source.load(index, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let index = sample.index();
        for (part, (name, reading)) in self.source.parts().iter().zip(&self.readings).enumerate() {
            reading.write(name, self.source.part(index, raw, part)?, sample, part)?;
        }
        if let Some(label) = self.source.label(index) {
            sample.put(self.readings.len(), &[label])?;
        }
        Ok(())
    }

    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let wanted = |field: &usize| match self.readings.get(*field) {
            Some(reading) => FieldSource::Part(*field, reading.clone()),
            None => FieldSource::Label,
        };
        let all = self.fields();
        let named = fields.iter().map(|field| all.get(*field).cloned()).collect::<Option<_>>()?;
        let wanted = fields.iter().map(wanted).collect();
        Some(Arc::new(SomeParts::new(Arc::clone(&self.source), wanted, named)))
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        self.source.iterable()
    }

    fn look_ahead(&self) -> usize {
        self.source.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.source.expect(indices);
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.source.cost_hint(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.source.origin(index)
    }
}
