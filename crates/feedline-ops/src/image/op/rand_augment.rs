//! RandAugment: some of fourteen changes, all of one strength.
//!
//! E. Cubuk, B. Zoph, J. Shlens, Q. Le, "RandAugment: Practical automated data augmentation with a
//! reduced search space", 2019; the changes and their strengths are torchvision's.

use super::affine::affine;
use super::rotation::rotate;
use super::{Operation, OperationError};
use crate::image::act::Tone;
use crate::image::action::{Action, Fill, Size};
use crate::image::draw::Draw;

/// Applies `num_ops` randomly chosen changes.
#[derive(Clone, Debug, PartialEq)]
pub struct RandAugment {
    num_ops: usize,
    magnitude: usize,
    bins: usize,
    smooth: bool,
    fill: Option<Fill>,
    choices: Vec<Choice>,
}

macro_rules! choices {
    ($($name:ident),*) => {
        #[derive(Copy, Clone, Debug, PartialEq)]
        enum Choice { $($name),* }

        impl Choice {
            const ALL: &[Choice] = &[$(Choice::$name),*];

            fn name(self) -> &'static str {
                match self { $(Choice::$name => stringify!($name)),* }
            }
        }
    };
}

choices!(
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize
);

const NAME: &str = "rand_augment";

impl RandAugment {
    /// `num_ops` changes of strength `magnitude`, a number below `bins`. `only` names those to choose
    /// from; all if it is empty.
    pub fn new(
        num_ops: usize,
        magnitude: usize,
        bins: usize,
        smooth: bool,
        fill: Option<Fill>,
        only: &[String],
    ) -> Result<RandAugment, OperationError> {
        if num_ops > 100 {
            return Err(OperationError::argument(NAME, "num_ops", num_ops, "at most 100"));
        }
        if bins < 2 {
            return Err(OperationError::argument(NAME, "num_magnitude_bins", bins, "at least 2"));
        }
        if magnitude >= bins {
            let wanted = format!("below num_magnitude_bins, {bins}");
            return Err(OperationError::argument(NAME, "magnitude", magnitude, wanted));
        }
        let find = |name: &String| {
            Choice::ALL.iter().copied().find(|choice| choice.name() == name).ok_or_else(|| {
                let known: Vec<_> = Choice::ALL.iter().map(|choice| choice.name()).collect();
                let wanted = format!("some of {}", known.join(", "));
                OperationError::argument(NAME, "operations", format!("{name:?}"), wanted)
            })
        };
        let mut choices = only.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        if choices.is_empty() {
            choices = Choice::ALL.to_vec();
        }
        Ok(RandAugment { num_ops, magnitude, bins, smooth, fill, choices })
    }

    /// Number `magnitude` of `bins` numbers from `start` to `end`, in torch's single precision.
    fn strength(&self, start: f32, end: f32) -> f64 {
        let step = (end - start) / (self.bins - 1) as f32;
        f64::from(if self.magnitude < self.bins / 2 {
            step.mul_add(self.magnitude as f32, start)
        } else {
            (-step).mul_add((self.bins - self.magnitude - 1) as f32, end)
        })
    }

    fn action(&self, choice: Choice, size: Size, draw: &mut dyn Draw) -> Option<Action> {
        let (smooth, fill) = (self.smooth, self.fill);
        let mut signed = |strength: f64| if draw.chance(0.5) { -strength } else { strength };
        let warp = |shift, shear: (f64, f64), center| {
            let shear = (shear.0.atan().to_degrees(), shear.1.atan().to_degrees());
            Some(affine(size, 0.0, shift, 1.0, shear, smooth, fill, center))
        };
        let (still, corner) = ((0.0, 0.0), Some((0.0, 0.0)));
        let shift = |side: usize| self.strength(0.0, (150.0 / 331.0 * side as f64) as f32);
        match choice {
            Choice::Identity => None,
            Choice::ShearX => warp(still, (signed(self.strength(0.0, 0.3)), 0.0), corner),
            Choice::ShearY => warp(still, (0.0, signed(self.strength(0.0, 0.3))), corner),
            Choice::TranslateX => warp((signed(shift(size.width)).trunc(), 0.0), still, None),
            Choice::TranslateY => warp((0.0, signed(shift(size.height)).trunc()), still, None),
            Choice::Rotate => {
                rotate(size, signed(self.strength(0.0, 30.0)), smooth, false, None, fill)
            }
            Choice::Brightness => tone(Tone::Brightness(1.0 + signed(self.strength(0.0, 0.9)))),
            Choice::Color => tone(Tone::Saturation(1.0 + signed(self.strength(0.0, 0.9)))),
            Choice::Contrast => tone(Tone::Contrast(1.0 + signed(self.strength(0.0, 0.9)))),
            Choice::Sharpness => tone(Tone::Sharpness(1.0 + signed(self.strength(0.0, 0.9)))),
            Choice::Posterize => {
                let quarter = (self.bins - 1) as f32 / 4.0;
                let bits = (8.0 - self.magnitude as f32 / quarter).round_ties_even();
                tone(Tone::Posterize(bits as u32))
            }
            Choice::Solarize => tone(Tone::Solarize(255.0 * self.strength(1.0, 0.0))),
            Choice::AutoContrast => tone(Tone::AutoContrast),
            Choice::Equalize => tone(Tone::Equalize),
        }
    }
}

fn tone(tone: Tone) -> Option<Action> {
    Some(Action::Tone(tone))
}

impl std::fmt::Display for RandAugment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rand_augment(num_ops={}, magnitude={})", self.num_ops, self.magnitude)
    }
}

impl Operation for RandAugment {
    fn extent(&self, before: Option<Size>) -> Result<Option<Size>, OperationError> {
        Ok(before)
    }

    fn draw(
        &self,
        size: Size,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        for _ in 0..self.num_ops {
            let choice = self.choices[draw.below(self.choices.len())];
            actions.extend(self.action(choice, size, draw));
        }
        Ok(())
    }
}
