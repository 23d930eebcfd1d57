//! A sample that has no place in a batch yet.
//!
//! Parcels carry what cannot be written straight into a slot: values whose length is known only
//! when they exist, and whole samples where the slot is decided afterwards (`ready` order, samples
//! under a time limit, custom collation). Small ones are reused, so that a warm loader allocates nothing
//! per sample; what is large is freed as soon as it was copied, since the byte budget counts what there is.

use crate::flow::Reservation;
use crate::sync::{Mutex, lock};

use super::large_memory::LargeMemory;
use super::pool::Pool;

/// A buffer of this size or more is not kept.
pub(crate) const LARGE: usize = 1 << 20;

/// Bytes that any element type may be viewed in.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    // u128 for its alignment of 16, the largest element's.
    words: Vec<u128>,
    /// In place of words, where it is large.
    large: Option<LargeMemory>,
    len: usize,
}

impl Buffer {
    /// Sets the length. The content is unspecified (but initialised) afterwards.
    pub(crate) fn set_len(&mut self, len: usize) {
        if self.capacity() < len {
            // New and zero, rather than the old content moved: large ones come untouched from the system.
            *self = Buffer::default();
            self.large = (len >= LARGE).then(|| LargeMemory::new(len)).flatten();
            if self.large.is_none() {
                self.words = vec![0; len.div_ceil(size_of::<u128>())];
            }
        }
        self.len = len;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let all = match &self.large {
            Some(large) => large.bytes(),
            None => bytemuck::cast_slice(&self.words),
        };
        &all[..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let all = match &mut self.large {
            Some(large) => large.bytes_mut(),
            None => bytemuck::cast_slice_mut(&mut self.words),
        };
        &mut all[..self.len]
    }

    /// What it takes, whatever its length.
    pub(crate) fn capacity(&self) -> usize {
        self.large.as_ref().map_or(size_of_val(&self.words[..]), LargeMemory::capacity)
    }

    /// Frees a large one, whose content is not needed any more.
    pub(crate) fn shrink(&mut self) {
        if self.capacity() >= LARGE {
            *self = Buffer::default();
        }
    }
}

/// One value of varying length.
#[derive(Debug, Default)]
pub(crate) struct LooseValue {
    pub(crate) data: Buffer,
    pub(crate) shape: Vec<usize>,
    /// Of a large one, until its sample is booked.
    reservation: Option<Reservation>,
}

impl LooseValue {
    /// Makes it so long, and of this shape; the content is unspecified afterwards. What is idle in the pool makes
    /// way before a large one is allocated.
    pub(crate) fn begin(&mut self, len: usize, shape: &[usize], pool: Option<&Pool>) {
        self.shape.clear();
        self.shape.extend_from_slice(shape);
        if len >= LARGE && len > self.data.capacity() {
            self.data = Buffer::default();
            self.reservation = None;
            self.reservation = pool.map(|pool| pool.reserve(len));
        }
        self.data.set_len(len);
    }
}

/// One sample on its way.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    /// The fixed values, if they are not written to a slot directly.
    pub(crate) record: Buffer,
    /// The values of varying length.
    pub(crate) parts: Vec<LooseValue>,
    /// Which fields the sample's author has written.
    pub(crate) written: Vec<bool>,
}

impl Parcel {
    /// Makes it ready for the next sample.
    pub(crate) fn reset(&mut self, record_bytes: usize, parts: usize, fields: usize) {
        self.record.set_len(record_bytes);
        if self.parts.len() != parts {
            self.parts.resize_with(parts, LooseValue::default);
        }
        self.written.clear();
        self.written.resize(fields, false);
    }

    /// What it takes.
    pub(crate) fn capacity(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.data.capacity()).sum();
        self.record.capacity() + parts
    }

    /// Its sample is made and about to be booked.
    pub(crate) fn unreserve(&mut self) {
        self.parts.iter_mut().for_each(|part| part.reservation = None);
    }

    /// Frees what is large.
    pub(crate) fn shrink(&mut self) {
        self.record.shrink();
        for part in &mut self.parts {
            part.data.shrink();
            part.reservation = None;
        }
    }
}

/// Empty parcels for reuse, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct Depot {
    most: usize,
    empty: Mutex<(Vec<Parcel>, usize)>,
}

impl Depot {
    pub(crate) fn new(most: usize) -> Depot {
        Depot { most, empty: Mutex::new((Vec::new(), 0)) }
    }

    pub(crate) fn take(&self) -> Parcel {
        let mut empty = lock(&self.empty);
        let parcel = empty.0.pop().unwrap_or_default();
        empty.1 -= parcel.capacity();
        parcel
    }

    pub(crate) fn put(&self, mut parcel: Parcel) {
        parcel.shrink();
        let bytes = parcel.capacity();
        let mut empty = lock(&self.empty);
        if empty.1 + bytes <= self.most {
            empty.1 += bytes;
            empty.0.push(parcel);
        } else {
            drop(empty);
            drop(parcel);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn parcel(bytes: usize) -> Parcel {
        let mut parcel = Parcel::default();
        parcel.reset(bytes, 0, 0);
        parcel
    }

    #[test]
    fn a_buffer_has_its_length_whether_it_is_small_or_large() {
        let mut buffer = Buffer::default();
        for len in [0, 5, 4000, LARGE, 5 * LARGE + 3, 7, 3 * LARGE] {
            buffer.set_len(len);
            assert_eq!(buffer.bytes().len(), len);
            assert!(buffer.capacity() >= len);
            assert_eq!(buffer.bytes().as_ptr().align_offset(16), 0);
            buffer.bytes_mut().fill(7);
            assert!(buffer.bytes().iter().all(|byte| *byte == 7));
        }
        buffer.shrink();
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn empty_parcels_are_kept_up_to_a_number_of_bytes_and_large_ones_not_at_all() {
        let depot = Depot::new(1000);
        depot.put(parcel(LARGE));
        assert_eq!(depot.take().capacity(), 0, "freed");
        depot.put(parcel(600));
        depot.put(parcel(600));
        assert_eq!([depot.take(), depot.take()].map(|parcel| parcel.capacity()), [608, 0]);
    }
}
