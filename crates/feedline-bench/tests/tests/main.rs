//! The measuring tool from outside.

/// Contests on a virtual clock: order, timing, agreement, failures.
mod contests;
/// Predictions against the simulator.
mod forecasts;
/// Graphics processors, by a double of their library.
#[cfg(target_os = "linux")]
mod gpus;
/// Programs as sides.
mod programs;
/// Record files, sound and broken.
mod records;
/// Requirements, their text and their verdicts.
mod requirements;
/// The Markdown that a fixed record file gives.
mod tables;
/// Figures of real process trees.
#[cfg(target_os = "linux")]
mod trees;
