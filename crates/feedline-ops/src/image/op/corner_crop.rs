//! Parts at fixed places: the corners and the middle.

use super::{Fusible, Operation, OperationError, in_call, some_pixels};
use crate::image::action::{Action, Area, Size};
use crate::image::draw::Draw;

/// Where a part lies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The upper left corner.
    TopLeft,
    /// The upper right corner.
    TopRight,
    /// The lower left corner.
    BottomLeft,
    /// The lower right corner.
    BottomRight,
    /// The middle.
    Center,
}

impl Place {
    /// All of them, in the order of torchvision's five crops.
    pub const FIVE: [Place; 5] =
        [Place::TopLeft, Place::TopRight, Place::BottomLeft, Place::BottomRight, Place::Center];

    fn name(self) -> &'static str {
        match self {
            Place::TopLeft => "top_left",
            Place::TopRight => "top_right",
            Place::BottomLeft => "bottom_left",
            Place::BottomRight => "bottom_right",
            Place::Center => "center",
        }
    }
}

/// Cuts out a part at a fixed place. A view for each of [`Place::FIVE`] makes torchvision's `FiveCrop`.
#[derive(Clone, Debug, PartialEq)]
pub struct CornerCrop {
    size: Size,
    place: Place,
}

impl CornerCrop {
    /// A part of this size.
    pub fn new(size: Size, place: Place) -> Result<CornerCrop, OperationError> {
        Ok(CornerCrop { size: some_pixels("five_crop", size)?, place })
    }

    fn area(&self, size: Size) -> Result<Area, OperationError> {
        let Size { height, width } = self.size;
        if height > size.height || width > size.width {
            return Err(OperationError::TooSmall { call: self.to_string(), size, advice: "" });
        }
        let (bottom, right) = (size.height - height, size.width - width);
        // Half a pixel goes to the even side, as Python rounds.
        let half = |rest: usize| (rest as f64 / 2.0).round_ties_even() as usize;
        let (top, left) = match self.place {
            Place::TopLeft => (0, 0),
            Place::TopRight => (0, right),
            Place::BottomLeft => (bottom, 0),
            Place::BottomRight => (bottom, right),
            Place::Center => (half(bottom), half(right)),
        };
        Ok(Area { top, left, height, width })
    }
}

impl std::fmt::Display for CornerCrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "crop({}, {})", in_call(self.size), self.place.name())
    }
}

impl Operation for CornerCrop {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        before.map(|size| self.area(size)).transpose()?;
        Ok(Some(self.size))
    }

    fn fusible(&self) -> Fusible {
        Fusible::Moves
    }

    fn draw(
        &self,
        size: Size,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        actions.push(Action::Crop(self.area(size)?));
        Ok(())
    }
}
