//! TrivialAugment: one of fourteen changes, of any strength.
//!
//! S. Müller, F. Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", 2021; the wide ranges.

use super::change::{Change, Shift, Space};
use super::rand_augment::check_bins;
use super::{Operation, OperationError};
use crate::image::action::{Action, Fill, Size};
use crate::image::draw::Draw;

/// Applies one randomly chosen change of random strength.
#[derive(Clone, Debug, PartialEq)]
pub struct TrivialAugmentWide {
    bins: usize,
    space: Space,
}

impl TrivialAugmentWide {
    /// Of `bins` strengths. `smooth` blends neighbours where pixels move.
    pub fn new(
        bins: usize,
        smooth: bool,
        fill: Option<Fill>,
    ) -> Result<TrivialAugmentWide, OperationError> {
        check_bins("trivial_augment_wide", bins)?;
        let space = Space {
            shear: 0.99,
            shift: Shift::Pixels(32.0),
            angle: 135.0,
            factor: 0.99,
            bits: (8.0, 6.0),
            smooth,
            fill,
        };
        Ok(TrivialAugmentWide { bins, space })
    }
}

impl std::fmt::Display for TrivialAugmentWide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("trivial_augment_wide()")
    }
}

impl Operation for TrivialAugmentWide {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let choice = Change::RANDOM[draw.below(Change::RANDOM.len())];
        let magnitude = draw.below(self.bins);
        actions.extend(self.space.action(choice, (magnitude, self.bins), size, draw));
        Ok(())
    }
}
