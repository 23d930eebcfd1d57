//! The two traits an order implements: what it keeps for ever, and what it keeps for one epoch.

use std::ops::Range;
use std::sync::Arc;

use super::SampleIndex;

/// An order that has been checked and holds its tables.
pub(crate) trait CheckedOrder: Send + Sync {
    /// The order's name, for people.
    fn name(&self) -> &'static str;

    /// What else than the seed and the number of samples it depends on, for people.
    fn tables(&self) -> &'static str {
        "settings"
    }

    /// How many positions one epoch has, over all ranks; at least 1.
    fn positions(&self) -> u64;

    /// The arrangement of one epoch.
    fn epoch(&self, seed: u64, epoch: u64) -> Arc<dyn Arrangement>;

    /// What all ranks consume at a time, if the arrangement depends on it.
    fn step(&self) -> Option<u64> {
        None
    }

    /// The same order for ranks that consume `step` at a time, if that makes a difference.
    fn with_step(&self, _step: u64) -> Option<Box<dyn CheckedOrder>> {
        None
    }

    /// Heap bytes of the tables that all epochs share.
    fn table_bytes(&self) -> usize;
}

/// One epoch of an order: a function from `0..positions` to sample indices.
pub(crate) trait Arrangement: Send + Sync {
    /// The sample at one position.
    fn at(&self, position: u64) -> SampleIndex;

    /// Replaces positions by their samples. Overridden where a whole batch is cheaper than its members.
    fn map(&self, positions: &mut [SampleIndex]) {
        for slot in positions {
            *slot = self.at(slot.0);
        }
    }

    /// Whether a sample may come more than once.
    fn repeats(&self) -> bool {
        false
    }

    /// What tells the sample at this position from others that are the same: 0, or a number that no other position
    /// has. Random numbers depend on it, so it is 0 wherever a sample comes for the first time and that is known.
    fn repeat(&self, _position: u64) -> u64 {
        0
    }

    /// Any sample this order can give other than `failed`, searched from a random `start`. Asked only
    /// when drawing positions found nothing else, so it may be slow; bounded, because an order of one
    /// sample repeated for ever has no answer.
    fn other_than(&self, failed: SampleIndex, start: u64, positions: u64) -> Option<SampleIndex> {
        const SEARCHED: u64 = 1 << 20;
        let start = start % positions;
        let to_end = (start..positions).chain(0..start);
        to_end.take(SEARCHED as usize).map(|position| self.at(position)).find(|&s| s != failed)
    }

    /// Heap bytes of the tables that this epoch owns.
    fn table_bytes(&self) -> usize;
}

/// Splits off the leading positions that lie in `range`; at least one, so that callers make progress.
pub(crate) fn split_run(
    positions: &mut [SampleIndex],
    range: Range<u64>,
) -> (&mut [SampleIndex], &mut [SampleIndex]) {
    let run = positions.iter().position(|slot| !range.contains(&slot.0));
    positions.split_at_mut(run.unwrap_or(positions.len()).max(1).min(positions.len()))
}
