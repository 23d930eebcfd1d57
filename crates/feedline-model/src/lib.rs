//! Queueing and scaling theory as pure functions: what more workers would bring, and how long a
//! batch waits.
//!
//! * Scaling: [`amdahl`] for work of fixed size, [`gustafson`] for work that grows with the workers,
//!   and the universal scalability law [`Usl`], in which workers can also be in each other's way;
//!   [`fit_amdahl`] and [`fit_usl`] find the law behind measured rates.
//! * Queues: [`Queue`] is M/M/1, M/M/c, M/G/1 and M/G/c, and [`little`] holds in any queue; [`cheapest_workers`] weighs
//!   workers against waiting.
//! * Lines of stages with little room in between: [`Tandem`]; a loader and its training loop as such a line:
//!   [`Loading`]. How evenly work is shared: [`imbalance`].
//! * What it takes: [`memory`] of batches and processes, [`Link`] and [`SharedBandwidth`] for moving bytes,
//!   [`pinning`] for what page-locked memory gains.
//! * A loader as a whole: [`calibrate`] finds what its work costs, [`predict`] what it would do at another setting.
//!
//! [`units`] reads quantities as people write them (`80ms`). Rates are per second and times in seconds, or any other unit if it is the same throughout.
//!
//! ```
//! use feedline_model::{Queue, amdahl};
//!
//! // One twentieth of the work cannot be shared out: 20 workers are about 10 times as fast as one.
//! assert_eq!(amdahl(0.05, 20)?.round(), 10.0);
//!
//! // Samples arrive at 30 per second, a worker makes 10 per second. How many workers keep the mean
//! // wait below 20 ms?
//! let wait = |workers| Queue::mmc(30.0, 10.0, workers).map_or(f64::INFINITY, |m| m.mean_wait());
//! assert_eq!((1..).find(|workers| wait(*workers) < 0.02), Some(5));
//! # Ok::<(), feedline_model::ArgumentError>(())
//! ```

mod argument;
pub mod calibrate;
mod contention;
mod cost;
mod fit;
mod imbalance;
pub mod little;
mod loading;
pub mod memory;
pub mod predict;
mod queue;
#[cfg(test)]
mod random;
mod rehearsal;
mod scaling;
mod tandem;
mod transfer;
pub mod units;

pub use argument::ArgumentError;
pub use cost::{Cheapest, cheapest_workers};
pub use fit::{Fit, Margin, fit_amdahl, fit_usl};
pub use imbalance::{Imbalance, expected_imbalance, imbalance};
pub use loading::Loading;
pub use queue::Queue;
pub use scaling::{Usl, amdahl, gustafson};
pub use tandem::{Stage, Tandem};
pub use transfer::{Link, Pinning, SharedBandwidth, pinning};
