//! What happens at the end of an epoch, counted exactly.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::error::PlanError;

/// What happens when the samples do not fill the last batch of every rank.
///
/// With `n` positions in the order, `world` ranks and batches of `b`, every rank gets the same
/// number of batches:
///
/// | boundary | batches per rank | samples per rank | repeated | left out |
/// | --- | --- | --- | --- | --- |
/// | `Drop` | `n / (world * b)`, rounded down | `batches * b` | none | fewer than `world * b` |
/// | `Pad` | `n / (world * b)`, rounded up | `batches * b` | fewer than `world * b` | none |
/// | `Keep` | `samples / b`, rounded up | `n / world`, rounded up | fewer than `world` | none |
///
/// What is repeated is the start of the same epoch.
///
/// The same holds for what is left of an epoch that is resumed, with `n` the positions that are left;
/// only `Drop` may then leave no batch at all.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boundary {
    /// Leave out the samples that do not fill a batch on every rank.
    Drop,
    /// Fill the last batch of every rank by repeating samples from the start of the epoch.
    Pad,
    /// Deliver a short last batch, equally short on every rank.
    #[default]
    Keep,
}

/// What one rank gets of an epoch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct EpochShare {
    pub(crate) batches: u64,
    pub(crate) samples: u64,
}

impl EpochShare {
    /// The positions of one batch; empty past the last batch.
    pub(crate) fn batch_range(self, batch: u64, batch_size: u64) -> Range<u64> {
        let start = batch.saturating_mul(batch_size).min(self.samples);
        start..start.saturating_add(batch_size).min(self.samples)
    }
}

impl Boundary {
    /// As [`share`](Boundary::share) of a whole epoch that was accepted, for the `n` positions that are
    /// left of it, perhaps none.
    pub(crate) fn share_rest(self, n: u64, world: u64, batch_size: u64) -> EpochShare {
        match n {
            0 => EpochShare { batches: 0, samples: 0 },
            // `Drop` refuses what fills no batch. The others are no larger than the whole was.
            _ => self
                .share(n, world.max(1), batch_size.max(1))
                .unwrap_or(EpochShare { batches: 0, samples: 0 }),
        }
    }

    /// Splits `n` positions among `world` ranks. All arguments are at least 1.
    pub(crate) fn share(
        self,
        n: u64,
        world: u64,
        batch_size: u64,
    ) -> Result<EpochShare, PlanError> {
        let (wide_n, wide_world, wide_batch) =
            (u128::from(n), u128::from(world), u128::from(batch_size));
        let step = wide_world * wide_batch;
        let (batches, samples) = match self {
            Boundary::Drop if step > wide_n => {
                return Err(PlanError::NoFullBatch { positions: n, world, batch_size });
            }
            Boundary::Drop => (wide_n / step, wide_n / step * wide_batch),
            Boundary::Pad => (wide_n.div_ceil(step), wide_n.div_ceil(step) * wide_batch),
            Boundary::Keep => {
                let samples = wide_n.div_ceil(wide_world);
                (samples.div_ceil(wide_batch), samples)
            }
        };
        // The last global position must fit into 64 bits, so that no later sum can overflow. The
        // counts then fit too, except that one rank may own all 2^64 positions.
        let too_many = || PlanError::TooManyPositions { positions: n, world, batch_size };
        match samples.checked_mul(wide_world) {
            Some(total) if total <= 1 << 64 => Ok(EpochShare {
                batches: batches.try_into().map_err(|_| too_many())?,
                samples: samples.try_into().map_err(|_| too_many())?,
            }),
            _ => Err(too_many()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_ten_samples_on_two_ranks_in_batches_of_three() {
        let share = |boundary: Boundary| boundary.share(10, 2, 3).unwrap();
        assert_eq!(share(Boundary::Drop), EpochShare { batches: 1, samples: 3 });
        assert_eq!(share(Boundary::Pad), EpochShare { batches: 2, samples: 6 });
        assert_eq!(share(Boundary::Keep), EpochShare { batches: 2, samples: 5 });
    }

    #[test]
    fn the_largest_epochs_fit_or_are_refused() {
        assert!(Boundary::Keep.share(u64::MAX, 1, u64::MAX).is_ok());
        assert!(Boundary::Keep.share(u64::MAX, 2, 1).is_ok());
        assert!(Boundary::Pad.share(u64::MAX, 1, 2).is_err());
        assert!(Boundary::Pad.share(1, u64::MAX, u64::MAX).is_err());
        assert!(Boundary::Drop.share(1, u64::MAX, u64::MAX).is_err());
        assert!(Boundary::Keep.share(u64::MAX, u64::MAX - 1, 1).is_err());
    }
}
