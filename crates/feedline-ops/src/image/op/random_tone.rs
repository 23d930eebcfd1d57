//! Colours of some images, by an amount that is not random.

use super::{Operation, OperationError, probability};
use crate::image::act::Tone;
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

/// Changes the colours of some images: inverts, posterizes, solarizes, equalizes, stretches the contrast, or sharpens.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomTone {
    name: &'static str,
    /// The amount as it stands in the call.
    amount: Option<(&'static str, f64)>,
    tone: Tone,
    p: f64,
}

impl RandomTone {
    /// Inverts colours, with probability `p`.
    pub fn invert(p: f64) -> Result<RandomTone, OperationError> {
        RandomTone::new("random_invert", None, Tone::Invert, p)
    }

    /// Keeps `bits` bits of each value, 0 to 8, with probability `p`.
    pub fn posterize(bits: u32, p: f64) -> Result<RandomTone, OperationError> {
        if bits > 8 {
            return Err(OperationError::argument("random_posterize", "bits", bits, "from 0 to 8"));
        }
        let amount = Some(("bits", f64::from(bits)));
        RandomTone::new("random_posterize", amount, Tone::Posterize(bits), p)
    }

    /// Inverts values from `threshold` on, 0 to 255, with probability `p`.
    pub fn solarize(threshold: f64, p: f64) -> Result<RandomTone, OperationError> {
        const NAME: &str = "random_solarize";
        if !(0.0..=255.0).contains(&threshold) {
            let wanted = "a number from 0 to 255";
            return Err(OperationError::argument(NAME, "threshold", threshold, wanted));
        }
        RandomTone::new(NAME, Some(("threshold", threshold)), Tone::Solarize(threshold), p)
    }

    /// Makes the values of each channel equally frequent, with probability `p`.
    pub fn equalize(p: f64) -> Result<RandomTone, OperationError> {
        RandomTone::new("random_equalize", None, Tone::Equalize, p)
    }

    /// Stretches each channel to the whole range, with probability `p`.
    pub fn autocontrast(p: f64) -> Result<RandomTone, OperationError> {
        RandomTone::new("random_autocontrast", None, Tone::AutoContrast, p)
    }

    /// Sharpens (a factor above 1) or softens (below 1), with probability `p`.
    pub fn adjust_sharpness(factor: f64, p: f64) -> Result<RandomTone, OperationError> {
        const NAME: &str = "random_adjust_sharpness";
        if !factor.is_finite() || factor < 0.0 {
            let wanted = "a finite number of at least 0";
            return Err(OperationError::argument(NAME, "sharpness_factor", factor, wanted));
        }
        RandomTone::new(NAME, Some(("sharpness_factor", factor)), Tone::Sharpness(factor), p)
    }

    fn new(
        name: &'static str,
        amount: Option<(&'static str, f64)>,
        tone: Tone,
        p: f64,
    ) -> Result<RandomTone, OperationError> {
        Ok(RandomTone { name, amount, tone, p: probability(name, p)? })
    }
}

impl std::fmt::Display for RandomTone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.amount {
            Some((name, amount)) => write!(f, "{}({name}={amount}, p={})", self.name, self.p),
            None => write!(f, "{}(p={})", self.name, self.p),
        }
    }
}

impl Operation for RandomTone {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        _size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if draw.chance(self.p) {
            actions.push(Action::Tone(self.tone));
        }
        Ok(())
    }
}
