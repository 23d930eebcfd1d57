//! Which process something belongs to: threads and held locks do not survive a fork.

use crate::error::Error;

/// The process something was made in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Process {
        Process(std::process::id())
    }

    /// Whether this is another process: a forked child.
    pub(crate) fn is_left(self) -> bool {
        std::process::id() != self.0
    }

    pub(crate) fn error(self) -> Error {
        Error::Forked { home: self.0, here: std::process::id() }
    }
}
