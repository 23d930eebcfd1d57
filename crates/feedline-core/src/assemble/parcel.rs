//! A sample that has no place in a batch yet.
//!
//! Parcels carry what cannot be written straight into a slot: values whose length is known only
//! when they exist, and whole samples where the slot is decided afterwards (`ready` order, samples
//! under a time limit, custom collation). They are reused, so that a warm loader allocates nothing
//! per sample.

use std::sync::Mutex;

/// Bytes that any element type may be viewed in.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    // u128 for its alignment of 16, the largest element's.
    words: Vec<u128>,
    len: usize,
}

impl Buffer {
    /// Sets the length. The content is unspecified (but initialised) afterwards.
    pub(crate) fn set_len(&mut self, len: usize) {
        let words = len.div_ceil(size_of::<u128>());
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        self.len = len;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

/// One value of varying length.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) data: Buffer,
    pub(crate) shape: Vec<usize>,
}

/// One sample on its way.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    /// The fixed values, if they are not written to a slot directly.
    pub(crate) record: Buffer,
    /// The values of varying length.
    pub(crate) parts: Vec<Part>,
    /// Which fields the sample's author has written.
    pub(crate) written: Vec<bool>,
}

impl Parcel {
    /// Makes it ready for the next sample.
    pub(crate) fn reset(&mut self, record_bytes: usize, parts: usize, fields: usize) {
        self.record.set_len(record_bytes);
        if self.parts.len() != parts {
            self.parts.resize_with(parts, Part::default);
        }
        self.written.clear();
        self.written.resize(fields, false);
    }
}

/// Empty parcels for reuse.
#[derive(Debug, Default)]
pub(crate) struct Depot {
    empty: Mutex<Vec<Parcel>>,
}

impl Depot {
    pub(crate) fn take(&self) -> Parcel {
        self.empty.lock().unwrap_or_else(|e| e.into_inner()).pop().unwrap_or_default()
    }

    pub(crate) fn put(&self, parcel: Parcel) {
        self.empty.lock().unwrap_or_else(|e| e.into_inner()).push(parcel);
    }
}
