//! How many workers work and how far they read ahead, decided while they do.
//!
//! `Controller` is a state machine without a thread or a clock: it is told what has been counted so far and answers
//! with another [`Setting`], or none. The crew has the thread that counts, asks and carries out; results do not
//! depend on it, since a batch's samples follow from the plan alone.
//!
//! # How it decides
//!
//! It looks at *windows* of time in which nothing was changed, long enough to tell a few per cent:
//!
//! | the loop | the workers | then |
//! | --- | --- | --- |
//! | waits | more than the cores, and want to compute | park those beyond the cores |
//! | waits | sleep | read further ahead |
//! | waits | are busy, and cores are free | more workers: as many as the free cores serve; if they only wait, twice or four times as many |
//! | waits | are busy, and no core is free | nothing: more would only share what there is |
//! | does not wait | sleep most of the time | park those that are not needed |
//!
//! What a worker wants of the cores is what it had of them and what it stood in line for (the kernel counts both). A
//! worker that sleeps in a read, or waits for a lock, wants none; only then can more workers than cores help.
//!
//! # Why it does not oscillate
//!
//! Each change is a *trial*: what follows is left out until it has settled, the next window is compared with the one
//! before, and what gained less than `GAIN` is taken back. Whether reading further ahead gains is judged by what was
//! delivered, all else by what was made, which is known sooner. Between `CONTENT` and `WAITS` nothing is done at all.
//!
//! Every step back makes the next one rarer:
//!
//! * What was taken back is not tried again until `BACKOFF` has passed, which doubles each time. With work that is
//!   another half as fast or as slow it is tried sooner, after a sixteenth of that, four seconds at most; what was
//!   refused with each of the last four such works is remembered, so a loop that goes to and fro teaches both.
//! * Workers are parked when the loop has not waited for a while, and that doubles each time parked workers were
//!   needed after all. They come back at once. So it is with those that were parked because the cores did not serve them.
//! * After a step back nothing is tried for half a second, then one, two, four.
//!
//! So of a loader that stays the same the number of changes grows with the logarithm of time, and of one that comes
//! and goes there is no more than one change in some seconds; the tests try both with loaders drawn at random.

mod controller;
mod limits;
#[cfg(all(test, not(loom)))]
mod test;
mod window;

pub use controller::{Bounds, Controller};
pub use limits::usable_memory;
pub use window::{Counters, Processor};

use serde::Serialize;

/// Below this share of its time, the loop does not wait.
pub(crate) const CONTENT: f64 = 0.015;
/// Above this share, it does.
pub(crate) const WAITS: f64 = 0.03;
/// What a change must bring to be kept.
pub(crate) const GAIN: f64 = 0.03;
/// After so many nanoseconds, what brought nothing is tried again for the first time.
pub(crate) const BACKOFF: u64 = 5_000_000_000;

/// What the controller moves.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Workers that work; others are parked.
    pub workers: usize,
    /// How many batches, or bunches of small ones, are read ahead.
    pub prefetch: usize,
}

/// One thing the controller did, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// When, in nanoseconds since the loader was built.
    pub at_ns: u64,
    /// What was before.
    pub from: Setting,
    /// What was from then on.
    pub to: Setting,
    /// Why, in words.
    pub why: String,
}

/// What the controller has done so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControlStats {
    /// What it moved to.
    pub setting: Setting,
    /// How many workers it may use at most.
    pub most_workers: usize,
    /// How far it may read ahead at most.
    pub most_prefetch: usize,
    /// Cores that this process may use.
    pub cores: usize,
    /// Why it does nothing at present, in words.
    pub stays: String,
    /// The last changes, oldest first (at most 64).
    pub changes: Vec<Change>,
    /// How many changes there were.
    pub changed: u64,
}
