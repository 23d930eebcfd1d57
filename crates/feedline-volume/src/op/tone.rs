//! Random brightness, contrast and gamma.

use feedline_ops::Draw;

use super::{Operation, Scene, each_channel, probability, range};
use crate::{Action, Change, OperationError};

/// What a random number changes.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Kind {
    Brightness,
    Contrast { preserve_range: bool },
    Gamma { invert: bool, retain_stats: bool },
}

/// Changes the numbers of some volumes by a random amount, the same for all channels.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomTone {
    kind: Kind,
    p: f64,
    by: (f64, f64),
}

/// The largest amount.
const MOST: f64 = 1e6;

impl RandomTone {
    /// Multiplies by a factor of this range: MONAI's `RandScaleIntensity`, whose factors are less by one.
    pub fn brightness(p: f64, by: (f64, f64)) -> Result<RandomTone, OperationError> {
        const NAME: &str = "random_brightness";
        let (p, by) = (probability(NAME, p)?, range(NAME, "factor", by, -MOST, MOST)?);
        Ok(RandomTone { kind: Kind::Brightness, p, by })
    }

    /// Multiplies distances from the mean, as batchgeneratorsv2's `ContrastTransform`.
    pub fn contrast(
        p: f64,
        by: (f64, f64),
        preserve_range: bool,
    ) -> Result<RandomTone, OperationError> {
        const NAME: &str = "random_contrast";
        let (p, by) = (probability(NAME, p)?, range(NAME, "factor", by, -MOST, MOST)?);
        Ok(RandomTone { kind: Kind::Contrast { preserve_range }, p, by })
    }

    /// Raises to a power between the least and the largest number: MONAI's `RandAdjustContrast`.
    pub fn gamma(
        p: f64,
        by: (f64, f64),
        invert: bool,
        retain_stats: bool,
    ) -> Result<RandomTone, OperationError> {
        const NAME: &str = "random_gamma";
        let (p, by) = (probability(NAME, p)?, range(NAME, "gamma", by, 0.001, 100.0)?);
        Ok(RandomTone { kind: Kind::Gamma { invert, retain_stats }, p, by })
    }
}

impl std::fmt::Display for RandomTone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, argument) = match self.kind {
            Kind::Brightness => ("random_brightness", "factor"),
            Kind::Contrast { .. } => ("random_contrast", "factor"),
            Kind::Gamma { .. } => ("random_gamma", "gamma"),
        };
        write!(f, "{name}(p={}, {argument}={:?}", self.p, self.by)?;
        match self.kind {
            Kind::Contrast { preserve_range: false } => f.write_str(", preserve_range=False")?,
            Kind::Gamma { invert, retain_stats } => {
                for (name, set) in [("invert", invert), ("retain_stats", retain_stats)] {
                    if set {
                        write!(f, ", {name}=True")?;
                    }
                }
            }
            _ => {}
        }
        f.write_str(")")
    }
}

impl Operation for RandomTone {
    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if draw.chance(self.p) {
            let by = draw.uniform(self.by.0, self.by.1) as f32;
            each_channel(scene, actions, |_| match self.kind {
                Kind::Brightness => Change::Scale { factor: by, offset: 0.0, clip: None },
                Kind::Contrast { preserve_range } => {
                    Change::Contrast { factor: by, preserve_range }
                }
                Kind::Gamma { invert, retain_stats } => {
                    Change::Gamma { gamma: by, invert, retain_stats }
                }
            });
        }
        Ok(())
    }
}
