//! Another size.

use super::{Fusible, MOST, Operation, OperationError, in_call, some_pixels};
use crate::image::action::{Action, Interpolation, Size};
use crate::image::draw::Draw;

/// Makes pictures another size.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    to: ResizeTo,
    interpolation: Interpolation,
    antialias: bool,
}

#[derive(Copy, Clone, Debug, PartialEq)]
enum ResizeTo {
    /// This height and width, whatever the shape.
    Exactly(Size),
    /// The shorter side so long, the longer one in proportion and at most the second number.
    Shorter(usize, Option<usize>),
    /// The longer side so long, the shorter one in proportion.
    Longer(usize),
}

const NAME: &str = "resize";

impl Resize {
    /// To this height and width.
    pub fn exactly(
        size: Size,
        interpolation: Interpolation,
        antialias: bool,
    ) -> Result<Resize, OperationError> {
        let to = ResizeTo::Exactly(some_pixels(NAME, size)?);
        Ok(Resize { to, interpolation, antialias })
    }

    /// The shorter side to this length, the longer one in proportion, and at most `longest`.
    pub fn shorter(
        side: usize,
        longest: Option<usize>,
        interpolation: Interpolation,
        antialias: bool,
    ) -> Result<Resize, OperationError> {
        some_pixels(NAME, Size::new(side, side))?;
        if let Some(longest) = longest.filter(|longest| *longest <= side || *longest > MOST) {
            let wanted = format!("more than the shorter side's {side}");
            return Err(OperationError::argument(NAME, "max_size", longest, wanted));
        }
        Ok(Resize { to: ResizeTo::Shorter(side, longest), interpolation, antialias })
    }

    /// The longer side to this length, the shorter one in proportion.
    pub fn longer(
        side: usize,
        interpolation: Interpolation,
        antialias: bool,
    ) -> Result<Resize, OperationError> {
        some_pixels(NAME, Size::new(side, side))?;
        Ok(Resize { to: ResizeTo::Longer(side), interpolation, antialias })
    }

    /// The size that a picture of this size becomes.
    #[must_use]
    pub fn size_of(&self, size: Size) -> Size {
        let (short, long) =
            (size.height.min(size.width).max(1), size.height.max(size.width).max(1));
        // Torchvision divides and cuts the fraction off; a strip keeps at least one pixel.
        let part = |of: usize, numerator: usize, denominator: usize| {
            ((of as f64 * numerator as f64 / denominator as f64) as usize).clamp(1, MOST)
        };
        let (short, long) = match self.to {
            ResizeTo::Exactly(size) => return size,
            ResizeTo::Longer(side) => (part(side, short, long), side),
            ResizeTo::Shorter(side, longest) => {
                let long = part(side, long, short);
                match longest {
                    Some(longest) if long > longest => (part(longest, side, long), longest),
                    _ => (side, long),
                }
            }
        };
        if size.width <= size.height { Size::new(long, short) } else { Size::new(short, long) }
    }
}

impl std::fmt::Display for Resize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.to {
            ResizeTo::Exactly(Size { height, width }) => write!(f, "resize(({height}, {width}))"),
            ResizeTo::Shorter(side, None) => {
                write!(f, "resize({})", in_call(Size::new(side, side)))
            }
            ResizeTo::Shorter(side, Some(longest)) => {
                write!(f, "resize({side}, max_size={longest})")
            }
            ResizeTo::Longer(side) => write!(f, "resize(None, max_size={side})"),
        }
    }
}

impl Operation for Resize {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(match self.to {
            ResizeTo::Exactly(size) => Some(size),
            _ => before.map(|size| self.size_of(size)),
        })
    }

    fn fusible(&self) -> Fusible {
        Fusible::resize(self.interpolation, self.antialias)
    }

    fn draw(
        &self,
        size: Size,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let to = self.size_of(size);
        if to != size {
            let (interpolation, antialias) = (self.interpolation, self.antialias);
            actions.push(Action::Resize { to, interpolation, antialias });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_side_is_kept_to_and_the_longer_one_follows() {
        let resize =
            |side, longest| Resize::shorter(side, longest, Interpolation::Bilinear, true).unwrap();
        assert_eq!(resize(256, None).size_of(Size::new(375, 500)), Size::new(256, 341));
        assert_eq!(resize(256, None).size_of(Size::new(500, 375)), Size::new(341, 256));
        assert_eq!(resize(256, Some(300)).size_of(Size::new(375, 500)), Size::new(225, 300));
        let longer = Resize::longer(100, Interpolation::Bilinear, true).unwrap();
        assert_eq!(longer.size_of(Size::new(375, 500)), Size::new(75, 100));
        assert_eq!(longer.size_of(Size::new(1, 2000)), Size::new(1, 100), "a strip keeps a pixel");
    }
}
