//! What the machine goes by, for its whole life.

use super::Bunch;

/// What was decided when the loader was built.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// How many batches, or bunches of them, are read ahead.
    pub(crate) prefetch: usize,
    /// Whether `prefetch` counts bunches.
    pub(crate) elastic: bool,
    /// Whether a batch in the user's hands is one of those read ahead.
    pub(crate) frugal: bool,
    pub(crate) bunch: Bunch,
    /// How many bytes may be undelivered or idle.
    pub(crate) budget: u64,
    /// What a batch takes when it is opened.
    pub(crate) batch_bytes: u64,
    /// Whether samples take bytes of which nobody knows how many beforehand.
    pub(crate) loose: bool,
    /// Whether they are taken from an iterator when their batch is opened.
    pub(crate) iterated: bool,
    /// Whether they are padded to the longest, so that each takes what the largest does.
    pub(crate) padded: bool,
    /// In ready order: how many batches' worth of samples may be begun beyond the oldest that is not done.
    pub(crate) window: Option<u64>,
    /// Begin no epoch from this one on.
    pub(crate) epochs: Option<u64>,
    /// Begin no epoch before it is asked for.
    pub(crate) apart: bool,
    pub(crate) batch_size: u64,
}
