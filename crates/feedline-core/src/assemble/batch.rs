//! What is delivered: arrays that view a pool block.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::flow::Charge;
use crate::plan::SampleIndex;

use super::block::Block;
use super::dtype::{DType, Element};

/// One array of a batch: contiguous, row-major, its first axis the sample's.
///
/// The memory goes back to its pool when the batch's last array is dropped.
#[derive(Debug)]
pub struct Array {
    pub(crate) name: Arc<str>,
    pub(crate) dtype: DType,
    /// In place, up to the number of axes that arrays usually have: it is made by a worker and freed
    /// by the training loop, whose caches are cold.
    pub(crate) shape: SmallVec<[usize; 6]>,
    pub(crate) block: Arc<Block>,
    pub(crate) offset: usize,
    /// What a copy of it takes, where the consumer makes one and gives the array back at once; then it never is
    /// the user's.
    pub(crate) copy: Option<Charge>,
}

/// An array was asked for as another type than it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("array `{name}` has dtype {dtype}, not {asked}")]
pub struct WrongType {
    name: String,
    dtype: DType,
    asked: DType,
}

impl Array {
    /// Its name: a field's, or `<field>_lengths` or `<field>_offsets`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dtype of its elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its size in bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }

    /// Its elements as bytes in native order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: `offset + byte_len` lies within the block (its maker laid it out so), the block is
        // initialised memory, and the array owns this range: nobody writes while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.address(), self.byte_len()) }
    }

    /// Its elements as bytes, to be changed in place.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_bytes`; arrays of one block have disjoint ranges and `Array` is not
        // `Clone`, so `&mut self` is the only access to this one.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.byte_len()) }
    }

    /// Its elements.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], WrongType> {
        self.check::<T>()?;
        Ok(bytemuck::cast_slice(self.as_bytes()))
    }

    /// Its elements, to be changed in place.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], WrongType> {
        self.check::<T>()?;
        Ok(bytemuck::cast_slice_mut(self.as_bytes_mut()))
    }

    /// Its first byte. Valid as long as [`block`](Array::block) lives.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        // SAFETY: `offset` is within the block.
        unsafe { self.block.address().as_ptr().add(self.offset) }
    }

    /// The owner of its memory, for views that outlive the batch.
    #[must_use]
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    fn check<T: Element>(&self) -> Result<(), WrongType> {
        if T::is(self.dtype) {
            return Ok(());
        }
        Err(WrongType { name: self.name.to_string(), dtype: self.dtype, asked: T::DTYPE })
    }
}

/// A finished batch.
#[derive(Debug)]
pub struct Batch {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) arrays: Vec<Array>,
    pub(crate) indices: Vec<SampleIndex>,
}

impl Batch {
    /// The epoch it belongs to.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Its number within the epoch.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many samples it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether every sample of it was skipped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Which samples it has, row by row (a substitute under its own index).
    #[must_use]
    pub fn indices(&self) -> &[SampleIndex] {
        &self.indices
    }

    /// Its arrays, in the order of the fields.
    #[must_use]
    pub fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    /// The array with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.arrays.iter().find(|array| &*array.name == name)
    }

    /// The array with this name, to be changed in place.
    #[must_use]
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Array> {
        self.arrays.iter_mut().find(|array| &*array.name == name)
    }

    /// Takes the arrays out, for those who keep them longer than the batch.
    #[must_use]
    pub fn into_arrays(self) -> Vec<Array> {
        self.arrays
    }

    /// Bytes of all arrays.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.arrays.iter().map(Array::byte_len).sum()
    }

    /// The blocks that become the user's, each once.
    fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        let is_first = |i: usize| {
            let block = &self.arrays[i].block;
            !self.arrays[..i].iter().any(|array| Arc::ptr_eq(&array.block, block))
        };
        let given = self.arrays.iter().enumerate().filter(|(_, array)| array.copy.is_none());
        given.filter(move |(i, _)| is_first(*i)).map(|(_, array)| &array.block)
    }

    /// What the blocks take that become the user's.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.blocks().map(|block| block.capacity() as u64).sum()
    }

    /// It is the user's from here on.
    pub(crate) fn mark_delivered(&self) {
        self.blocks().for_each(|block| block.mark_delivered());
    }
}
