//! Windowed: shards in random order, samples shuffled within a window that passes over them.
//!
//! What a shuffle buffer does to a stream of shards, as a function: reading stays within a window's
//! worth of samples, and any position is answered without reading those before it.

use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder, split_run};
use super::error::PlanError;
use super::key::{Key, Purpose};
use super::order::ShardSizes;
use super::shuffle::Shuffle;

pub(crate) struct Windowed {
    n: u64,
    window: u64,
    shards: ShardStarts,
}

enum ShardStarts {
    Fixed(u64),
    /// The first sample of each shard.
    Starts(Arc<[u64]>),
}

impl Windowed {
    pub(crate) fn new(n: u64, shards: ShardSizes, window: u64) -> Result<Self, PlanError> {
        if window == 0 {
            return Err(PlanError::ZeroWindow);
        }
        let shards = match shards {
            ShardSizes::Fixed(0) => return Err(PlanError::ZeroShardSize),
            ShardSizes::Fixed(size) => ShardStarts::Fixed(size.min(n)),
            ShardSizes::Sizes(sizes) => {
                let sum = sizes.iter().map(|&size| u128::from(size)).sum();
                if sum != u128::from(n) {
                    return Err(PlanError::ShardSizes { shards: sizes.len(), sum, expected: n });
                }
                let mut start = 0;
                let starts = sizes.iter().map(|size| {
                    start += size;
                    start - size
                });
                ShardStarts::Starts(starts.collect())
            }
        };
        Ok(Self { n, window: window.min(n), shards })
    }
}

impl CheckedOrder for Windowed {
    fn name(&self) -> &'static str {
        "windowed"
    }

    fn tables(&self) -> &'static str {
        "shards, or the window,"
    }

    fn positions(&self) -> u64 {
        self.n
    }

    fn epoch(&self, seed: u64, epoch: u64) -> Arc<dyn Arrangement> {
        let (n, window) = (self.n, self.window);
        let windows = Windows { n, window, key: Key::of(seed, Purpose::Window, epoch) };
        let shard_key = Key::of(seed, Purpose::Shard, epoch);
        match &self.shards {
            &ShardStarts::Fixed(size) => {
                Arc::new(Passing { windows, stream: FixedShards::new(n, size, shard_key) })
            }
            ShardStarts::Starts(starts) => Arc::new(Passing {
                windows,
                stream: ListedShards::new(n, starts.clone(), shard_key),
            }),
        }
    }

    fn table_bytes(&self) -> usize {
        match &self.shards {
            ShardStarts::Fixed(_) => 0,
            ShardStarts::Starts(starts) => size_of_val::<[u64]>(starts),
        }
    }
}

/// The windows passing over a stream of shards.
struct Passing<S> {
    windows: Windows,
    stream: S,
}

/// The samples of all shards, one shard after the other.
trait ShardStream: Send + Sync {
    /// Which turn holds `place`, and how far into the shard of that turn.
    fn locate(&self, place: u64) -> (u64, u64);
    fn shuffle(&self) -> &Shuffle;
    /// The first sample of a shard.
    fn start(&self, shard: u64) -> u64;
    fn heap_bytes(&self) -> usize;
}

impl<S: ShardStream> Arrangement for Passing<S> {
    fn at(&self, position: u64) -> SampleIndex {
        let mut one = [SampleIndex(position)];
        self.map(&mut one);
        one[0]
    }

    fn map(&self, positions: &mut [SampleIndex]) {
        self.windows.map(positions);
        // Several at a time, because a shuffle computes several side by side.
        for chunk in positions.chunks_mut(64) {
            let mut turns = [SampleIndex(0); 64];
            let turns = &mut turns[..chunk.len()];
            for (turn, slot) in turns.iter_mut().zip(&mut *chunk) {
                (turn.0, slot.0) = self.stream.locate(slot.0);
            }
            self.stream.shuffle().apply_all(turns);
            for (shard, slot) in turns.iter().zip(chunk) {
                slot.0 += self.stream.start(shard.0);
            }
        }
    }

    fn table_bytes(&self) -> usize {
        self.stream.heap_bytes()
    }
}

struct Windows {
    n: u64,
    window: u64,
    key: Key,
}

impl Windows {
    /// Replaces positions by places in the stream of samples. Neighbours mostly share their window,
    /// so its permutation is made once for all of them.
    fn map(&self, mut positions: &mut [SampleIndex]) {
        while let Some(first) = positions.first() {
            let index = first.0 / self.window;
            let start = index * self.window;
            let size = self.window.min(self.n - start);
            let (run, rest) = split_run(positions, start..start + size);
            run.iter_mut().for_each(|slot| slot.0 -= start);
            Shuffle::compact(size, self.key.index(index)).apply_all(run);
            run.iter_mut().for_each(|slot| slot.0 += start);
            positions = rest;
        }
    }
}

/// Shards of one size, the last of them perhaps shorter.
struct FixedShards {
    size: u64,
    /// How much the last shard lacks.
    missing: u64,
    /// Where the last shard comes in the stream of samples.
    short_start: u64,
    shuffle: Shuffle,
}

impl FixedShards {
    fn new(n: u64, size: u64, key: Key) -> Self {
        let shards = n.div_ceil(size);
        let shuffle = Shuffle::new(shards, key);
        let short_start = shuffle.invert(shards - 1) * size;
        // In this order of subtraction nothing exceeds 64 bits even for n near the limit.
        let missing = size - (n - (shards - 1) * size);
        Self { size, missing, short_start, shuffle }
    }
}

impl ShardStream for FixedShards {
    fn locate(&self, place: u64) -> (u64, u64) {
        let short_end = self.short_start + (self.size - self.missing);
        if place < short_end {
            return (place / self.size, place % self.size);
        }
        // After the short shard the multiples of the size begin anew.
        let past = place - short_end;
        (self.short_start / self.size + 1 + past / self.size, past % self.size)
    }

    fn shuffle(&self) -> &Shuffle {
        &self.shuffle
    }

    fn start(&self, shard: u64) -> u64 {
        shard * self.size
    }

    fn heap_bytes(&self) -> usize {
        self.shuffle.heap_bytes()
    }
}

/// Shards of given sizes.
struct ListedShards {
    /// The first sample of each shard, by shard.
    starts: Arc<[u64]>,
    /// Where each shard ends in this epoch's stream of samples, by turn.
    ends: Box<[u64]>,
    shuffle: Shuffle,
}

impl ListedShards {
    fn new(n: u64, starts: Arc<[u64]>, key: Key) -> Self {
        let shuffle = Shuffle::new(starts.len() as u64, key);
        let mut end = 0;
        let ends = (0..starts.len() as u64)
            .map(|turn| {
                let shard = shuffle.apply(turn) as usize;
                end += starts.get(shard + 1).unwrap_or(&n) - starts[shard];
                end
            })
            .collect();
        Self { starts, ends, shuffle }
    }
}

impl ShardStream for ListedShards {
    fn locate(&self, place: u64) -> (u64, u64) {
        let turn = self.ends.partition_point(|&end| end <= place);
        let turn_start = if turn == 0 { 0 } else { self.ends[turn - 1] };
        (turn as u64, place - turn_start)
    }

    fn shuffle(&self) -> &Shuffle {
        &self.shuffle
    }

    fn start(&self, shard: u64) -> u64 {
        self.starts[shard as usize]
    }

    fn heap_bytes(&self) -> usize {
        size_of_val::<[u64]>(&self.ends) + self.shuffle.heap_bytes()
    }
}
