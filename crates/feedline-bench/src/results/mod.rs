//! The result model of experiments: what is written while they run, and read back for every output.
//!
//! A folder of results holds `results.jsonl`: a header line, then a line for each measured run as soon
//! as it has ended, for each point that could not be run, and for each check of outputs. Tables, charts
//! and verdicts are drawn from these lines alone, so they can be redrawn at any time.
//!
//! ```
//! use feedline_bench::results::{Point, Level};
//!
//! let point = Point::new().with("loader", "torch").with("workers", 4u32);
//! assert_eq!(point.get("workers"), Some(&Level::Whole(4)));
//! assert_eq!(point.to_string(), "loader=torch workers=4");
//! ```

mod cell;
mod line;
mod point;
mod store;

pub(crate) use cell::{BASELINE, baseline_of, best_by, value_of, worst_by};
pub use cell::{Cell, Results};
pub use line::{Axis, Check, ExperimentHeader, Line, Measurement, NotRun, SCHEMA, Stretch};
pub use point::{Level, Point};
pub use store::{FILE_NAME, ResultStore, find, read};

#[cfg(test)]
pub(crate) use store::tests::header as sample_header;
