//! Subset: the samples of a given list, in its order or shuffled.

use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder};
use super::error::PlanError;
use super::key::Key;
use super::shuffle::Shuffle;

pub(crate) struct Subset {
    indices: Indices,
    shuffle: bool,
}

/// The list, in 4 bytes per entry where the dataset allows.
#[derive(Clone)]
enum Indices {
    Narrow(Arc<[u32]>),
    Wide(Arc<[u64]>),
}

impl Indices {
    fn len(&self) -> u64 {
        match self {
            Indices::Narrow(list) => list.len() as u64,
            Indices::Wide(list) => list.len() as u64,
        }
    }

    fn get(&self, place: u64) -> u64 {
        match self {
            Indices::Narrow(list) => u64::from(list[place as usize]),
            Indices::Wide(list) => list[place as usize],
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Indices::Narrow(list) => size_of_val::<[u32]>(list),
            Indices::Wide(list) => size_of_val::<[u64]>(list),
        }
    }
}

impl Subset {
    pub(crate) fn new(n: u64, list: Vec<u64>, shuffle: bool) -> Result<Self, PlanError> {
        if list.is_empty() {
            return Err(PlanError::EmptySubset);
        }
        if let Some(position) = list.iter().position(|&index| index >= n) {
            return Err(PlanError::SubsetIndex { position, value: list[position], len: n });
        }
        let indices = if n <= 1 << 32 {
            Indices::Narrow(list.iter().map(|&index| index as u32).collect())
        } else {
            Indices::Wide(list.into())
        };
        Ok(Self { indices, shuffle })
    }
}

impl CheckedOrder for Subset {
    fn name(&self) -> &'static str {
        if self.shuffle { "shuffled subset" } else { "subset" }
    }

    fn tables(&self) -> &'static str {
        "indices"
    }

    fn positions(&self) -> u64 {
        self.indices.len()
    }

    fn epoch(&self, seed: u64, epoch: u64) -> Arc<dyn Arrangement> {
        let shuffle = self.shuffle.then(|| Shuffle::new(self.indices.len(), Key::new(seed, epoch)));
        Arc::new(Chosen { indices: self.indices.clone(), shuffle })
    }

    fn table_bytes(&self) -> usize {
        self.indices.heap_bytes()
    }
}

struct Chosen {
    indices: Indices,
    shuffle: Option<Shuffle>,
}

impl Arrangement for Chosen {
    fn at(&self, position: u64) -> SampleIndex {
        let place = self.shuffle.as_ref().map_or(position, |shuffle| shuffle.apply(position));
        SampleIndex(self.indices.get(place))
    }

    fn map(&self, positions: &mut [SampleIndex]) {
        if let Some(shuffle) = &self.shuffle {
            shuffle.apply_all(positions);
        }
        for slot in positions {
            slot.0 = self.indices.get(slot.0);
        }
    }

    fn table_bytes(&self) -> usize {
        self.shuffle.as_ref().map_or(0, Shuffle::heap_bytes)
    }
}
