//! What can be wrong with a plan, and what to pass instead.

/// A plan that cannot be built.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The dataset has no samples.
    #[error("the dataset is empty; pass a dataset with at least 1 sample")]
    EmptyDataset,
    /// The batch size is 0.
    #[error("batch_size must be at least 1, got 0; pass 1 for single samples")]
    ZeroBatchSize,
    /// The number of ranks is 0.
    #[error("world must be at least 1, got 0; pass 1 when one process trains alone")]
    ZeroWorld,
    /// The rank is not one of the world's.
    #[error("rank must be below world {world}, got {rank}; pass a rank in 0..{world}")]
    RankOutOfRange {
        /// The rank asked for.
        rank: u64,
        /// The number of ranks.
        world: u64,
    },
    /// `Drop` would leave out everything.
    #[error(
        "{positions} samples do not fill one batch of {batch_size} on each of {world} ranks, so \
         dropping the rest leaves nothing; pass a smaller batch size, or Boundary::Keep or \
         Boundary::Pad (drop_last=False)"
    )]
    NoFullBatch {
        /// Positions in one epoch.
        positions: u64,
        /// The number of ranks.
        world: u64,
        /// The batch size.
        batch_size: u64,
    },
    /// The epoch, filled up at its end, exceeds 64 bits.
    #[error(
        "{positions} samples rounded up for {world} ranks and batches of {batch_size} exceed 2^64 \
         positions; pass Boundary::Drop, a smaller world or a smaller batch size"
    )]
    TooManyPositions {
        /// Positions in one epoch.
        positions: u64,
        /// The number of ranks.
        world: u64,
        /// The batch size.
        batch_size: u64,
    },
    /// The window of a windowed order is 0.
    #[error("window must be at least 1, got 0; pass 1 to shuffle only the order of the shards")]
    ZeroWindow,
    /// The shard size of a windowed order is 0.
    #[error("shard size must be at least 1, got 0; pass the number of samples in one shard")]
    ZeroShardSize,
    /// The sizes of the shards do not add up to the dataset.
    #[error(
        "the sizes of {shards} shards add up to {sum}, but the dataset has {expected} samples; pass \
         one size per shard, in the order in which the dataset numbers its samples"
    )]
    ShardSizes {
        /// The number of shards given.
        shards: usize,
        /// Their sum, which may exceed 64 bits.
        sum: u128,
        /// The length of the dataset.
        expected: u64,
    },
    /// A table given with an order has the wrong length.
    #[error(
        "{table} has {got} entries, but the dataset has {expected} samples; pass one per sample"
    )]
    TableLength {
        /// `weights` or `lengths`.
        table: &'static str,
        /// Its length.
        got: usize,
        /// The length of the dataset.
        expected: u64,
    },
    /// A weight is negative, infinite or not a number.
    #[error("weight {index} is {value}; pass a finite number of at least 0")]
    BadWeight {
        /// The first bad weight's place.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// Every weight is 0.
    #[error(
        "all {count} weights are 0, so nothing can be drawn; pass at least one positive weight"
    )]
    AllWeightsZero {
        /// How many weights were given.
        count: usize,
    },
    /// An epoch of 0 samples was asked for.
    #[error("samples must be at least 1, got 0; pass how many samples one epoch shall have")]
    ZeroSamples,
    /// More samples than can be drawn without replacement.
    #[error(
        "cannot draw {samples} samples without replacement from {positive} positive weights; pass \
         at most {positive}, or draw with replacement"
    )]
    TooManySamples {
        /// The samples asked for.
        samples: u64,
        /// How many weights are positive.
        positive: u64,
    },
    /// The order keeps 4-byte indices and the dataset needs larger ones.
    #[error(
        "a {order} order numbers at most 2^32 samples, the dataset has {samples}; pass a windowed or \
         shuffled order, or split the dataset into parts of a mixed order"
    )]
    TooLargeForTable {
        /// `weighted` or `bucketed`.
        order: &'static str,
        /// The length of the dataset.
        samples: u64,
    },
    /// A subset names no sample.
    #[error("the subset is empty; pass at least 1 index")]
    EmptySubset,
    /// A subset names a sample that does not exist.
    #[error(
        "index {value} at position {position} of the subset is out of range; pass indices below the \
         dataset's length {len}"
    )]
    SubsetIndex {
        /// The first bad index's place.
        position: usize,
        /// Its value.
        value: u64,
        /// The length of the dataset.
        len: u64,
    },
    /// A bucket of 0 batches.
    #[error(
        "bucket_batches must be at least 1, got 0; pass 1 for batches of the closest lengths, more \
         for more randomness"
    )]
    ZeroBucket,
    /// The lengths of the parts of a mixture do not add up to the dataset.
    #[error(
        "the lengths of {parts} parts add up to {sum}, but the dataset has {expected} samples; pass \
         the length of each dataset in the order of concatenation"
    )]
    PartLengths {
        /// The number of parts given.
        parts: usize,
        /// Their sum, which may exceed 64 bits.
        sum: u128,
        /// The length of the dataset.
        expected: u64,
    },
    /// A part without samples has a positive weight.
    #[error("part {part} is empty but has weight {weight}; pass weight 0 or leave the part out")]
    EmptyPart {
        /// The part's place.
        part: usize,
        /// Its weight.
        weight: f64,
    },
}
