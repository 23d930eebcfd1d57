//! Sequential: the samples as the dataset numbers them, the same every epoch.

use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder};

#[derive(Copy, Clone)]
pub(crate) struct Sequential {
    pub(crate) n: u64,
}

impl CheckedOrder for Sequential {
    fn name(&self) -> &'static str {
        "sequential"
    }

    fn positions(&self) -> u64 {
        self.n
    }

    fn epoch(&self, _seed: u64, _epoch: u64) -> Arc<dyn Arrangement> {
        Arc::new(*self)
    }

    fn table_bytes(&self) -> usize {
        0
    }
}

impl Arrangement for Sequential {
    fn at(&self, position: u64) -> SampleIndex {
        SampleIndex(position)
    }

    fn map(&self, _positions: &mut [SampleIndex]) {}

    fn table_bytes(&self) -> usize {
        0
    }
}
