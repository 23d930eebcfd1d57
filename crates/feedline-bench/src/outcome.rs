//! What a side hands back after a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// What one run of one side achieved.
///
/// ```
/// use feedline_bench::{Digest, Outcome};
///
/// let outcome = Outcome::items(64).digest(Digest::of(b"all batches")).figure("p99_wait_s", 0.002);
/// assert_eq!(outcome.items, 64);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// How many items were handled, in the contest's unit.
    pub items: u64,
    /// How many bytes were delivered, where that means something.
    pub bytes: Option<u64>,
    /// Fingerprint of the output; sides are compared by it.
    pub digest: Option<Digest>,
    /// Further figures by name, with the unit at the end of the name (`first_batch_s`).
    pub figures: BTreeMap<String, f64>,
    /// The time that the side measured by itself, in seconds, if it should count instead of the
    /// tool's. Meant for child processes, which cannot call [`Run::start`](crate::Run::start).
    pub seconds: Option<f64>,
}

impl Outcome {
    /// An outcome of `items` items and nothing else yet.
    pub fn items(items: u64) -> Self {
        Self { items, ..Self::default() }
    }

    /// Adds the number of bytes delivered.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Adds the fingerprint of the output.
    pub fn digest(mut self, digest: Digest) -> Self {
        self.digest = Some(digest);
        self
    }

    /// Adds a figure.
    pub fn figure(mut self, name: impl Into<String>, value: f64) -> Self {
        self.figures.insert(name.into(), value);
        self
    }

    /// Lets the side's own time count.
    pub fn seconds(mut self, seconds: f64) -> Self {
        self.seconds = Some(seconds);
        self
    }
}

/// Which interval the seconds of a run cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// The whole turn of the side.
    Whole,
    /// From `start` or to `stop`, as the side called them; CPU time and memory cover the same interval.
    Inner,
    /// The side measured by itself; CPU time and memory still cover the whole turn.
    Reported,
}
