//! Samples as they lie on disk: compressed pictures, labels, text. What decodes them comes later.

use std::ffi::OsString;
use std::sync::Arc;

use feedline_core::{Cause, Iterable, SampleIndex};

#[cfg(feature = "npy")]
use crate::Reading;

/// A collection of encoded samples, each of one or more *parts*, in any order from any thread.
///
/// [`files::Files`](crate::files::Files) has one part, the file; [`tar::Shards`](crate::tar::Shards)
/// and [`tar::Streamed`](crate::tar::Streamed) have those that were asked for. A dataset that decodes
/// calls [`load`](Encoded::load) in its own `load`, and [`part`](Encoded::part) in `build`, on
/// whichever thread that is; parts that are no pictures are written by a
/// [`Reading`](crate::Reading). [`Parts`](crate::Parts) is the dataset that decodes no pictures.
///
/// Like a dataset, it never panics because of what is on disk.
pub trait Encoded: Send + Sync + 'static {
    /// How many samples there are.
    fn len(&self) -> u64;

    /// The names of the parts, the same for all samples.
    fn parts(&self) -> &[String];

    /// Appends the sample's bytes to `raw`, which is empty and reused from sample to sample.
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause>;

    /// One part of a sample: `part` counts through [`parts`](Encoded::parts), `raw` is what
    /// [`load`](Encoded::load) made for this index. Costs next to nothing.
    fn part<'a>(
        &'a self,
        index: SampleIndex,
        raw: &'a [u8],
        part: usize,
    ) -> Result<&'a [u8], Cause>;

    /// Appends some parts to `raw`, one after the other, and returns how long each is. For those who need
    /// a label and not the picture beside it. Unless a source can do better, the sample is loaded whole.
    fn load_parts(
        &self,
        index: SampleIndex,
        parts: &[usize],
        raw: &mut Vec<u8>,
    ) -> Result<Vec<usize>, Cause> {
        let mut whole = Vec::new();
        self.load(index, &mut whole)?;
        let append = |part: &usize| {
            let bytes = self.part(index, &whole, *part)?;
            raw.extend_from_slice(bytes);
            Ok(bytes.len())
        };
        parts.iter().map(append).collect()
    }

    /// How many samples ahead it wants to [expect](Encoded::expect) them; see
    /// [`Dataset::look_ahead`](feedline_core::Dataset::look_ahead).
    fn look_ahead(&self) -> usize {
        0
    }

    /// Told that these samples are loaded soon, in this order: may begin to fetch them. Returns at once.
    fn expect(&self, indices: &[SampleIndex]) {
        let _ = indices;
    }

    /// The same of some parts, as [`load_parts`](Encoded::load_parts) reads them.
    fn expect_parts(&self, indices: &[SampleIndex], parts: &[usize]) {
        let _ = parts;
        self.expect(indices);
    }

    /// The sample's class where the source knows it without reading: a folder's number.
    fn label(&self, index: SampleIndex) -> Option<i64> {
        let _ = index;
        None
    }

    /// The names of the classes that [`label`](Encoded::label) counts through; `None` where there are
    /// no such labels.
    fn classes(&self) -> Option<&[OsString]> {
        None
    }

    /// A number proportional to the sample's cost: its bytes.
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        let _ = index;
        None
    }

    /// Where the sample comes from, for messages: a path, or a shard and key. What is no text in it
    /// is escaped.
    fn origin(&self, index: SampleIndex) -> Option<String>;

    /// Set where samples should be asked for nearly in the order of their indices: the sizes of the
    /// shards, which may come in any order, and how many consecutive samples may be mixed. It is what
    /// [`Order::Windowed`](feedline_core::Order::Windowed) wants.
    fn windows(&self) -> Option<(&[u64], u64)> {
        None
    }

    /// Set where samples come one after the other, and nobody knows how many; see
    /// [`Dataset::iterable`](feedline_core::Dataset::iterable). What its iterators give is what
    /// [`part`](Encoded::part) takes.
    fn iterable(&self) -> Option<&dyn Iterable> {
        None
    }

    /// How a part is read where its name does not say it.
    #[cfg(feature = "npy")]
    fn reading(&self, part: usize) -> Option<Reading> {
        let _ = part;
        None
    }

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0 && self.iterable().is_none()
    }
}

impl<E: Encoded + ?Sized> Encoded for Arc<E> {
    fn len(&self) -> u64 {
        (**self).len()
    }
    fn parts(&self) -> &[String] {
        (**self).parts()
    }
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        (**self).load(index, raw)
    }
    fn part<'a>(
        &'a self,
        index: SampleIndex,
        raw: &'a [u8],
        part: usize,
    ) -> Result<&'a [u8], Cause> {
        (**self).part(index, raw, part)
    }
    fn load_parts(
        &self,
        index: SampleIndex,
        parts: &[usize],
        raw: &mut Vec<u8>,
    ) -> Result<Vec<usize>, Cause> {
        (**self).load_parts(index, parts, raw)
    }
    fn look_ahead(&self) -> usize {
        (**self).look_ahead()
    }
    fn expect(&self, indices: &[SampleIndex]) {
        (**self).expect(indices);
    }
    fn expect_parts(&self, indices: &[SampleIndex], parts: &[usize]) {
        (**self).expect_parts(indices, parts);
    }
    fn label(&self, index: SampleIndex) -> Option<i64> {
        (**self).label(index)
    }
    fn classes(&self) -> Option<&[OsString]> {
        (**self).classes()
    }
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        (**self).cost_hint(index)
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        (**self).origin(index)
    }
    fn windows(&self) -> Option<(&[u64], u64)> {
        (**self).windows()
    }
    fn iterable(&self) -> Option<&dyn Iterable> {
        (**self).iterable()
    }
    #[cfg(feature = "npy")]
    fn reading(&self, part: usize) -> Option<Reading> {
        (**self).reading(part)
    }
}
