//! Blurring at random.

use super::{Operation, OperationError, range};
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

/// Blurs by a Gaussian bell of random width.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianBlur {
    kernel: (usize, usize),
    sigma: (f64, f64),
}

const NAME: &str = "gaussian_blur";

impl GaussianBlur {
    /// With a kernel of so many columns and rows, both odd, and a deviation out of `sigma`.
    pub fn new(kernel: (usize, usize), sigma: (f64, f64)) -> Result<GaussianBlur, OperationError> {
        let (columns, rows) = kernel;
        if columns % 2 == 0 || rows % 2 == 0 || columns > 999 || rows > 999 {
            let wanted = "one or two odd numbers below 1000";
            let got = format!("({columns}, {rows})");
            return Err(OperationError::argument(NAME, "kernel_size", got, wanted));
        }
        let sigma = range(NAME, "sigma", sigma, 1e-6)?;
        Ok(GaussianBlur { kernel, sigma })
    }
}

impl std::fmt::Display for GaussianBlur {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((columns, rows), (low, high)) = (self.kernel, self.sigma);
        if columns == rows {
            write!(f, "gaussian_blur({columns}, sigma=({low}, {high}))")
        } else {
            write!(f, "gaussian_blur(({columns}, {rows}), sigma=({low}, {high}))")
        }
    }
}

impl Operation for GaussianBlur {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        _size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let sigma = draw.uniform(self.sigma.0, self.sigma.1);
        actions.push(Action::Blur { kernel: self.kernel, sigma });
        Ok(())
    }
}
