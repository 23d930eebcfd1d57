//! Numbers brought to mean 0 and deviation 1.

use feedline_ops::Draw;

use super::{Operation, Scene};
use crate::{Action, Change, OperationError};

/// Subtracts each channel's mean and divides by its deviation: MONAI's `NormalizeIntensity`, channel by channel.
#[derive(Clone, Debug, PartialEq)]
pub struct ZScore {
    nonzero: bool,
}

impl ZScore {
    /// Of all voxels, or of those that are not 0.
    #[must_use]
    pub fn new(nonzero: bool) -> ZScore {
        ZScore { nonzero }
    }
}

impl std::fmt::Display for ZScore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.nonzero { "zscore(nonzero=True)" } else { "zscore()" })
    }
}

impl Operation for ZScore {
    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let change = Change::ZScore { nonzero: self.nonzero };
        let each = (0..scene.channels).map(|channel| (channel, change.clone()));
        actions.extend(each.map(|(channel, change)| Action::Change { channel, change }));
        Ok(())
    }
}
