//! The one measuring tool: interleaved rounds, ratios, reports.
//!
//! A [`Contest`] runs its sides in turn, round after round (A B, B A, B A, A B, …), so that whatever
//! disturbs the machine disturbs all sides alike, and compares them within each round. A [`Probe`]
//! meters time, CPU time and memory of the whole process tree, and what others did on the machine
//! meanwhile. Outputs are checked to be equal by their [`Digest`]. Every run is written to a
//! [record file](record) as it comes; a [`Report`] and its [Markdown table](table::markdown) are drawn
//! from records alone and can be redrawn at any time.
//!
//! ```
//! use feedline_bench::{Contest, Digest, Outcome, Requirement, Settings, table};
//!
//! let numbers: Vec<u64> = (0..10_000).rev().collect();
//! let digest = |sorted: &[u64]| Digest::of(&sorted.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>());
//!
//! let mut settings = Settings::new("sorting ten thousand numbers");
//! settings.unit = "numbers".into();
//! settings.rounds = 3;
//! settings.requirements.push(Requirement::speed("unstable", "stable", 0.01));
//! let report = Contest::new(settings)
//!     .side("stable", |run| {
//!         let mut list = numbers.clone(); // set-up: not measured
//!         run.start()?;
//!         list.sort();
//!         run.stop()?; // neither is the digest
//!         Ok(Outcome::items(list.len() as u64).digest(digest(&list)))
//!     })
//!     .side("unstable", |run| {
//!         let mut list = numbers.clone();
//!         run.start()?;
//!         list.sort_unstable();
//!         run.stop()?;
//!         Ok(Outcome::items(list.len() as u64).digest(digest(&list)))
//!     })
//!     .run()?;
//! assert!(report.disagreements.is_empty() && report.requirements_met());
//! assert!(table::markdown(&report).contains("unstable ran "));
//! # Ok::<(), feedline_bench::BenchError>(())
//! ```
//!
//! | type | what it is |
//! | --- | --- |
//! | [`Settings`] | title, unit, rounds, rules, requirements |
//! | [`Contest`] | sides as closures or [commands](CommandSide), run to the end |
//! | [`Rounds`] | the same, step by step; what bindings to other languages drive |
//! | [`SystemProbe`], [`VirtualProbe`] | the real instruments, and scripted ones for tests |
//! | [`Recorder`], [`read_records`] | JSON lines, written and read back |
//! | [`Report`] | medians, ratios, [verdicts](Verdict), [disagreements](Disagreement), [warnings](Warning) |
//!
//! What it is not: a micro-benchmark harness. It does not repeat a side to fill time; a run should last
//! some tenths of a second or more, or the load of others cannot be told.

pub mod agreement;
pub mod chart;
mod command;
mod contest;
mod digest;
mod error;
pub mod experiment;
pub mod forecast;
pub mod generate;
mod gpu;
mod kernel;
mod machine;
mod outcome;
pub mod output;
mod probe;
pub mod process_tree;
pub mod record;
mod report;
pub mod requirement;
pub mod results;
mod rounds;
mod settings;
pub mod show;
pub mod simulation;
pub mod summary;
mod system_probe;
pub mod table;
mod traced;
mod units;
mod virtual_probe;
mod warning;

pub use agreement::{Agreement, Disagreement};
pub use command::{CommandError, CommandSide};
pub use contest::{Contest, ContestEvent, Run};
pub use digest::{Digest, OrderedDigest, UnorderedDigest};
pub use error::{BenchError, BoxError};
pub use gpu::{GpuReading, Gpus, NoGpu};
pub use machine::Machine;
pub use outcome::{Outcome, Timing};
pub use probe::{Probe, Usage};
pub use process_tree::thread_cpu;
pub use record::{ContestHeader, Recorder, RunRecord, Transcript, read_records};
pub use report::{Report, SideReport};
pub use requirement::{Bound, Quantity, Requirement, Subject, Verdict};
pub use rounds::{Rounds, Turn};
pub use settings::Settings;
pub use summary::{Estimate, Interval, Summary};
pub use system_probe::{Moment, SystemProbe};
pub use traced::{Notes, Traced};
pub use virtual_probe::{VirtualClock, VirtualProbe};
pub use warning::Warning;
