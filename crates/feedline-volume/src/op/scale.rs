//! Numbers brought to a range.

use feedline_ops::Draw;

use super::{Operation, Scene, each_channel, range};
use crate::{Action, Change, OperationError};

/// Takes one range of numbers to another, and cuts off what is outside: a window of so many Hounsfield units.
/// MONAI's `ScaleIntensityRange`.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    from: (f64, f64),
    to: (f64, f64),
    clip: bool,
}

impl Window {
    /// From this range to that, with or without numbers outside.
    pub fn new(from: (f64, f64), to: (f64, f64), clip: bool) -> Result<Window, OperationError> {
        const NAME: &str = "window";
        range(NAME, "to", to, f64::NEG_INFINITY, f64::INFINITY)?;
        if !(from.0.is_finite() && from.1.is_finite() && from.0 < from.1) {
            let wanted = "a finite level and a width above 0";
            let got = format!("{} to {}", from.0, from.1);
            return Err(OperationError::argument(NAME, "width", got, wanted));
        }
        Ok(Window { from, to, clip })
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((low, high), (a, b)) = (self.from, self.to);
        write!(f, "window({}, {}, to=({a}, {b})", (low + high) / 2.0, high - low)?;
        f.write_str(if self.clip { ")" } else { ", clip=False)" })
    }
}

impl Operation for Window {
    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let ((low, high), (a, b)) = (self.from, self.to);
        let factor = (b - a) / (high - low);
        let (offset, clip) = ((a - low * factor) as f32, self.clip.then_some((a as f32, b as f32)));
        each_channel(scene, actions, |_| Change::Scale { factor: factor as f32, offset, clip });
        Ok(())
    }
}

/// Takes two percentiles of each channel to two numbers: MONAI's `ScaleIntensityRangePercentiles`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePercentiles {
    lower: f64,
    upper: f64,
    to: (f64, f64),
    clip: bool,
}

impl ScalePercentiles {
    /// From these percentiles to these numbers.
    pub fn new(
        lower: f64,
        upper: f64,
        to: (f64, f64),
        clip: bool,
    ) -> Result<ScalePercentiles, OperationError> {
        const NAME: &str = "scale_percentiles";
        range(NAME, "lower, upper", (lower, upper), 0.0, 100.0)?;
        range(NAME, "to", to, f64::NEG_INFINITY, f64::INFINITY)?;
        Ok(ScalePercentiles { lower, upper, to, clip })
    }
}

impl std::fmt::Display for ScalePercentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (a, b) = self.to;
        write!(f, "scale_percentiles({}, {}, to=({a}, {b})", self.lower, self.upper)?;
        f.write_str(if self.clip { ", clip=True)" } else { ")" })
    }
}

impl Operation for ScalePercentiles {
    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let ScalePercentiles { lower, upper, to: (a, b), clip } = *self;
        let to = (a as f32, b as f32);
        each_channel(scene, actions, |_| Change::Percentiles { lower, upper, to, clip });
        Ok(())
    }
}
