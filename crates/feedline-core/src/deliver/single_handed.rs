//! An engine whose only worker and consumer is the test itself, so that what happens when is no matter of chance.

use std::sync::Arc;
use std::time::Instant;

use crate::engine::{Engine, Step};
use crate::work::{Cause, Dataset, Desk, Sample};
use crate::{Batch, DType, Field, Loader, LoaderBuilder};

use super::Taken;

/// Batches of eight numbers in order.
pub(super) struct SingleHanded {
    pub(super) engine: Arc<Engine>,
    desk: Desk,
    generation: u64,
}

struct Numbers;

impl Dataset for Numbers {
    fn len(&self) -> u64 {
        1024
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("number", DType::U64, [])]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let index = sample.index().0;
        Ok(sample.put(0, &[index])?)
    }
}

impl SingleHanded {
    pub(super) fn new(settings: impl FnOnce(LoaderBuilder) -> LoaderBuilder) -> SingleHanded {
        let loader = settings(Loader::builder(Numbers).batch_size(8).workers(1));
        let engine = loader.engine().expect("the settings are valid").0;
        let generation = engine.restart(0, 0);
        SingleHanded { engine, desk: Desk::new(0), generation }
    }

    /// All that a worker would do before it sleeps.
    pub(super) fn work(&mut self) {
        while matches!(self.engine.step(&mut self.desk), Step::Worked) {}
    }

    /// Asks for the next batch and takes it, if it is there.
    pub(super) fn take(&self) -> Option<Batch> {
        self.engine.count_asked(self.generation, self.engine.now_ns());
        let taken = self.engine.take(self.generation, Some(Instant::now()));
        let Taken::Item(finished, _) = taken else { return None };
        let batch = finished.result.expect("no sample fails");
        batch.hand_over();
        self.engine.count_delivered(self.generation, u64::MAX, self.engine.now_ns());
        Some(batch)
    }
}
