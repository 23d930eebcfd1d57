//! The engine of feedline: loads samples in parallel, assembles them into batches and delivers
//! these in order, before the training loop has to wait.
//!
//! One direction, six rooms, one that decides, and a watch on every door:
//!
//! ```text
//! plan ──► open ──► schedule ──► work ──► assemble ──► deliver ──► training loop
//!  which    a block,  who         load,     the last     the loader
//!  sample   jobs      does it     decode,   one makes
//!  is next                        transform a batch
//!            └─────── flow: what may be opened, whose batch is next ──────┘
//!            └─────── measure ─────── state: one position ────────────────┘
//! ```
//!
//! Implement [`Dataset`], build a [`Loader`], iterate over [`Loader::epoch`]:
//!
//! ```
//! use feedline_core::{Cause, DType, Dataset, Field, Loader, Sample};
//!
//! struct Squares;
//!
//! impl Dataset for Squares {
//!     fn len(&self) -> u64 {
//!         1000
//!     }
//!     fn fields(&self) -> Vec<Field> {
//!         vec![Field::fixed("square", DType::U64, [])]
//!     }
//!     fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
//!         let i = sample.index().0;
//!         Ok(sample.put(0, &[i * i])?)
//!     }
//! }
//!
//! let loader = Loader::builder(Squares).batch_size(64).shuffle(42).workers(2).build()?;
//! for batch in loader.epoch() {
//!     let batch = batch?;
//!     let squares = batch.get("square").expect("declared above").as_slice::<u64>()?;
//!     assert_eq!(squares[0], batch.indices()[0].0.pow(2));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate knows no file format: those are in `feedline-sources`. Most people add the
//! `feedline` crate, which has all of it.

mod assemble;
pub mod control;
mod crew;
mod deliver;
mod engine;
mod error;
mod flow;
mod measure;
#[cfg(all(test, loom))]
mod models;
mod open;
pub mod plan;
mod process;
pub mod schedule;
pub mod simulate;
mod state;
mod sync;
mod work;

pub use assemble::{
    Alter, Array, Assembled, Batch, BatchWriter, Block, Collate, DType, Element, Field, FieldError,
    FieldKey, Form, LargeMemory, Memory, OutOfMemory, PageLock, Ragged, SampleView, WrongType,
};
#[cfg(feature = "cuda")]
pub use assemble::{CudaHostMemory, NoDriver, PinnedBytes};
pub use control::usable_memory;
pub use crew::usable_cores;
pub use deliver::{
    BatchSampler, Delivery, Epoch, EpochToken, Loader, LoaderBuilder, Next, OrderLog,
};
pub use error::{BuildError, Error, Failure, OnError, SampleError};
pub use flow::MemoryStats;
pub use measure::{
    BatchTimes, ConsumerStats, PaddedStats, SeriesPoint, StageStats, Stats, Times, WorkerStats,
};
pub use plan::{Boundary, Order, Plan, Position, SampleIndex};
pub use schedule::{MakePolicy, PolicyKind, Steals};
pub use state::{BatchPlace, State, StateError, StatePart};
pub use work::{
    Cause, Dataset, Group, Iterable, Pass, Sample, SampleKey, Samples, Scratch, Stage, WriteError,
};
