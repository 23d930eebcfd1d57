//! Operations as users ask for them: one per file, with the names, defaults and meaning of
//! `torchvision.transforms.v2`.

mod affine;
mod augment;
mod center_crop;
mod chain;
mod color_jitter;
mod corner_crop;
mod elastic;
mod error;
mod flip;
mod gaussian_blur;
mod grayscale;
mod perspective;
mod random_apply;
mod random_choice;
mod random_crop;
mod random_erasing;
mod random_order;
mod random_resized_crop;
mod random_tone;
mod resize;
mod rotation;
#[cfg(test)]
mod test;

use super::action::{Action, Interpolation, Size};
use super::draw::Draw;

pub use affine::RandomAffine;
pub use augment::{AugMix, AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide};
pub use center_crop::CenterCrop;
pub use color_jitter::ColorJitter;
pub use corner_crop::{CornerCrop, Place};
pub use elastic::Elastic;
pub use error::OperationError;
pub use flip::{RandomHorizontalFlip, RandomVerticalFlip};
pub use gaussian_blur::GaussianBlur;
pub use grayscale::Grayscale;
pub use perspective::RandomPerspective;
pub use random_apply::RandomApply;
pub use random_choice::RandomChoice;
pub use random_crop::RandomCrop;
pub use random_erasing::{Erasure, RandomErasing};
pub use random_order::RandomOrder;
pub use random_resized_crop::RandomResizedCrop;
pub use random_tone::RandomTone;
pub use resize::Resize;
pub use rotation::RandomRotation;

/// Something done to every picture, with parameters drawn anew for each.
///
/// Its `Display` is the call that makes it, such as `random_resized_crop(224)`.
pub trait Operation: std::fmt::Debug + std::fmt::Display + Send + Sync {
    /// The size of every picture after it, where that is known beforehand (`None`: it varies), given
    /// the same of the pictures before. Fails where no picture of that size can be processed.
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError>;

    /// The number of channels after it. Fails where that would be a matter of chance.
    fn channels(&self, before: usize) -> Result<usize, OperationError> {
        Ok(before)
    }

    /// Whether it blends copies of the image that were moved apart, so that nothing which lies on the image can
    /// move with it.
    fn blends(&self) -> bool {
        false
    }

    /// Whether the decoder can do it on the way.
    fn fusible(&self) -> Fusible {
        Fusible::No
    }

    /// Draws what is done to a picture of this size and appends it to `actions`.
    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError>;
}

/// What an operation is to the decoder.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fusible {
    /// Something it cannot do.
    No,
    /// A crop: any number of them.
    Moves,
    /// A flip: any number of them; it can also be done last, as the result is written.
    Flips,
    /// A resize, of which it can do one.
    Resizes,
}

impl Fusible {
    /// That of a resize.
    fn resize(interpolation: Interpolation, antialias: bool) -> Fusible {
        if antialias && interpolation != Interpolation::Nearest {
            Fusible::Resizes
        } else {
            Fusible::No
        }
    }
}

/// Checks that a number is a probability.
fn probability(operation: &'static str, p: f64) -> Result<f64, OperationError> {
    if (0.0..=1.0).contains(&p) {
        return Ok(p);
    }
    Err(OperationError::argument(operation, "p", p, "a number from 0 to 1"))
}

/// Checks that a range is one: finite, and its ends in order.
fn range(
    operation: &'static str,
    argument: &'static str,
    (low, high): (f64, f64),
    least: f64,
) -> Result<(f64, f64), OperationError> {
    if low.is_finite() && high.is_finite() && least <= low && low <= high {
        return Ok((low, high));
    }
    let wanted = if least == f64::NEG_INFINITY {
        "two finite numbers (min, max)".to_string()
    } else {
        format!("two finite numbers (min, max) of at least {least}")
    };
    Err(OperationError::argument(operation, argument, format!("({low}, {high})"), wanted))
}

/// Checks that a size has pixels.
fn some_pixels(operation: &'static str, size: Size) -> Result<Size, OperationError> {
    if size.height > 0 && size.width > 0 && size.height <= MOST && size.width <= MOST {
        return Ok(size);
    }
    let wanted = format!("a height and width from 1 to {MOST}");
    Err(OperationError::argument(operation, "size", size, wanted))
}

/// The largest side an operation may make.
const MOST: usize = 1 << 20;

/// A size in a call: one number where it is a square.
fn in_call(size: Size) -> String {
    if size.height == size.width {
        size.height.to_string()
    } else {
        format!("({}, {})", size.height, size.width)
    }
}
