//! Subset: the samples of a given list, in its order or shuffled.

use std::collections::HashSet;
use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder};
use super::error::PlanError;
use super::key::Key;
use super::shuffle::Shuffle;

pub(crate) struct Subset {
    indices: Indices,
    /// Which entries were in the list before, a bit each; none if no sample is listed twice.
    again: Option<Arc<[u64]>>,
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
        let again = again(n, &list);
        let indices = if n <= 1 << 32 {
            Indices::Narrow(list.iter().map(|&index| index as u32).collect())
        } else {
            Indices::Wide(list.into())
        };
        Ok(Self { indices, again, shuffle })
    }
}

/// Which entries of a list were in it before, a bit each; `None` if none was.
fn again(n: u64, list: &[u64]) -> Option<Arc<[u64]>> {
    // A bit per sample of the dataset where that takes no more than the list itself.
    let is_dense = n.div_ceil(64) <= list.len() as u64;
    let mut bits = vec![0; if is_dense { n.div_ceil(64) as usize } else { 0 }];
    let mut set = HashSet::new();
    let mut is_new = |index: u64| if is_dense { mark(&mut bits, index) } else { set.insert(index) };
    let mut again = vec![0; list.len().div_ceil(64)];
    let mut any = false;
    for (place, &index) in (0..).zip(list) {
        if !is_new(index) {
            any = mark(&mut again, place);
        }
    }
    any.then(|| again.into())
}

/// Sets a bit, and returns whether that is new.
fn mark(bits: &mut [u64], at: u64) -> bool {
    let (word, bit) = (&mut bits[(at / 64) as usize], 1 << (at % 64));
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
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
        Arc::new(Chosen { indices: self.indices.clone(), again: self.again.clone(), shuffle })
    }

    fn table_bytes(&self) -> usize {
        self.indices.heap_bytes() + self.again.as_deref().map_or(0, size_of_val::<[u64]>)
    }
}

struct Chosen {
    indices: Indices,
    again: Option<Arc<[u64]>>,
    shuffle: Option<Shuffle>,
}

impl Chosen {
    /// Which entry of the list.
    fn entry(&self, position: u64) -> u64 {
        self.shuffle.as_ref().map_or(position, |shuffle| shuffle.apply(position))
    }
}

impl Arrangement for Chosen {
    fn at(&self, position: u64) -> SampleIndex {
        SampleIndex(self.indices.get(self.entry(position)))
    }

    fn repeats(&self) -> bool {
        self.again.is_some()
    }

    fn repeat(&self, position: u64) -> u64 {
        let Some(again) = &self.again else { return 0 };
        let entry = self.entry(position);
        let is_again = again[(entry / 64) as usize] >> (entry % 64) & 1 == 1;
        if is_again { entry + 1 } else { 0 }
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
