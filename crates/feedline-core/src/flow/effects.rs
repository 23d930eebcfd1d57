//! What the machine is told of, and what it answers.

use std::sync::Arc;

use crate::state::{BatchPlace, Course};

/// Which batch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchId {
    pub(crate) generation: u64,
    /// Its place among the batches of its generation.
    pub(crate) turn: u64,
    pub(crate) epoch: u64,
    /// Its place among the batches of its epoch.
    pub(crate) number: u64,
}

impl BatchId {
    pub(super) fn place(&self) -> BatchPlace {
        BatchPlace { epoch: self.epoch, number: self.number }
    }
}

/// A batch that waits to be delivered.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    pub(crate) batch: T,
    /// Which positions it has, where they are not simply the next ones.
    pub(crate) positions: Vec<u64>,
    /// The bytes of its blocks, which become the user's.
    pub(crate) bytes: u64,
}

/// What the consumer is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    /// The next batch, and how many finished ones wait behind it.
    Batch(T, usize),
    /// It is not there yet. Ask again when woken, or at this time.
    Wait { until_ns: Option<u64> },
    /// The epoch is over.
    End,
    /// Another epoch was begun.
    Superseded,
    /// The loader was told to begin no further epoch.
    NoMoreEpochs(u64),
    /// The loader was closed, or one of its own threads panicked with these words.
    Closed(Option<Arc<str>>),
}

/// What a worker that wants to open a batch is told.
pub(crate) enum Opening {
    /// This one. Its bytes are set aside.
    Batch {
        id: BatchId,
        course: Course,
        /// Whether nothing else can make room for it.
        last_hope: bool,
        /// Where the iterator of an iterable dataset goes on, if this is the generation's first batch and it can tell.
        iterator: Option<Arc<str>>,
    },
    /// Read-ahead or the budget is used up.
    Full,
    /// There is nothing to open.
    Nothing,
    /// The loader is being dropped.
    Stopped,
}

/// What is to be done, once the lock is released.
#[must_use = "whoever should be woken would sleep on"]
#[derive(Debug)]
pub(crate) struct Effects<T, J> {
    /// How many workers to wake, at most.
    pub(crate) wake_workers: usize,
    pub(crate) wake_consumer: bool,
    /// How many idle bytes must go.
    pub(crate) evict: u64,
    /// What nobody wants any more.
    pub(crate) dropped: (Vec<T>, Vec<J>),
}

impl<T, J> Default for Effects<T, J> {
    fn default() -> Self {
        Effects {
            wake_workers: 0,
            wake_consumer: false,
            evict: 0,
            dropped: (Vec::new(), Vec::new()),
        }
    }
}

impl<T, J> Effects<T, J> {
    pub(super) fn wake(workers: usize) -> Self {
        Effects { wake_workers: workers, ..Effects::default() }
    }
}

/// Everybody.
pub(super) const ALL: usize = usize::MAX;
