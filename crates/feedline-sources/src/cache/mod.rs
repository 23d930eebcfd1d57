//! Keeping finished samples, so that later epochs need not make them again.
//!
//! [`Cached`] stands before another dataset. A sample that its [`Store`] has is copied from there;
//! one that it does not have is made by the other dataset and offered to the store. Stores only grow:
//! with a new random order each epoch every sample is equally likely to come next, so evicting one for
//! another gains nothing.
//!
//! A cached sample has no randomness left: it is the sample of whichever epoch made it.

mod disk;
mod memory;

use std::sync::{Arc, Mutex};

use feedline_core::{Cause, Dataset, Field, Sample, SampleIndex, Scratch};

use crate::snapshot;
use crate::sync::lock;

pub use disk::DiskStore;
pub use memory::MemoryStore;

/// Where finished samples are kept.
pub trait Store: Send + Sync + 'static {
    /// Appends the sample to `out` if it is there, whole and undamaged. Returns whether it was.
    fn get(&self, index: SampleIndex, out: &mut Vec<u8>) -> bool;

    /// Keeps the sample if there is room. A store that cannot keep it is none the worse.
    fn put(&self, index: SampleIndex, sample: &[u8]);

    /// Bytes kept so far.
    fn used(&self) -> u64;
}

/// A dataset behind a store of finished samples.
pub struct Cached<D: ?Sized, S> {
    store: S,
    fields: Vec<Field>,
    /// Places to make samples in that are not kept yet, one per worker that is at it.
    scratches: Mutex<Vec<(Scratch, Vec<u8>)>>,
    inner: Arc<D>,
}

/// The last byte of a sample's raw bytes: are they the store's, or the other dataset's?
const KEPT: u8 = 1;
const LOADED: u8 = 0;

impl<D: Dataset + ?Sized, S: Store> Cached<D, S> {
    /// Puts `store` before `inner`.
    pub fn new(inner: Arc<D>, store: S) -> Cached<D, S> {
        Cached { store, fields: inner.fields(), scratches: Mutex::default(), inner }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    fn make(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let spare = lock(&self.scratches).pop();
        let (mut scratch, mut bytes) = match spare {
            Some(spare) => spare,
            None => (Scratch::new(self.fields.clone())?, Vec::new()),
        };
        let index = sample.index();
        let view = scratch.build(&self.inner, index, raw, sample.key())?;
        bytes.clear();
        snapshot::write(&view, &mut bytes);
        self.store.put(index, &bytes);
        snapshot::read(&self.fields, &bytes, sample)?;
        scratch.shrink();
        bytes.shrink_to(1 << 20);
        let mut scratches = lock(&self.scratches);
        scratches.push((scratch, bytes));
        Ok(())
    }
}

impl<D: Dataset + ?Sized, S: Store> Dataset for Cached<D, S> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        if self.store.get(index, raw) {
            raw.push(KEPT);
            return Ok(());
        }
        raw.clear();
        self.inner.load(index, raw)?;
        raw.push(LOADED);
        Ok(())
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        match raw.split_last() {
            Some((&KEPT, bytes)) => snapshot::read(&self.fields, bytes, sample),
            Some((_, raw)) => self.make(raw, sample),
            None => Err("the sample was not loaded".into()),
        }
    }

    /// Those of the other dataset: what costs little need not be kept.
    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        self.inner.only(fields)
    }

    fn look_ahead(&self) -> usize {
        self.inner.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.inner.expect(indices);
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.inner.cost_hint(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.inner.origin(index)
    }
}
