//! The changes that policies choose among, and how strong each can be.

use super::{affine, rotate};
use crate::image::act::Tone;
use crate::image::action::{Action, Fill, Size};
use crate::image::draw::Draw;

/// Steps of strength of AutoAugment and AugMix.
pub(super) const BINS: usize = 10;

macro_rules! changes {
    ($($name:ident),*) => {
        /// One of torchvision's changes, by its name.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub(super) enum Change { $($name),* }

        impl Change {
            pub(super) fn name(self) -> &'static str {
                match self { $(Change::$name => stringify!($name)),* }
            }
        }
    };
}

changes!(
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
    Equalize,
    Invert
);

impl Change {
    /// Those of RandAugment and TrivialAugment.
    pub(super) const RANDOM: &[Change] = &[
        Change::Identity,
        Change::ShearX,
        Change::ShearY,
        Change::TranslateX,
        Change::TranslateY,
        Change::Rotate,
        Change::Brightness,
        Change::Color,
        Change::Contrast,
        Change::Sharpness,
        Change::Posterize,
        Change::Solarize,
        Change::AutoContrast,
        Change::Equalize,
    ];

    /// Those of AugMix; the last four only if all are wanted.
    pub(super) const MIXED: &[Change] = &[
        Change::ShearX,
        Change::ShearY,
        Change::TranslateX,
        Change::TranslateY,
        Change::Rotate,
        Change::Posterize,
        Change::Solarize,
        Change::AutoContrast,
        Change::Equalize,
        Change::Brightness,
        Change::Color,
        Change::Contrast,
        Change::Sharpness,
    ];
}

/// How far an image is shifted at most.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Shift {
    /// A part of its side.
    Part(f64),
    /// So many pixels.
    Pixels(f64),
}

/// The largest strength of every change, and how its pixels are made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Space {
    /// Along an axis, in terms of the other.
    pub(super) shear: f32,
    pub(super) shift: Shift,
    /// In degrees.
    pub(super) angle: f32,
    /// Of brightness, color, contrast and sharpness: away from 1.
    pub(super) factor: f32,
    /// Bits that are left by the weakest posterization, and how many more the strongest takes.
    pub(super) bits: (f32, f32),
    /// Whether moved pixels are blended of their neighbours.
    pub(super) smooth: bool,
    pub(super) fill: Option<Fill>,
}

impl Space {
    /// RandAugment's and AutoAugment's.
    pub(super) fn usual(smooth: bool, fill: Option<Fill>) -> Space {
        Space {
            shear: 0.3,
            shift: Shift::Part(150.0 / 331.0),
            angle: 30.0,
            factor: 0.9,
            bits: (8.0, 4.0),
            smooth,
            fill,
        }
    }

    /// What a change of strength number `magnitude`, of `bins`, is for an image of `size`. The sign is drawn.
    pub(super) fn action(
        &self,
        change: Change,
        (magnitude, bins): (usize, usize),
        size: Size,
        draw: &mut dyn Draw,
    ) -> Option<Action> {
        let (smooth, fill) = (self.smooth, self.fill);
        let strength = |start: f32, end: f32| linspace(start, end, bins, magnitude);
        let mut signed = |end: f32| {
            let strength = strength(0.0, end);
            if draw.chance(0.5) { -strength } else { strength }
        };
        let warp = |shift, shear: (f64, f64), center| {
            let shear = (shear.0.atan().to_degrees(), shear.1.atan().to_degrees());
            Some(affine(size, 0.0, shift, 1.0, shear, smooth, fill, center))
        };
        let (still, corner) = ((0.0, 0.0), Some((0.0, 0.0)));
        let farthest = |side: usize| match self.shift {
            Shift::Part(part) => (part * side as f64) as f32,
            Shift::Pixels(pixels) => pixels as f32,
        };
        match change {
            Change::Identity => None,
            Change::ShearX => warp(still, (signed(self.shear), 0.0), corner),
            Change::ShearY => warp(still, (0.0, signed(self.shear)), corner),
            Change::TranslateX => warp((signed(farthest(size.width)).trunc(), 0.0), still, None),
            Change::TranslateY => warp((0.0, signed(farthest(size.height)).trunc()), still, None),
            Change::Rotate => rotate(size, signed(self.angle), smooth, false, None, fill),
            Change::Brightness => tone(Tone::Brightness(1.0 + signed(self.factor))),
            Change::Color => tone(Tone::Saturation(1.0 + signed(self.factor))),
            Change::Contrast => tone(Tone::Contrast(1.0 + signed(self.factor))),
            Change::Sharpness => tone(Tone::Sharpness(1.0 + signed(self.factor))),
            Change::Posterize => {
                let step = (bins - 1) as f32 / self.bits.1;
                let bits = (self.bits.0 - magnitude as f32 / step).round_ties_even();
                tone(Tone::Posterize(bits as u32))
            }
            Change::Solarize => tone(Tone::Solarize(255.0 * strength(1.0, 0.0))),
            Change::AutoContrast => tone(Tone::AutoContrast),
            Change::Equalize => tone(Tone::Equalize),
            Change::Invert => tone(Tone::Invert),
        }
    }
}

fn tone(tone: Tone) -> Option<Action> {
    Some(Action::Tone(tone))
}

/// Number `at` of `bins` numbers from `start` to `end`, in torch's single precision.
fn linspace(start: f32, end: f32, bins: usize, at: usize) -> f64 {
    let step = (end - start) / (bins - 1) as f32;
    f64::from(if at < bins / 2 {
        step.mul_add(at as f32, start)
    } else {
        (-step).mul_add((bins - at - 1) as f32, end)
    })
}
