//! Elastic deformation.
//!
//! P. Simard, D. Steinkraus, J. Platt, "Best Practices for Convolutional Neural Networks Applied to Visual Document
//! Analysis", 2003.

use super::{Operation, OperationError};
use crate::image::act::{Displacement, smooth};
use crate::image::action::{Action, Fill, Size};
use crate::image::draw::Draw;

/// Moves every pixel by a random amount that changes smoothly over the image, as if seen through water.
#[derive(Clone, Debug, PartialEq)]
pub struct Elastic {
    alpha: (f64, f64),
    sigma: (f64, f64),
    smooth: bool,
    fill: Option<Fill>,
}

const NAME: &str = "elastic";

/// Pixels for which shifts are made: they take eight bytes each, and as much again while they are smoothed.
const MOST: usize = 1 << 26;

impl Elastic {
    /// `alpha` is how far pixels move, `sigma` how smoothly, in pixels: across and down. `smooth` blends neighbours.
    pub fn new(
        alpha: (f64, f64),
        sigma: (f64, f64),
        smooth: bool,
        fill: Option<Fill>,
    ) -> Result<Elastic, OperationError> {
        let check = |argument, (x, y): (f64, f64), least: f64, most: f64| {
            if (least..=most).contains(&x) && (least..=most).contains(&y) {
                return Ok(());
            }
            let wanted = format!("one or two numbers from {least} to {most}");
            Err(OperationError::argument(NAME, argument, format!("({x}, {y})"), wanted))
        };
        check("alpha", alpha, -1e6, 1e6)?;
        check("sigma", sigma, 0.0, 100.0)?;
        if (sigma.0 == 0.0) != (sigma.1 == 0.0) {
            let got = format!("({}, {})", sigma.0, sigma.1);
            return Err(OperationError::argument(NAME, "sigma", got, "0 for both axes or none"));
        }
        Ok(Elastic { alpha, sigma, smooth, fill })
    }

    /// A number for each pixel, from -1 to 1 and smoothed, times `factor`.
    fn field(&self, size: Size, sigma: f64, factor: f64, draw: &mut dyn Draw) -> Vec<f32> {
        let count = size.height * size.width;
        let mut field = Vec::with_capacity(count + 1);
        while field.len() < count {
            // Two numbers of 24 bits, as single precision has them.
            let bits = draw.next_u64();
            let unit = |bits: u64| (bits >> 40) as f32 * (1.0 / (1u32 << 24) as f32);
            field.extend([bits, bits << 32].map(|bits| unit(bits) * 2.0 - 1.0));
        }
        field.truncate(count);
        if sigma > 0.0 {
            let kernel = (8.0 * sigma + 1.0) as usize | 1;
            smooth(&mut field, size.width, (kernel, kernel), self.sigma);
        }
        field.iter_mut().for_each(|value| *value *= factor as f32);
        field
    }
}

impl std::fmt::Display for Elastic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (alpha, sigma) = (self.alpha, self.sigma);
        if alpha.0 == alpha.1 && sigma.0 == sigma.1 {
            return write!(f, "elastic(alpha={}, sigma={})", alpha.0, sigma.0);
        }
        let ((a, b), (c, d)) = (alpha, sigma);
        write!(f, "elastic(alpha=({a}, {b}), sigma=({c}, {d}))")
    }
}

impl Operation for Elastic {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if size.height.saturating_mul(size.width) > MOST {
            return Err(OperationError::TooLarge { call: self.to_string(), size });
        }
        let factor = |alpha: f64, side: usize| alpha / side.max(1) as f64;
        let across = self.field(size, self.sigma.0, factor(self.alpha.0, size.width), draw);
        let down = self.field(size, self.sigma.1, factor(self.alpha.1, size.height), draw);
        let shifts = across.into_iter().zip(down).map(|(x, y)| [x, y]).collect();
        let (smooth, fill) = (self.smooth, self.fill);
        actions.push(Action::Elastic(Displacement { shifts, size, smooth, fill }));
        Ok(())
    }
}
