//! nnU-Net's training transforms.

use feedline_ops::Draw;

use super::affine::{middle, turns};
use super::flip::mirrored;
use super::low_resolution::smaller;
use super::{Operation, Scene, axes_in_call, range, some_axes};
use crate::{Action, Border, Change, Fill, Labels, Map, Move, OperationError};

/// What nnU-Net (v2, by batchgeneratorsv2) does to a training patch by default, with its probabilities and ranges:
/// turned and scaled, noise, blur, brightness, contrast, low resolution, gamma twice, mirrored.
///
/// Mirroring is drawn last but done with the turning, in one resampling: none of the others can tell.
#[derive(Clone, Debug, PartialEq)]
pub struct NnunetAugment {
    degrees: Option<(f64, f64)>,
    scale: (f64, f64),
    mirror: [bool; 3],
    dummy_2d: Option<bool>,
}

/// A patch whose longest side is more than so many times its first is turned within slices alone.
const ANISOTROPIC: f64 = 3.0;

/// A slice with one side more than so many times the other is turned less.
const LONG: f64 = 1.5;

impl Default for NnunetAugment {
    fn default() -> NnunetAugment {
        NnunetAugment { degrees: None, scale: (0.7, 1.4), mirror: [true; 3], dummy_2d: None }
    }
}

impl NnunetAugment {
    /// Turned by an angle of this range instead of nnU-Net's for the patch.
    pub fn degrees(self, degrees: (f64, f64)) -> Result<NnunetAugment, OperationError> {
        let degrees = range("nnunet_augment", "degrees", degrees, -360.0, 360.0)?;
        Ok(NnunetAugment { degrees: Some(degrees), ..self })
    }

    /// Scaled by a factor of this range.
    pub fn scale(self, scale: (f64, f64)) -> Result<NnunetAugment, OperationError> {
        Ok(NnunetAugment { scale: range("nnunet_augment", "scale", scale, 0.01, 100.0)?, ..self })
    }

    /// Mirrored along these axes.
    pub fn mirror(self, axes: &[usize]) -> Result<NnunetAugment, OperationError> {
        Ok(NnunetAugment { mirror: some_axes("nnunet_augment", axes)?, ..self })
    }

    /// Whether patches are turned and scaled slice by slice; by default where their voxels are much longer along the
    /// first axis.
    #[must_use]
    pub fn dummy_2d(self, dummy_2d: bool) -> NnunetAugment {
        NnunetAugment { dummy_2d: Some(dummy_2d), ..self }
    }

    /// The axis that stays: that of a slice, or the first one of a thick patch.
    fn still(&self, scene: &Scene<'_>) -> Option<usize> {
        let shape = scene.shape();
        let longest = shape.iter().copied().max().unwrap_or(1) as f64;
        let thick = longest / shape[0] as f64 > ANISOTROPIC;
        scene.flat.or(self.dummy_2d.unwrap_or(thick).then_some(0))
    }

    /// The range of angles that nnU-Net takes.
    fn angles(&self, scene: &Scene<'_>) -> (f64, f64) {
        if let Some(degrees) = self.degrees {
            return degrees;
        }
        match (scene.flat, self.still(scene)) {
            (Some(flat), _) => {
                let sides: Vec<_> = (0..3).filter(|axis| *axis != flat).collect();
                let [a, b] = [sides[0], sides[1]].map(|axis| scene.shape()[axis] as f64);
                if a.max(b) / a.min(b) > LONG { (-15.0, 15.0) } else { (-180.0, 180.0) }
            }
            (None, Some(_)) => (-180.0, 180.0),
            (None, None) => (-30.0, 30.0),
        }
    }

    /// Turned and scaled about the middle.
    fn spatial(&self, scene: &Scene<'_>, draw: &mut dyn Draw) -> Option<Move> {
        let (rotated, scaled) = (draw.chance(0.2), draw.chance(0.2));
        let (low, high) = self.angles(scene);
        let still = self.still(scene);
        let mut angles = [0.0; 3];
        if rotated {
            angles = [(); 3].map(|()| draw.uniform(low, high).to_radians());
        }
        let mut scale = [1.0; 3];
        if scaled {
            scale = [draw.uniform(self.scale.0, self.scale.1); 3];
        }
        if !rotated && !scaled {
            return None;
        }
        if let Some(still) = still {
            let angle = angles[still];
            angles = [0.0; 3];
            angles[still] = angle;
            scale[still] = 1.0;
        }
        let [about_0, about_1, about_2] = turns(angles);
        let turned = about_2.after(&about_1.after(&about_0)).after(&Map::scale(scale));
        let shape = scene.shape();
        let center = middle(shape);
        let step = Move::new(shape, shape, Map::about(turned.linear, center, center));
        let fill = Some(Fill { image: 0.0, mask: 0 });
        Some(Move { fill, labels: Labels::MostWeight, around: true, ..step })
    }

    /// What is done to numbers.
    fn changes(&self, scene: &Scene<'_>, draw: &mut dyn Draw, actions: &mut Vec<Action>) {
        let still = self.still(scene);
        let mut change = |channel, change| actions.push(Action::Change { channel, change });
        let channels = 0..scene.channels;
        if draw.chance(0.1) {
            let std = draw.uniform(0.0, 0.1) as f32;
            for channel in channels.clone() {
                change(channel, Change::Noise { mean: 0.0, std, seed: draw.next_u64() });
            }
        }
        if draw.chance(0.2) {
            for channel in channels.clone() {
                if draw.chance(0.5) {
                    let axes = scene.axes();
                    let kernels =
                        axes.map(
                            |blurred| {
                                if blurred { sampled(draw.uniform(0.5, 1.0)) } else { vec![1.0] }
                            },
                        );
                    change(channel, Change::Blur { kernels, border: Border::Reflect });
                }
            }
        }
        if draw.chance(0.15) {
            for channel in channels.clone() {
                let factor = either_side(draw, 0.75, 1.25);
                change(channel, Change::Scale { factor, offset: 0.0, clip: None });
            }
        }
        if draw.chance(0.15) {
            for channel in channels.clone() {
                let factor = either_side(draw, 0.75, 1.25);
                change(channel, Change::Contrast { factor, preserve_range: true });
            }
        }
        if draw.chance(0.25) {
            let axes = std::array::from_fn(|axis| scene.axes()[axis] && still != Some(axis));
            for channel in channels.clone() {
                if draw.chance(0.5) {
                    let shape = smaller(scene.shape(), axes, draw.uniform(0.5, 1.0));
                    change(channel, Change::LowResolution { shape, exact: true });
                }
            }
        }
        for (p, invert) in [(0.1, true), (0.3, false)] {
            if draw.chance(p) {
                for channel in channels.clone() {
                    let gamma = either_side(draw, 0.7, 1.5);
                    change(channel, Change::Gamma { gamma, invert, retain_stats: true });
                }
            }
        }
    }
}

/// A number below 1 or above it, each with half the probability (batchgeneratorsv2's `BGContrast`).
fn either_side(draw: &mut dyn Draw, low: f64, high: f64) -> f32 {
    let below = draw.chance(0.5);
    (if below { draw.uniform(low, 1.0) } else { draw.uniform(1.0, high) }) as f32
}

/// batchgeneratorsv2's kernel: a Gaussian at each voxel, as far as three deviations.
fn sampled(sigma: f64) -> Vec<f32> {
    let size = sigma * 6.0 + 0.5;
    let mut odd = size.round_ties_even() as i32;
    if odd % 2 == 0 {
        odd += if size >= f64::from(odd) { 1 } else { -1 };
    }
    let half = odd.max(1) / 2;
    let weights: Vec<f64> =
        (-half..=half).map(|x| (-0.5 * (f64::from(x) / sigma).powi(2)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| (weight / sum) as f32).collect()
}

impl std::fmt::Display for NnunetAugment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plain = NnunetAugment::default();
        let mut given = Vec::new();
        if let Some(degrees) = self.degrees {
            given.push(format!("degrees={degrees:?}"));
        }
        if self.scale != plain.scale {
            given.push(format!("scale={:?}", self.scale));
        }
        if self.mirror != plain.mirror {
            given.push(format!("mirror={}", axes_in_call(self.mirror)));
        }
        if let Some(dummy_2d) = self.dummy_2d {
            given.push(format!("dummy_2d={}", if dummy_2d { "True" } else { "False" }));
        }
        write!(f, "nnunet_augment({})", given.join(", "))
    }
}

impl Operation for NnunetAugment {
    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let spatial = self.spatial(scene, draw);
        let mut changes = Vec::new();
        self.changes(scene, draw, &mut changes);
        let axes = scene.axes();
        let mirror: [bool; 3] =
            std::array::from_fn(|axis| self.mirror[axis] && axes[axis] && draw.chance(0.5));
        actions.extend(spatial.map(Action::Move));
        if mirror.contains(&true) {
            actions.push(Action::Move(mirrored(scene.shape(), mirror)));
        }
        actions.append(&mut changes);
        Ok(())
    }
}
