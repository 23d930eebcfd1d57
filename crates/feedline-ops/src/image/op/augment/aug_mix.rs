//! AugMix: an image blended with several augmented copies of itself.
//!
//! D. Hendrycks et al., "AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty", 2020.

use super::change::{BINS, Change, Shift, Space};
use super::{Operation, OperationError};
use crate::image::action::{Action, Fill, Mix, Size};
use crate::image::draw::Draw;
use crate::image::mix::{beta, dirichlet};

/// Blends images with augmented copies of themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct AugMix {
    severity: usize,
    width: usize,
    depth: Option<usize>,
    alpha: f64,
    choices: &'static [Change],
    space: Space,
}

const NAME: &str = "aug_mix";

impl AugMix {
    /// `width` copies, each after `depth` changes (one to three, drawn for each, if there is none) of a strength of
    /// at most `severity`, 1 to 10. `alpha` shapes the distribution of the weights. Without `all_ops` brightness,
    /// color, contrast and sharpness stay. `smooth` blends neighbours where pixels move.
    pub fn new(
        severity: usize,
        width: usize,
        depth: Option<usize>,
        alpha: f64,
        all_ops: bool,
        smooth: bool,
        fill: Option<Fill>,
    ) -> Result<AugMix, OperationError> {
        if !(1..=BINS).contains(&severity) {
            return Err(OperationError::argument(NAME, "severity", severity, "from 1 to 10"));
        }
        if !(1..=100).contains(&width) {
            return Err(OperationError::argument(NAME, "mixture_width", width, "from 1 to 100"));
        }
        if let Some(depth) = depth.filter(|depth| *depth > 100) {
            return Err(OperationError::argument(NAME, "chain_depth", depth, "at most 100"));
        }
        if !(1e-3..=1e6).contains(&alpha) {
            let wanted = "a number from 0.001 to 1000000";
            return Err(OperationError::argument(NAME, "alpha", alpha, wanted));
        }
        let choices = if all_ops { Change::MIXED } else { &Change::MIXED[..9] };
        let space =
            Space { shift: Shift::Part(1.0 / 3.0), bits: (4.0, 4.0), ..Space::usual(smooth, fill) };
        let depth = depth.filter(|depth| *depth > 0);
        Ok(AugMix { severity, width, depth, alpha, choices, space })
    }
}

impl std::fmt::Display for AugMix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "aug_mix(severity={}, mixture_width={})", self.severity, self.width)
    }
}

impl Operation for AugMix {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn blends(&self) -> bool {
        true
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let original = beta(self.alpha, draw);
        let copies = 1.0 - original;
        let weights = dirichlet(self.alpha, self.width, draw);
        let mut chains = Vec::with_capacity(self.width);
        for weight in weights {
            let depth = self.depth.unwrap_or_else(|| 1 + draw.below(3));
            let mut chain = Vec::with_capacity(depth);
            for _ in 0..depth {
                let choice = self.choices[draw.below(self.choices.len())];
                let magnitude = draw.below(self.severity);
                chain.extend(self.space.action(choice, (magnitude, BINS), size, draw));
            }
            chains.push((weight as f32 * copies as f32, chain));
        }
        actions.push(Action::Mix(Box::new(Mix { original: original as f32, chains })));
        Ok(())
    }
}
