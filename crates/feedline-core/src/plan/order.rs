//! The orders a plan can have, as a user asks for them.

use super::arrangement::CheckedOrder;
use super::bucketed::Bucketed;
use super::error::PlanError;
use super::fingerprint::Fingerprint;
use super::mixed::Mixed;
use super::sequential::Sequential;
use super::shuffled::Shuffled;
use super::subset::Subset;
use super::weighted::Weighted;
use super::windowed::Windowed;
use super::without_replacement::WithoutReplacement;

/// How one epoch is arranged.
///
/// | order | each epoch | memory | seek |
/// | --- | --- | --- | --- |
/// | `Sequential` | every sample, as numbered | none | O(1) |
/// | `Shuffled` | every sample, in random order | none (4 KiB up to 2,048 samples) | O(1) |
/// | `Windowed` | every sample; shards shuffled, then samples within windows | none, or 16 bytes per listed shard | O(1), or O(log shards) |
/// | `Weighted`, with replacement | `samples` independent draws | 8 bytes per sample | O(1) |
/// | `Weighted`, without | `samples` different samples | 8 bytes per sample | O(1) after sorting once per epoch |
/// | `Subset` | the listed samples | 4 bytes per entry, 8 beyond 2^32 samples | O(1) |
/// | `Bucketed` | every sample, in batches of similar length | 4 bytes per sample | O(1) |
/// | `Mixed` | exact quotas of several datasets | constant per part | O(log parts) |
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub enum Order {
    /// The samples as the dataset numbers them.
    #[default]
    Sequential,
    /// Every sample once, in a new random order each epoch.
    Shuffled,
    /// Shards in random order; samples in random order within consecutive windows of that stream.
    Windowed {
        /// Where one shard ends and the next begins.
        shards: ShardSizes,
        /// How many consecutive samples are mixed with each other, at least 1.
        window: u64,
    },
    /// Samples drawn in proportion to their weights.
    Weighted {
        /// One weight per sample: finite, at least 0, not all 0.
        weights: Vec<f64>,
        /// The length of an epoch; without replacement at most the number of positive weights.
        samples: u64,
        /// Whether a sample may come several times in one epoch.
        replacement: bool,
    },
    /// The samples of a list; one listed twice comes twice.
    Subset {
        /// Sample indices, each below the dataset's length.
        indices: Vec<u64>,
        /// Whether to shuffle the list each epoch.
        shuffle: bool,
    },
    /// Batches of similar length, in random order; with several ranks, all ranks of a step alike.
    Bucketed {
        /// One length per sample.
        lengths: Vec<u32>,
        /// How many neighbouring batches exchange members each epoch, at least 1. More is more random
        /// and less similar.
        bucket_batches: u64,
    },
    /// Several datasets by weight; sample indices count through their concatenation.
    Mixed {
        /// The datasets, in the order of concatenation.
        parts: Vec<Part>,
        /// The length of an epoch; by default the sum of the parts' lengths.
        samples: Option<u64>,
    },
}

/// Where one shard ends and the next begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShardSizes {
    /// Every shard has this many samples, the last perhaps fewer.
    Fixed(u64),
    /// The size of each shard; the sum is the dataset's length.
    Sizes(Vec<u64>),
}

/// One dataset of a mixture.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Part {
    /// How many samples it has.
    pub len: u64,
    /// Its share of an epoch, relative to the other parts' weights.
    pub weight: f64,
}

impl Order {
    /// Checks the order and builds its tables. `step` is what all ranks consume at a time.
    pub(crate) fn lay_out(self, n: u64, step: u64) -> Result<Box<dyn CheckedOrder>, PlanError> {
        Ok(match self {
            Order::Sequential => Box::new(Sequential { n }),
            Order::Shuffled => Box::new(Shuffled { n }),
            Order::Windowed { shards, window } => Box::new(Windowed::new(n, shards, window)?),
            Order::Weighted { weights, samples, replacement: true } => {
                Box::new(Weighted::new(n, &weights, samples)?)
            }
            Order::Weighted { weights, samples, replacement: false } => {
                Box::new(WithoutReplacement::new(n, &weights, samples)?)
            }
            Order::Subset { indices, shuffle } => Box::new(Subset::new(n, indices, shuffle)?),
            Order::Bucketed { lengths, bucket_batches } => {
                Box::new(Bucketed::new(n, &lengths, bucket_batches, step)?)
            }
            Order::Mixed { parts, samples } => Box::new(Mixed::new(n, &parts, samples)?),
        })
    }

    /// Feeds everything that determines the order into `print`. The leading numbers name the variant;
    /// they are part of every checkpoint ever taken and never change.
    pub(crate) fn imprint(&self, print: &mut Fingerprint) {
        match self {
            Order::Sequential => print.word(0),
            Order::Shuffled => print.word(1),
            Order::Windowed { shards: ShardSizes::Fixed(size), window } => {
                print.words([2, *size, *window]);
            }
            Order::Windowed { shards: ShardSizes::Sizes(sizes), window } => {
                print.words([3, *window]);
                print.table(sizes.iter().copied());
            }
            Order::Weighted { weights, samples, replacement } => {
                print.words([4, *samples, u64::from(*replacement)]);
                print.table(weights.iter().map(|&weight| bits(weight)));
            }
            Order::Subset { indices, shuffle } => {
                print.words([5, u64::from(*shuffle)]);
                print.table(indices.iter().copied());
            }
            Order::Bucketed { lengths, bucket_batches } => {
                print.words([6, *bucket_batches]);
                print.table(lengths.iter().map(|&length| u64::from(length)));
            }
            Order::Mixed { parts, samples } => {
                let default: u64 = parts.iter().fold(0, |sum, part| sum.wrapping_add(part.len));
                print.words([7, samples.unwrap_or(default)]);
                print.table(parts.iter().map(|part| part.len));
                print.table(parts.iter().map(|part| bits(part.weight)));
            }
        }
    }
}

/// The bits of a weight, the same for 0 and -0.
fn bits(weight: f64) -> u64 {
    (weight + 0.0).to_bits()
}
