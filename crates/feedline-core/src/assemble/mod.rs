//! A slot of a batch buffer for every sample, before the sample exists.
//!
//! A batch's block comes from the pool when the batch is opened. Workers write the values of
//! fixed shape straight into their slot; values whose length is known only afterwards travel in
//! parcels and are padded or packed when the batch is complete. The finished [`Batch`] views the
//! block, which returns to the pool when the last array is dropped.
//!
//! Uses `flow` (where memory is booked) and `plan` (random streams of batches).

mod alter;
mod assembler;
mod batch;
mod block;
mod collate;
mod composer;
pub(crate) mod countdown;
#[cfg(feature = "cuda")]
mod cuda;
mod draft;
#[cfg(feature = "cuda")]
mod driver;
mod dtype;
mod field;
mod large_memory;
mod parcel;
mod pool;
mod schema;

pub use alter::{Alter, Assembled};
pub use batch::{Array, Batch, WrongType};
pub use block::{Block, Memory};
pub use collate::{BatchWriter, Collate, SampleView};
#[cfg(feature = "cuda")]
pub use cuda::{CudaHostMemory, NoDriver, PinnedBytes};
pub use dtype::{DType, Element};
pub use field::{Field, FieldError, FieldKey, Form, Ragged};
pub use large_memory::LargeMemory;
pub use pool::{OutOfMemory, PageLock};

pub(crate) use assembler::Assembler;
pub(crate) use composer::Composer;
pub(crate) use draft::{Draft, GroupRows, SlotRows};
pub(crate) use parcel::{Depot, LARGE, Parcel};
pub(crate) use pool::{Pool, block_size};
pub(crate) use schema::{BatchLayout, FieldPlace, Schema};
