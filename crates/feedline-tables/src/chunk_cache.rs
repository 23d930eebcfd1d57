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

    /// Whether chunks are read out of somebody else's memory, of which [`check`](ChunkSource::check) says if it may be touched.
    fn is_watched(&self) -> bool {
        false
    }

    /// Refuses chunks whose memory may not be touched any more.
    fn check(&self, chunks: &[usize]) -> Result<(), TableError> {
        let _ = chunks;
        Ok(())
    }

    /// Whether decoding takes requests, so that it is good to know what is wanted next.
    fn is_far(&self) -> bool {
        false
    }

    /// Told that a chunk is decoded soon. Returns at once.
    fn expect(&self, chunk: usize) {
        let _ = chunk;
    }

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

    /// Told that a chunk is wanted soon: its bytes are fetched, unless it is there or somebody decodes it.
    pub(crate) fn expect(&self, chunk: usize) {
        if self.settled(chunk).is_some() {
            return;
        }
        let state = self.lock();
        if !state.kept.contains_key(&chunk) && !state.begun.contains(&chunk) {
            drop(state);
            self.source.expect(chunk);
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
        // What the system refused now, it may grant the next time.
        if decoded.as_ref().is_err_and(|error| matches!(**error, TableError::Io { .. })) {
            return decoded;
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Fails with each of these in turn; counts how often it was asked.
    struct Failing {
        errors: Mutex<Vec<TableError>>,
        asked: Arc<AtomicUsize>,
    }

    impl ChunkSource for Failing {
        fn decode(&self, _: usize) -> Result<TableChunk, TableError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Err(self.errors.lock().unwrap().pop().unwrap())
        }

        fn origin(&self, _: usize, _: u64) -> String {
            String::new()
        }

        fn narrowed(&self, _: &[usize]) -> Option<crate::table::Table> {
            None
        }
    }

    #[test]
    fn what_the_system_refused_is_tried_again_and_damage_is_not() {
        for settles in [true, false] {
            let asked = Arc::new(AtomicUsize::new(0));
            let busy = TableError::Io {
                doing: "read",
                path: "x".into(),
                source: std::io::Error::other("busy"),
            };
            let errors = Mutex::new(vec![TableError::Row("damaged".to_string()), busy]);
            let source = Failing { errors, asked: Arc::clone(&asked) };
            let cache = ChunkCache::new(source, 1, 1 << 20, settles);
            let said = || cache.get(0).unwrap_err().to_string();
            assert!(said().contains("busy"));
            assert_eq!(said(), "damaged");
            assert_eq!(said(), "damaged");
            assert_eq!(asked.load(Ordering::Relaxed), 2);
        }
    }
}
