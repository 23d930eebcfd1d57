//! A watch on every door: counts and times at negligible cost, and a sentence made of them.
//!
//! Workers count in [tallies](tally) of their own; the consumer notes its [consumption](consumption). Reading
//! them gives a [`Stats`], plain data; [`Stats::explain`] turns it into words.
//!
//! Uses nothing but the names of stages and what others count.

pub(crate) mod consumption;
pub(crate) mod series;
pub(crate) mod stats;
pub(crate) mod tally;
mod verdict;

pub use consumption::BatchTimes;
pub use series::SeriesPoint;
pub use stats::{ConsumerStats, PaddedStats, StageStats, Stats, Times, WorkerStats};
