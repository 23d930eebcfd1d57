//! Numbers brought to mean 0 and deviation 1.

use feedline_ops::Draw;

use super::{Operation, Scene, each_channel};
use crate::{Action, Change, OperationError};

/// Subtracts a mean and divides by a deviation: MONAI's `NormalizeIntensity`, channel by channel.
#[derive(Clone, Debug, PartialEq)]
pub struct ZScore {
    nonzero: bool,
    given: Option<(f64, f64)>,
}

impl ZScore {
    /// By the channel's own mean and deviation: of all voxels, or of those that are not 0.
    #[must_use]
    pub fn new(nonzero: bool) -> ZScore {
        ZScore { nonzero, given: None }
    }

    /// By this mean and deviation, those of the whole training set for example.
    pub fn of(mean: f64, std: f64) -> Result<ZScore, OperationError> {
        for (argument, number, fits) in
            [("mean", mean, mean.is_finite()), ("std", std, std.is_finite() && std > 0.0)]
        {
            if !fits {
                let wanted = if argument == "mean" { "finite" } else { "finite and above 0" };
                return Err(OperationError::argument("zscore", argument, number, wanted));
            }
        }
        Ok(ZScore { nonzero: false, given: Some((mean, std)) })
    }
}

impl std::fmt::Display for ZScore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.given, self.nonzero) {
            (Some((mean, std)), _) => write!(f, "zscore(mean={mean}, std={std})"),
            (None, true) => f.write_str("zscore(nonzero=True)"),
            (None, false) => f.write_str("zscore()"),
        }
    }
}

impl Operation for ZScore {
    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        each_channel(scene, actions, |_| match self.given {
            None => Change::ZScore { nonzero: self.nonzero },
            Some((mean, std)) => {
                let (factor, offset) = ((1.0 / std) as f32, (-mean / std) as f32);
                Change::Scale { factor, offset, clip: None }
            }
        });
        Ok(())
    }
}
