//! Load, decode, transform: the work on one sample.
//!
//! A [`Dataset`] is what users write. A [`Maker`] makes one sample, a [`Runner`] does a job of them; whichever thread
//! runs it is none of its business.
//!
//! Uses `schedule` (which job), `assemble` (where samples go), `flow` (what may be begun, who sleeps) and `measure`.

mod dataset;
mod group;
pub(crate) mod handoff;
mod iterable;
mod journal;
mod local;
mod lot;
mod maker;
mod pulled;
mod runner;
mod scratch;
mod stage;
pub(crate) mod watchlist;

pub use dataset::{Cause, Dataset, Sample, SampleKey, WriteError};
pub use group::Group;
pub use iterable::{Iterable, Pass, Samples};
pub use scratch::Scratch;
pub use stage::Stage;

pub(crate) use handoff::Handoff;
pub(crate) use journal::Journal;
pub(crate) use local::Local;
pub(crate) use lot::{Attempt, Lot, Work};
pub(crate) use maker::Maker;
pub(crate) use pulled::Pulled;
pub(crate) use runner::{Ran, Runner};
pub(crate) use watchlist::Watchlist;
