//! Decoded chunks, kept in memory within a number of bytes.
//!
//! A table that fits as a whole is decoded once: each chunk by the worker that first wants a row of it, and a worker that
//! wants several begins with those that nobody else decodes, so that all workers decode side by side. Such chunks are
//! *settled*: they are read without a lock. Of a larger table the chunks that were used last are kept. Memory is the buffer, and what
//! each worker is decoding or reading at the moment.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::TableError;
use crate::chunk::TableChunk;

/// Where chunks come from.
pub(crate) trait ChunkSource: Send + Sync + 'static {
    /// Decodes a chunk.
    fn decode(&self, chunk: usize) -> Result<TableChunk, TableError>;

    /// Where a row comes from, for messages.
    fn origin(&self, chunk: usize, row: u64) -> String;

    /// The same chunks with some of the columns only; `None` where they cannot be had for less.
    fn narrowed(&self, columns: &[usize]) -> Option<crate::table::Table>;
}

/// What became of decoding a chunk.
pub(crate) type Decoded = Result<Arc<TableChunk>, Arc<TableError>>;

pub(crate) struct ChunkCache {
    source: Box<dyn ChunkSource>,
    settled: Box<[OnceLock<Decoded>]>,
    /// Whether all chunks are expected to fit.
    settles: bool,
    buffer: u64,
    state: Mutex<CacheState>,
    changed: Condvar,
}

#[derive(Default)]
struct CacheState {
    /// Being decoded by somebody.
    begun: HashSet<usize>,
    /// Not settled, with when each was last used.
    kept: HashMap<usize, (Decoded, u64)>,
    /// Bytes of the kept and the settled ones.
    kept_bytes: u64,
    settled_bytes: u64,
    clock: u64,
}

impl ChunkCache {
    /// `settles`: all chunks together are expected to take no more than `buffer` bytes.
    pub(crate) fn new(
        source: impl ChunkSource,
        chunks: usize,
        buffer: u64,
        settles: bool,
    ) -> ChunkCache {
        ChunkCache {
            source: Box::new(source),
            settled: (0..chunks).map(|_| OnceLock::new()).collect(),
            settles,
            buffer,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn source(&self) -> &dyn ChunkSource {
        &*self.source
    }

    /// Whether chunks that were decoded stay.
    pub(crate) fn settles(&self) -> bool {
        self.settles
    }

    /// A chunk that was decoded and stays; costs next to nothing.
    #[inline]
    pub(crate) fn settled(&self, chunk: usize) -> Option<&Decoded> {
        self.settled[chunk].get()
    }

    /// A chunk, decoded now if need be.
    pub(crate) fn get(&self, chunk: usize) -> Decoded {
        if let Some(decoded) = self.settled(chunk) {
            return decoded.clone();
        }
        match self.claim(chunk) {
            Some(decoded) => decoded,
            None => self.decode(chunk),
        }
    }

    /// Decodes those of the chunks that nobody has decoded, others' last. They need not stay.
    pub(crate) fn prepare(&self, chunks: &[usize]) {
        let mut others = Vec::new();
        for &chunk in chunks {
            if self.settled(chunk).is_some() {
                continue;
            }
            let mut state = self.lock();
            if state.kept.contains_key(&chunk) {
                continue;
            }
            if state.begun.insert(chunk) {
                drop(state);
                let _ = self.decode(chunk);
            } else {
                others.push(chunk);
            }
        }
        for chunk in others {
            let _ = self.get(chunk);
        }
    }

    /// The chunk if it is there, after waiting for who decodes it; `None`: it is this thread's to decode.
    fn claim(&self, chunk: usize) -> Option<Decoded> {
        let mut state = self.lock();
        loop {
            if let Some(decoded) = self.settled(chunk) {
                return Some(decoded.clone());
            }
            state.clock += 1;
            let now = state.clock;
            if let Some((decoded, used)) = state.kept.get_mut(&chunk) {
                *used = now;
                return Some(decoded.clone());
            }
            if state.begun.insert(chunk) {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Decodes a chunk that this thread has claimed.
    fn decode(&self, chunk: usize) -> Decoded {
        // Whoever waits must not wait for ever, whatever becomes of decoding.
        let _unclaim = Unclaim { cache: self, chunk };
        let decoded = self.source.decode(chunk).map(Arc::new).map_err(Arc::new);
        let bytes = decoded.as_ref().map_or(64, |chunk| chunk.memory());
        let mut state = self.lock();
        let fits = state.settled_bytes.saturating_add(bytes) <= self.buffer;
        if self.settles && fits {
            state.settled_bytes += bytes;
            let _ = self.settled[chunk].set(decoded.clone());
            return decoded;
        }
        state.clock += 1;
        let now = state.clock;
        state.kept_bytes = state.kept_bytes.saturating_add(bytes);
        state.kept.insert(chunk, (decoded.clone(), now));
        let mut gone = Vec::new();
        while state.kept_bytes.saturating_add(state.settled_bytes) > self.buffer
            && state.kept.len() > 1
        {
            let oldest = state.kept.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            let Some((old, _)) = oldest.and_then(|key| state.kept.remove(&key)) else { break };
            let bytes = old.as_ref().map_or(64, |chunk| chunk.memory());
            state.kept_bytes = state.kept_bytes.saturating_sub(bytes);
            gone.push(old); // freed after the lock
        }
        drop(state);
        decoded
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets others decode a chunk again, or find it.
struct Unclaim<'a> {
    cache: &'a ChunkCache,
    chunk: usize,
}

impl Drop for Unclaim<'_> {
    fn drop(&mut self) {
        self.cache.lock().begun.remove(&self.chunk);
        self.cache.changed.notify_all();
    }
}
