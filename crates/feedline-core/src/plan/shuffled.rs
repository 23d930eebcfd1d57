//! Shuffled: every sample once per epoch, in a new order each epoch.

use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder};
use super::key::Key;
use super::shuffle::Shuffle;

pub(crate) struct Shuffled {
    pub(crate) n: u64,
}

impl CheckedOrder for Shuffled {
    fn name(&self) -> &'static str {
        "shuffled"
    }

    fn positions(&self) -> u64 {
        self.n
    }

    fn epoch(&self, seed: u64, epoch: u64) -> Arc<dyn Arrangement> {
        Arc::new(Shuffle::new(self.n, Key::new(seed, epoch)))
    }

    fn table_bytes(&self) -> usize {
        0
    }
}

impl Arrangement for Shuffle {
    fn at(&self, position: u64) -> SampleIndex {
        SampleIndex(self.apply(position))
    }

    fn map(&self, positions: &mut [SampleIndex]) {
        self.apply_all(positions);
    }

    fn table_bytes(&self) -> usize {
        self.heap_bytes()
    }
}
