//! Load, decode, transform: the work on one sample, and the threads that do it.
//!
//! A [`Dataset`] is what users write. Workers take jobs from the policy, make samples, place them,
//! and sleep on a [bell](bell) when there is nothing to do. The caller itself works where there
//! are no workers.

pub(crate) mod bell;
mod cores;
mod crew;
mod dataset;
pub(crate) mod desk;
mod group;
pub(crate) mod handoff;
mod journal;
mod lot;
mod run;
mod scratch;
mod stage;

pub use cores::usable_cores;
pub use dataset::{Cause, Dataset, Sample, WriteError};
pub use group::Group;
pub use scratch::Scratch;
pub use stage::Stage;

pub(crate) use bell::{Bell, Ticket};
pub(crate) use crew::{Crew, GRACE};
pub(crate) use desk::{Desk, Watchlist};
pub(crate) use handoff::Handoff;
pub(crate) use journal::Journal;
pub(crate) use lot::{Lot, Positions, Work};
