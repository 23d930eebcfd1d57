//! Why a state cannot be resumed from.

/// A state that a loader cannot go on from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Written by another version.
    #[error(
        "it has version {got}, this feedline reads version {known}; use the feedline that wrote it"
    )]
    Version {
        /// Its version.
        got: u32,
        /// What this one reads.
        known: u32,
    },
    /// Taken with another plan or pipeline.
    #[error(
        "{what}; build the loader as it was then, or force it (`force=True`; in Rust \
         `LoaderBuilder::resume_forced`) to go on at the same place of this loader's own order, where \
         samples may then come twice or not at all until the epoch ends"
    )]
    Differs {
        /// What differs, both sides of it.
        what: String,
    },
    /// One rank of several delivered its samples in another order than planned, so that it alone does
    /// not say what the others have left.
    #[error(
        "it was taken on rank {rank} of {world} in ready order and says nothing about what the other ranks \
         have delivered; load it on rank {rank} of {world}, or merge the states of all ranks \
         (`feedline.merge_states`; in Rust `State::merge`)"
    )]
    OneRankOnly {
        /// Its rank.
        rank: u64,
        /// Of how many.
        world: u64,
    },
    /// States that are not of one run.
    #[error(
        "these states cannot be merged: {what}; pass the states of all ranks, taken at one checkpoint"
    )]
    Unmergeable {
        /// What does not fit.
        what: String,
    },
    /// Its parts contradict each other.
    #[error("it is damaged: {what}")]
    Damaged {
        /// How that shows.
        what: String,
    },
}
