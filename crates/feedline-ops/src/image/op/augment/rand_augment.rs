//! RandAugment: some of fourteen changes, all of one strength.
//!
//! E. Cubuk, B. Zoph, J. Shlens, Q. Le, "RandAugment: Practical automated data augmentation with a
//! reduced search space", 2019.

use super::change::{Change, Space};
use super::{Operation, OperationError};
use crate::image::action::{Action, Fill, Size};
use crate::image::draw::Draw;

/// Applies `num_ops` randomly chosen changes.
#[derive(Clone, Debug, PartialEq)]
pub struct RandAugment {
    num_ops: usize,
    magnitude: usize,
    bins: usize,
    space: Space,
    choices: Vec<Change>,
}

const NAME: &str = "rand_augment";

impl RandAugment {
    /// `num_ops` changes of strength `magnitude`, a number below `bins`. `only` names those to choose
    /// from; all if it is empty.
    pub fn new(
        num_ops: usize,
        magnitude: usize,
        bins: usize,
        smooth: bool,
        fill: Option<Fill>,
        only: &[String],
    ) -> Result<RandAugment, OperationError> {
        if num_ops > 100 {
            return Err(OperationError::argument(NAME, "num_ops", num_ops, "at most 100"));
        }
        check_bins(NAME, bins)?;
        if magnitude >= bins {
            let wanted = format!("below num_magnitude_bins, {bins}");
            return Err(OperationError::argument(NAME, "magnitude", magnitude, wanted));
        }
        let find = |name: &String| {
            Change::RANDOM.iter().copied().find(|choice| choice.name() == name).ok_or_else(|| {
                let known: Vec<_> = Change::RANDOM.iter().map(|choice| choice.name()).collect();
                let wanted = format!("some of {}", known.join(", "));
                OperationError::argument(NAME, "operations", format!("{name:?}"), wanted)
            })
        };
        let mut choices = only.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        if choices.is_empty() {
            choices = Change::RANDOM.to_vec();
        }
        let space = Space::usual(smooth, fill);
        Ok(RandAugment { num_ops, magnitude, bins, space, choices })
    }
}

/// Checks that there are strengths to choose among.
pub(super) fn check_bins(operation: &'static str, bins: usize) -> Result<(), OperationError> {
    if (2..=1 << 20).contains(&bins) {
        return Ok(());
    }
    let wanted = "from 2 to 1048576";
    Err(OperationError::argument(operation, "num_magnitude_bins", bins, wanted))
}

impl std::fmt::Display for RandAugment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rand_augment(num_ops={}, magnitude={})", self.num_ops, self.magnitude)
    }
}

impl Operation for RandAugment {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        for _ in 0..self.num_ops {
            let choice = self.choices[draw.below(self.choices.len())];
            actions.extend(self.space.action(choice, (self.magnitude, self.bins), size, draw));
        }
        Ok(())
    }
}
