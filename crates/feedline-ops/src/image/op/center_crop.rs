//! The middle of a picture.

use super::{Fusible, Operation, OperationError, in_call, some_pixels};
use crate::image::action::{Action, Area, Border, Size};
use crate::image::draw::Draw;

/// Cuts out the middle; a picture that is too small gets a black border first.
#[derive(Clone, Debug, PartialEq)]
pub struct CenterCrop {
    size: Size,
}

impl CenterCrop {
    /// The middle of this size.
    pub fn new(size: Size) -> Result<CenterCrop, OperationError> {
        Ok(CenterCrop { size: some_pixels("center_crop", size)? })
    }
}

impl std::fmt::Display for CenterCrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "center_crop({})", in_call(self.size))
    }
}

impl Operation for CenterCrop {
    fn extent(&self, _before: Option<Size>) -> Result<Option<Size>, OperationError> {
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
        let missing_rows = self.size.height.saturating_sub(size.height);
        let missing_columns = self.size.width.saturating_sub(size.width);
        if missing_rows > 0 || missing_columns > 0 {
            actions.push(Action::Pad {
                left: missing_columns / 2,
                top: missing_rows / 2,
                right: missing_columns.div_ceil(2),
                bottom: missing_rows.div_ceil(2),
                border: Border::Constant,
                fill: [0.0; 3],
            });
        }
        let size = Size::new(size.height.max(self.size.height), size.width.max(self.size.width));
        if size != self.size {
            // Python's rounding: halves to the even number.
            let middle =
                |whole: usize, part: usize| ((whole - part) as f64 / 2.0).round_ties_even();
            actions.push(Action::Crop(Area {
                top: middle(size.height, self.size.height) as usize,
                left: middle(size.width, self.size.width) as usize,
                height: self.size.height,
                width: self.size.width,
            }));
        }
        Ok(())
    }
}
