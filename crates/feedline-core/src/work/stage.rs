//! The stages of the work on one sample, and the watch that times them.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// One stage of the work on a sample.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Stage {
    /// Getting the bytes: disk, network, archive.
    Load,
    /// Turning bytes into numbers.
    Decode,
    /// Turning numbers into what the model wants.
    Transform,
}

impl Stage {
    /// The stages in the order a sample goes through them.
    pub const ALL: [Stage; 3] = [Stage::Load, Stage::Decode, Stage::Transform];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Load => "load",
            Stage::Decode => "decode",
            Stage::Transform => "transform",
        }
    }

    pub(crate) fn from_u8(code: u8) -> Stage {
        Stage::ALL[usize::from(code).min(2)]
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Times the stages of one sample. An untimed watch only remembers the stage, for error messages:
/// reading the clock costs as much as copying a small row.
#[derive(Debug)]
pub(crate) struct StageWatch<'a> {
    current: Stage,
    since: Option<Instant>,
    spent_ns: [u64; 3],
    /// Where the watcher of time limits reads the stage.
    shown: Option<&'a AtomicU8>,
}

impl<'a> StageWatch<'a> {
    pub(crate) fn start(timed: bool, shown: Option<&'a AtomicU8>) -> StageWatch<'a> {
        let watch = StageWatch {
            current: Stage::Load,
            since: timed.then(Instant::now),
            spent_ns: [0; 3],
            shown,
        };
        watch.show();
        watch
    }

    /// Goes on with time already spent loading elsewhere.
    pub(crate) fn resume(load_ns: u64, shown: Option<&'a AtomicU8>) -> StageWatch<'a> {
        let mut watch = StageWatch::start(true, shown);
        watch.spent_ns[Stage::Load as usize] = load_ns;
        watch
    }

    pub(crate) fn begin(&mut self, stage: Stage) {
        if let Some(since) = &mut self.since {
            let now = Instant::now();
            self.spent_ns[self.current as usize] += (now - *since).as_nanos() as u64;
            *since = now;
        }
        self.current = stage;
        self.show();
    }

    pub(crate) fn current(&self) -> Stage {
        self.current
    }

    /// Nanoseconds per stage; zeros where the watch was not timed.
    pub(crate) fn stop(mut self) -> [u64; 3] {
        self.begin(self.current);
        self.spent_ns
    }

    fn show(&self) {
        if let Some(shown) = self.shown {
            // Relaxed: a label for a message, nothing is published by it.
            shown.store(self.current as u8, Ordering::Relaxed);
        }
    }
}
