//! Samples kept in memory.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline_core::SampleIndex;

use super::Store;
use crate::sync::lock;

/// Workers that look at the same time rarely look in the same shard.
const SHARDS: usize = 64;

/// Keeps samples in memory, up to a number of bytes.
pub struct MemoryStore {
    shards: Vec<Mutex<HashMap<u64, Box<[u8]>>>>,
    /// Relaxed: a sum that nothing else is published by.
    used: AtomicU64,
    limit: u64,
}

impl MemoryStore {
    /// Keeps at most `limit` bytes of samples.
    #[must_use]
    pub fn new(limit: u64) -> MemoryStore {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        MemoryStore { shards, used: AtomicU64::new(0), limit }
    }

    fn shard(&self, index: SampleIndex) -> std::sync::MutexGuard<'_, HashMap<u64, Box<[u8]>>> {
        lock(&self.shards[index.0 as usize % SHARDS])
    }
}

impl Store for MemoryStore {
    fn get(&self, index: SampleIndex, out: &mut Vec<u8>) -> bool {
        let shard = self.shard(index);
        let found = shard.get(&index.0);
        out.extend(found.into_iter().flatten());
        found.is_some()
    }

    fn put(&self, index: SampleIndex, sample: &[u8]) {
        let bytes = sample.len() as u64;
        // Reserved before it is kept, so that the limit holds however many workers come at once.
        if self.used.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        if self.shard(index).insert(index.0, sample.into()).is_some() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
