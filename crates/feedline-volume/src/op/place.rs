//! Where random crops are.

use feedline_ops::Draw;

use super::Scene;
use crate::{ClassVoxels, Label, OperationError, Shape};

/// Where crops are that are not centred on the foreground.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Otherwise {
    /// Centred on a voxel of the background, as MONAI does it.
    #[default]
    Background,
    /// Anywhere, as nnU-Net does it.
    Anywhere,
}

/// Where random crops are.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CropPlace {
    /// Anywhere.
    #[default]
    Anywhere,
    /// A share of them centred on a voxel of the foreground.
    Foreground {
        /// The share.
        share: f64,
        /// How much more likely one class is than another; without, every voxel of a class other than 0 is as likely.
        classes: Option<Vec<(Label, f64)>>,
        /// Where the others are.
        elsewhere: Otherwise,
    },
}

impl CropPlace {
    /// Checks the numbers.
    pub(super) fn checked(self, operation: &'static str) -> Result<CropPlace, OperationError> {
        let CropPlace::Foreground { share, classes, .. } = &self else { return Ok(self) };
        if !(0.0..=1.0).contains(share) {
            let wanted = "a share from 0 to 1";
            return Err(OperationError::argument(operation, "foreground", share, wanted));
        }
        if let Some(classes) = classes {
            let bad = classes.iter().any(|(_, weight)| !weight.is_finite() || *weight < 0.0);
            if bad || !classes.iter().any(|(_, weight)| *weight > 0.0) {
                let wanted = "weights of at least 0 for each class, one of them above 0";
                let got = format!("{classes:?}");
                return Err(OperationError::argument(operation, "classes", got, wanted));
            }
        }
        Ok(self)
    }

    /// The first voxel of a crop of this size.
    pub(super) fn start(
        &self,
        call: &dyn std::fmt::Display,
        size: Shape,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
    ) -> Result<[usize; 3], OperationError> {
        let shape = scene.shape();
        let center = match self {
            CropPlace::Anywhere => None,
            CropPlace::Foreground { share, classes, elsewhere } => {
                let Some(foreground) = scene.foreground else {
                    return Err(OperationError::NoMask { call: call.to_string() });
                };
                let all = foreground.classes();
                let inside = draw.chance(*share);
                let chosen: Vec<(&ClassVoxels, f64)> = match (inside, classes, elsewhere) {
                    (false, _, Otherwise::Anywhere) => Vec::new(),
                    (false, _, Otherwise::Background) => weighed(all, |label| label == 0),
                    (true, None, _) => weighed(all, |label| label != 0),
                    (true, Some(classes), _) => all
                        .iter()
                        .filter_map(|class| {
                            let found = classes.iter().find(|(label, _)| *label == class.label);
                            found.map(|(_, weight)| (class, *weight))
                        })
                        .collect(),
                };
                voxel_of(chosen, scene, draw)
            }
        };
        Ok(match center {
            Some(center) => std::array::from_fn(|axis| {
                center[axis].saturating_sub(size[axis] / 2).min(shape[axis] - size[axis])
            }),
            None => std::array::from_fn(|axis| draw.below(shape[axis] - size[axis] + 1)),
        })
    }
}

/// Classes whose voxels are all equally likely.
fn weighed(all: &[ClassVoxels], wanted: impl Fn(Label) -> bool) -> Vec<(&ClassVoxels, f64)> {
    let chosen = all.iter().filter(|class| wanted(class.label));
    chosen.map(|class| (class, class.count as f64)).collect()
}

/// A voxel of one of the classes. None, if none of those kept is in the volume any more.
fn voxel_of(
    mut classes: Vec<(&ClassVoxels, f64)>,
    scene: &Scene<'_>,
    draw: &mut dyn Draw,
) -> Option<[usize; 3]> {
    classes.retain(|(class, weight)| *weight > 0.0 && !class.kept.is_empty());
    while !classes.is_empty() {
        let total: f64 = classes.iter().map(|(_, weight)| weight).sum();
        let mut left = draw.unit() * total;
        let chosen = classes.iter().position(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        let (class, _) = classes.swap_remove(chosen.unwrap_or(classes.len() - 1));
        let first = draw.below(class.kept.len());
        let around = class.kept[first..].iter().chain(&class.kept[..first]);
        if let Some(place) = around.copied().find_map(|number| scene.place(number)) {
            return Some(place);
        }
    }
    None
}
