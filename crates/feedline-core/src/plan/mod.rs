//! Plan: which sample is next.
//!
//! A [`Plan`] is a pure function `(seed, epoch, rank, world, position) -> sample index`. It holds no
//! cursor and never asks how many workers there are, so any position of any epoch can be answered
//! at any time, by anybody, with the same result. It uses no other room.
//!
//! ```text
//! position ──► global position ──► place in the epoch ──► sample index
//!              p * world + rank    mod order length       by the Order
//! ```
//!
//! * [`Order`] says how an epoch is arranged; each order is one file of this module.
//! * [`Boundary`] says what happens at the end of an epoch, with exact counts for every rank.
//! * [`Shuffle`] is the keyed bijection under every shuffled order: a billion samples cost no memory.
//! * [`Remaining`] is what is left of an epoch, for other ranks than those that began it.
//! * [`Stream`] is the random stream of one sample, for augmentations that must not depend on workers.
//!
//! ```
//! use feedline_core::plan::{Boundary, Order, Plan, Position, SampleIndex};
//!
//! let plan = Plan::builder(1_000_000_000)
//!     .order(Order::Shuffled)
//!     .seed(7)
//!     .batch_size(256)
//!     .boundary(Boundary::Drop)
//!     .rank(3, 8)
//!     .build()?;
//! assert_eq!(plan.batches(), 1_000_000_000 / (8 * 256));
//!
//! let epoch = plan.epoch(2);
//! let mut batch = [SampleIndex(0); 256];
//! epoch.fill(Position(plan.batch_range(1000).start), &mut batch);
//! assert_eq!(batch[5], epoch.index(Position(1000 * 256 + 5)));
//! # Ok::<(), feedline_core::plan::PlanError>(())
//! ```

mod arrangement;
mod boundary;
mod bucketed;
mod builder;
mod epoch;
mod error;
mod feistel;
mod fingerprint;
mod index;
mod key;
mod mixed;
mod order;
mod philox;
mod remaining;
mod sequential;
mod shuffle;
mod shuffled;
mod subset;
mod substitute;
mod weighted;
mod weights;
mod windowed;
mod without_replacement;

pub use boundary::Boundary;
pub use builder::{Plan, PlanBuilder};
pub use epoch::EpochPlan;
pub use error::PlanError;
pub use index::{Position, SampleIndex};
pub use key::{Key, Stream};
pub use order::{Order, Part, ShardSizes};
pub use remaining::Remaining;
pub use shuffle::Shuffle;

pub(crate) use boundary::EpochShare;
pub(crate) use fingerprint::Fingerprint;
