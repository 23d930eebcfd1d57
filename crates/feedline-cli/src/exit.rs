//! How a command ends.

use std::fmt;

/// The meaning of an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Success,
    /// Outputs differ, or a strict requirement was not reached.
    Unsatisfied,
    /// The arguments, or files they name, are no good.
    Usage,
    /// A side of a measurement failed.
    SideFailed,
    /// The user pressed Ctrl-C; what there is has been kept.
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Unsatisfied => 1,
            Self::Usage => 2,
            Self::SideFailed => 3,
            Self::Interrupted => 130,
        }
    }
}

/// An error, what it means for the exit code, and what to do about it.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
    pub(crate) hints: Vec<String>,
}

impl Trouble {
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), hints: Vec::new() }
    }

    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }
}
