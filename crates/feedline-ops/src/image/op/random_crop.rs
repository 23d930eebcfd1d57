//! A random part of a picture, as large as it is.

use super::{Fusible, MOST, Operation, OperationError, in_call, some_pixels};
use crate::image::action::{Action, Area, Border, Fill, Size};
use crate::image::draw::Draw;

/// Cuts out an area of one size at a random place, after an optional border.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomCrop {
    size: Size,
    /// Left, top, right, bottom.
    padding: [usize; 4],
    pad_if_needed: bool,
    fill: Fill,
    border: Border,
}

impl RandomCrop {
    /// An area of this size. `padding` is left, top, right, bottom.
    pub fn new(
        size: Size,
        padding: [usize; 4],
        pad_if_needed: bool,
        fill: Fill,
        border: Border,
    ) -> Result<RandomCrop, OperationError> {
        const NAME: &str = "random_crop";
        let size = some_pixels(NAME, size)?;
        if let Some(side) = padding.iter().find(|side| **side > MOST) {
            let wanted = format!("at most {MOST} on each side");
            return Err(OperationError::argument(NAME, "padding", side, wanted));
        }
        Ok(RandomCrop { size, padding, pad_if_needed, fill, border })
    }

    /// The border that a picture of this size gets.
    fn padding_of(&self, size: Size) -> [usize; 4] {
        let [mut left, mut top, mut right, mut bottom] = self.padding;
        if self.pad_if_needed {
            // Torchvision adds what is missing on both sides.
            let rows = self.size.height.saturating_sub(size.height + top + bottom);
            let columns = self.size.width.saturating_sub(size.width + left + right);
            (left, right) = (left + columns, right + columns);
            (top, bottom) = (top + rows, bottom + rows);
        }
        [left, top, right, bottom]
    }

    fn padded(&self, size: Size) -> Result<Size, OperationError> {
        let [left, top, right, bottom] = self.padding_of(size);
        let padded = Size::new(size.height + top + bottom, size.width + left + right);
        if padded.height < self.size.height || padded.width < self.size.width {
            let (call, advice) = (self.to_string(), "pass pad_if_needed=True, or ");
            return Err(OperationError::TooSmall { call, size: padded, advice });
        }
        Ok(padded)
    }
}

impl std::fmt::Display for RandomCrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_crop({}", in_call(self.size))?;
        match self.padding {
            [0, 0, 0, 0] => {}
            [a, b, c, d] if a == b && b == c && c == d => write!(f, ", padding={a}")?,
            [a, b, c, d] => write!(f, ", padding=({a}, {b}, {c}, {d})")?,
        }
        if self.pad_if_needed {
            f.write_str(", pad_if_needed=True")?;
        }
        f.write_str(")")
    }
}

impl Operation for RandomCrop {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        before.map(|size| self.padded(size)).transpose()?;
        Ok(Some(self.size))
    }

    fn fusible(&self) -> Fusible {
        if self.padding == [0; 4] && !self.pad_if_needed { Fusible::Moves } else { Fusible::No }
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let padded = self.padded(size)?;
        let [left, top, right, bottom] = self.padding_of(size);
        if padded != size {
            let (border, fill) = (self.border, self.fill);
            actions.push(Action::Pad { left, top, right, bottom, border, fill });
        }
        let top = draw.below(padded.height - self.size.height + 1);
        let left = draw.below(padded.width - self.size.width + 1);
        if padded != self.size {
            let Size { height, width } = self.size;
            actions.push(Action::Crop(Area { top, left, height, width }));
        }
        Ok(())
    }
}
