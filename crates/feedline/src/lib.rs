//! Feeds accelerators: loads training samples in parallel and delivers finished batches in time.
//!
//! Say what a sample is by implementing [`Dataset`], or open files with one of the [`sources`]. Build
//! a [`Loader`]. Iterate over its [epochs](Loader::epoch):
//!
//! ```
//! use feedline::{Cause, DType, Dataset, Field, Loader, Sample};
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
//! println!("{}", loader.stats().explain());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The tour
//!
//! * **Order**: [`LoaderBuilder::shuffle`], or any [`Order`]: windowed, weighted, bucketed by length,
//!   mixed. It depends on the seed, the epoch and the rank, never on the number of workers.
//! * **Fields**: a [`Field`] has a fixed shape, is ragged (padded or packed), or holds bytes or text.
//!   Workers write fields of fixed shape straight into the batch.
//! * **Errors**: one bad sample is an error of its batch, is skipped, or replaced ([`OnError`]), and
//!   is listed in [`Loader::errors`] with its origin, stage and cause.
//! * **Checkpoints**: [`Loader::state`] is a few bytes of plain data; [`LoaderBuilder::resume`] goes on
//!   with exactly what was not delivered.
//! * **Measures**: [`Loader::stats`] is plain data, [`Stats::explain`] a verdict: who waited for whom,
//!   and what to change. [`Progress`] shows the main figures while an epoch runs.
//! * **Files**: [`sources`] has readers of file formats, [`ops`] has what makes tensors of their
//!   content, [`model`] has the theory to predict what more workers would bring, [`simulate`] a loader on a virtual clock.
//!
//! The folder `examples/` has programs to start from: `squares`, `spirals`, `npy_shuffle`,
//! `volume_patches` and `checkpoint`.

/// The README's program runs with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod calibration;
#[cfg(feature = "progress")]
mod counter;
#[cfg(feature = "progress")]
mod lines;
#[cfg(feature = "progress")]
mod progress;

pub use calibration::loader_stats;
#[cfg(feature = "progress")]
pub use counter::Counter;
pub use feedline_core::{
    Alter, Array, Assembled, Batch, BatchPlace, BatchSampler, BatchTimes, BatchWriter, Block,
    Boundary, BuildError, Cause, Collate, ConsumerStats, DType, Dataset, Delivery, Element, Epoch,
    EpochToken, Error, Failure, Field, FieldError, FieldKey, Form, Group, Iterable, Loader,
    LoaderBuilder, MakePolicy, Memory, MemoryStats, Next, OnError, Order, OrderLog, OutOfMemory,
    PaddedStats, PageLock, Pass, Plan, PolicyKind, Position, Ragged, Sample, SampleError,
    SampleIndex, SampleKey, SampleView, Samples, Scratch, SeriesPoint, Stage, StageStats, State,
    StateError, StatePart, Stats, Steals, Times, WorkerStats, WriteError, WrongType, control, plan,
    schedule, simulate, usable_cores, usable_memory,
};
#[cfg(feature = "cuda")]
pub use feedline_core::{CudaHostMemory, NoDriver, PinnedBytes};
#[doc(inline)]
pub use feedline_model as model;
#[doc(inline)]
pub use feedline_ops as ops;
#[doc(inline)]
pub use feedline_sources as sources;
#[cfg(feature = "tables")]
#[doc(inline)]
pub use feedline_tables as tables;
#[cfg(feature = "text")]
#[doc(inline)]
pub use feedline_text as text;
#[cfg(feature = "volume")]
pub use feedline_volume as volume;
#[cfg(feature = "progress")]
pub use progress::{Figures, Meter, Progress};
