//! What can go wrong, and for whom: one error for a sample, one for a batch, one for settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assemble::{FieldError, OutOfMemory};
use crate::plan::{PlanError, Position, SampleIndex};
use crate::state::StateError;
use crate::work::{Cause, Stage};

/// What is done about a sample that cannot be made.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnError {
    /// Its batch is delivered as an error; the batches after it are not affected.
    #[default]
    Raise,
    /// Its batch is shorter by one. A batch none of whose samples could be made is delivered empty,
    /// so that batch counts stay equal on every rank.
    Skip,
    /// Another sample takes its place, chosen by seed, epoch and position alone, so that every run
    /// substitutes the same one.
    Replace,
}

/// How a sample failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Failure {
    /// User code returned an error.
    Error,
    /// User code panicked.
    Panic,
    /// It took longer than the time limit.
    Timeout,
}

/// A sample that could not be made: which, where from, in which stage, and why.
#[derive(Clone, Debug)]
pub struct SampleError {
    /// The sample.
    pub index: SampleIndex,
    /// Its place in this rank's epoch.
    pub position: Position,
    /// The epoch it was wanted for.
    pub epoch: u64,
    /// Where it comes from, if the dataset can tell.
    pub origin: Option<String>,
    /// The stage it failed in.
    pub stage: Stage,
    /// How it failed.
    pub failure: Failure,
    /// The sample that took its place, under [`OnError::Replace`].
    pub replaced_by: Option<SampleIndex>,
    cause: Arc<dyn std::error::Error + Send + Sync>,
}

impl SampleError {
    pub(crate) fn new(
        (index, position, epoch): (SampleIndex, Position, u64),
        origin: Option<String>,
        stage: Stage,
        failure: Failure,
        cause: Cause,
    ) -> SampleError {
        let cause = Arc::from(cause);
        SampleError { index, position, epoch, origin, stage, failure, replaced_by: None, cause }
    }

    /// Why, as the code that failed said it.
    #[must_use]
    pub fn cause(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.cause
    }
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sample {}", self.index.0)?;
        if let Some(origin) = &self.origin {
            write!(f, " ({origin})")?;
        }
        let how = match self.failure {
            Failure::Error => "failed",
            Failure::Panic => "panicked",
            Failure::Timeout => "timed out",
        };
        write!(f, " {how} in stage {} (epoch {}): {}", self.stage, self.epoch, self.cause)
    }
}

impl std::error::Error for SampleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.cause)
    }
}

/// The cause of a [`Failure::Timeout`].
#[derive(Debug, thiserror::Error)]
#[error("not done after {limit:?}; raise `sample_timeout` if this sample may take longer")]
pub(crate) struct TimedOut {
    pub(crate) limit: Duration,
}

/// The cause of a [`Failure::Panic`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Panicked(pub(crate) String);

impl Panicked {
    /// The message of a caught panic.
    pub(crate) fn from_payload(payload: &(dyn std::any::Any + Send)) -> Panicked {
        let text = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned());
        Panicked(text.unwrap_or_else(|| "panicked without a message".into()))
    }
}

/// A batch that cannot be delivered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One of its samples could not be made, and the policy is to say so.
    #[error(transparent)]
    Sample(SampleError),
    /// More samples failed than were allowed to.
    #[error(
        "{count} samples could not be made, more than `max_errors` = {limit} allows; the last: {last}"
    )]
    TooManyErrors {
        /// How many failed.
        count: u64,
        /// How many may.
        limit: u64,
        /// The one that was too many.
        last: SampleError,
    },
    /// The samples are there, but cannot be put together.
    #[error("cannot assemble batch {batch} of epoch {epoch}: {cause}")]
    Collate {
        /// The epoch.
        epoch: u64,
        /// The batch within it.
        batch: u64,
        /// Why.
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Padding to the longest sample would need more than the whole budget.
    #[error(
        "field `{field}` padded to {shape:?} needs {bytes} bytes, more than the budget of {budget}; \
         raise `memory`, limit the length, or use a packed field"
    )]
    TooLong {
        /// The ragged field.
        field: String,
        /// The padded shape.
        shape: Vec<usize>,
        /// Its bytes.
        bytes: u64,
        /// The byte budget.
        budget: u64,
    },
    /// The machine has no memory for it.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A thread of the loader's own panicked, or could not be replaced. The loader is closed.
    #[error("the loader broke down: {why}; this is a fault of feedline's, please report it")]
    Broken {
        /// What it said.
        why: Arc<str>,
    },
    /// Another iterator of the same loader was started since.
    #[error(
        "this iterator is over: a loader delivers one epoch at a time, and another was begun, or a state \
         loaded, since; for loops side by side use one loader per loop"
    )]
    Superseded,
    /// The loader was told to begin no further epoch.
    #[error(
        "this loader was built for {epochs} epochs and has begun them all; build it with more `epochs`"
    )]
    NoMoreEpochs {
        /// How many it was built for.
        epochs: u64,
    },
    /// The process was forked since: the workers are in the other one.
    #[error(
        "this loader was built in process {home} and its workers live there; build a new loader in the \
         forked process {here}"
    )]
    Forked {
        /// The process it was built in.
        home: u32,
        /// This process.
        here: u32,
    },
    /// The loader is gone.
    #[error("the loader was closed; build another to load more")]
    Closed,
}

impl Error {
    /// Whether no batch can come after it, as opposed to errors that cost one batch.
    #[must_use]
    pub fn ends_the_epoch(&self) -> bool {
        matches!(
            self,
            Error::Superseded | Error::Closed | Error::Forked { .. } | Error::Broken { .. }
        )
    }
}

/// Settings that no loader can be built with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The plan is impossible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The dataset's fields are.
    #[error(transparent)]
    Fields(#[from] FieldError),
    /// One batch does not fit the budget.
    #[error(
        "one batch needs {batch} bytes, but `memory` allows {budget}; raise it to at least {batch} or use \
         a smaller batch size"
    )]
    BudgetTooSmall {
        /// Bytes of one batch.
        batch: u64,
        /// The byte budget.
        budget: u64,
    },
    /// A setting that must be at least one is zero.
    #[error("`{setting}` must be at least 1, got 0")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// A setting is beyond what makes sense.
    #[error("`{setting}` must be at most {limit}, got {got}")]
    TooLarge {
        /// The setting.
        setting: &'static str,
        /// What was given.
        got: u64,
        /// The most that may be.
        limit: u64,
    },
    /// One batch needs more memory than there is.
    #[error(
        "a batch needs {batch} bytes, more than the {memory} that this machine has; use a smaller `batch_size`"
    )]
    MachineTooSmall {
        /// What a batch needs.
        batch: u64,
        /// What the machine has.
        memory: u64,
    },
    /// Another order has larger batches than there is memory set aside for.
    #[error(
        "a batch of this order has {got} samples, and the loader was built for {limit}, which was \
         all that its first epoch had; build another loader with it"
    )]
    LargerBatch {
        /// The samples of such a batch.
        got: u64,
        /// The most that fit.
        limit: u64,
    },
    /// Two settings exclude each other.
    #[error("`{first}` cannot be combined with `{second}`: {why}")]
    Conflict {
        /// One setting.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A state of another loader.
    #[error("this state does not fit the loader: {0}")]
    State(#[from] StateError),
    /// A log of another loader.
    #[error(
        "the order log of epoch {epoch} is of another plan or incomplete; build the loader with the \
         settings the log was taken with"
    )]
    Log {
        /// The epoch it is of.
        epoch: u64,
    },
    /// The machine refuses threads.
    #[error("cannot start worker thread {number}: {source}; use fewer workers")]
    Thread {
        /// Which one.
        number: usize,
        /// The system's answer.
        source: std::io::Error,
    },
}
