//! Random colours.

use super::{Operation, OperationError, range};
use crate::image::act::Tone;
use crate::image::action::{Action, Size};
use crate::image::draw::Draw;

/// Changes brightness, contrast, saturation and hue, in random order, each by a random amount.
#[derive(Clone, Debug, PartialEq)]
pub struct ColorJitter {
    /// Brightness, contrast, saturation, hue: `None` leaves it.
    ranges: [Option<(f64, f64)>; 4],
}

const NAMES: [&str; 4] = ["brightness", "contrast", "saturation", "hue"];

impl ColorJitter {
    /// Each by a factor out of its range; hue by a part of the circle, from -0.5 to 0.5.
    pub fn new(
        brightness: Option<(f64, f64)>,
        contrast: Option<(f64, f64)>,
        saturation: Option<(f64, f64)>,
        hue: Option<(f64, f64)>,
    ) -> Result<ColorJitter, OperationError> {
        let ranges = [brightness, contrast, saturation, hue];
        for (name, given) in NAMES.into_iter().zip(ranges) {
            let Some(given) = given else { continue };
            let least = if name == "hue" { -0.5 } else { 0.0 };
            let (_, high) = range("color_jitter", name, given, least)?;
            if name == "hue" && high > 0.5 {
                let wanted = "a part of the circle from -0.5 to 0.5";
                return Err(OperationError::argument("color_jitter", "hue", high, wanted));
            }
        }
        Ok(ColorJitter { ranges })
    }
}

impl std::fmt::Display for ColorJitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let given = NAMES.iter().zip(self.ranges);
        let given: Vec<String> = given
            .filter_map(|(name, range)| range.map(|(low, high)| format!("{name}=({low}, {high})")))
            .collect();
        write!(f, "color_jitter({})", given.join(", "))
    }
}

impl Operation for ColorJitter {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        _size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let mut order = [0, 1, 2, 3];
        for last in (1..4).rev() {
            order.swap(last, draw.below(last + 1));
        }
        let amounts = self.ranges.map(|range| range.map(|(low, high)| draw.uniform(low, high)));
        for which in order {
            let Some(amount) = amounts[which] else { continue };
            actions.push(Action::Tone(match which {
                0 => Tone::Brightness(amount),
                1 => Tone::Contrast(amount),
                2 => Tone::Saturation(amount),
                _ => Tone::Hue(amount),
            }));
        }
        Ok(())
    }
}
