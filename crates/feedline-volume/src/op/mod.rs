//! Operations as users ask for them: one per file, with the meaning of MONAI's transforms.

mod affine;
mod center_crop;
mod crop_foreground;
mod flip;
mod low_resolution;
mod nnunet;
mod noise;
mod pad;
mod place;
mod random_crop;
mod reorient;
mod resample;
mod scale;
mod scene;
mod tone;
mod turn;
mod zscore;

use feedline_ops::Draw;

use crate::{Action, Change, OperationError, Region, Shape};

pub use affine::{RandomAffine, Ranges};
pub use center_crop::CenterCrop;
pub use crop_foreground::CropForeground;
pub use flip::{Flip, RandomFlip};
pub use low_resolution::RandomLowResolution;
pub use nnunet::NnunetAugment;
pub use noise::{RandomBlur, RandomNoise};
pub use pad::Pad;
pub use place::{CropPlace, Otherwise};
pub use random_crop::{RandomCrop, RandomSlice};
pub use reorient::Reorient;
pub use resample::Resample;
pub use scale::{ScalePercentiles, Window};
pub use scene::{Scene, SceneSize};
pub use tone::RandomTone;
pub use turn::RandomRot90;
pub use zscore::ZScore;

/// Something done to every volume, with parameters drawn anew for each.
///
/// Its `Display` is the call that makes it, such as `random_crop((96, 96, 96))`.
pub trait Operation: std::fmt::Debug + std::fmt::Display + Send + Sync {
    /// What is known beforehand of volumes after it, given the same of those before. Fails where no volume can
    /// be processed.
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        Ok(before)
    }

    /// Whether it must know where the classes of the mask are.
    fn needs_foreground(&self) -> bool {
        false
    }

    /// The axis that results do not have any more, if it makes slices.
    fn flattens(&self) -> Option<usize> {
        None
    }

    /// How many volumes it makes of one.
    fn patches(&self) -> usize {
        1
    }

    /// Whether it must see all voxels before anything can be drawn: then [`Operation::look`] is asked which part
    /// is kept, and [`Operation::draw`] is not asked.
    fn looks(&self) -> bool {
        false
    }

    /// Which part of a volume is kept, given the voxels of each channel.
    fn look(&self, image: &[&[f32]], shape: Shape) -> Result<Region, OperationError> {
        let _ = image;
        Ok(Region::whole(shape))
    }

    /// Draws what is done to a volume and appends it to `actions`.
    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError>;
}

/// The largest side an operation may make.
pub const MOST: usize = 1 << 16;

/// Checks that a number is a probability.
fn probability(operation: &'static str, p: f64) -> Result<f64, OperationError> {
    if (0.0..=1.0).contains(&p) {
        return Ok(p);
    }
    Err(OperationError::argument(operation, "p", p, "a number from 0 to 1"))
}

/// Checks that a range is one: finite, its ends in order, and from `least` to `most`.
fn range(
    operation: &'static str,
    argument: &'static str,
    (low, high): (f64, f64),
    least: f64,
    most: f64,
) -> Result<(f64, f64), OperationError> {
    let finite = low.is_finite() && high.is_finite();
    if finite && least <= low && low <= high && high <= most {
        return Ok((low, high));
    }
    let bounds = match (least.is_finite(), most.is_finite()) {
        (true, true) => format!(" from {least} to {most}"),
        (true, false) => format!(" of at least {least}"),
        _ => String::new(),
    };
    let wanted = format!("finite numbers (min, max){bounds}");
    Err(OperationError::argument(operation, argument, format!("({low}, {high})"), wanted))
}

/// The same change of each channel.
fn each_channel(
    scene: &Scene<'_>,
    actions: &mut Vec<Action>,
    mut change: impl FnMut(usize) -> Change,
) {
    let changes = (0..scene.channels).map(|channel| (channel, change(channel)));
    actions.extend(changes.map(|(channel, change)| Action::Change { channel, change }));
}

/// Checks that a size has voxels.
fn some_voxels(operation: &'static str, size: Shape) -> Result<Shape, OperationError> {
    if size.iter().all(|side| (1..=MOST).contains(side)) {
        return Ok(size);
    }
    let wanted = format!("three numbers from 1 to {MOST}");
    Err(OperationError::argument(operation, "size", format!("{size:?}"), wanted))
}

/// Checks that axes are some of 0, 1 and 2, each at most once.
fn some_axes(operation: &'static str, axes: &[usize]) -> Result<[bool; 3], OperationError> {
    let mut chosen = [false; 3];
    for axis in axes {
        match chosen.get_mut(*axis) {
            Some(seen) if !*seen => *seen = true,
            _ => {
                let wanted = "some of 0, 1 and 2, each once";
                return Err(OperationError::argument(
                    operation,
                    "axes",
                    format!("{axes:?}"),
                    wanted,
                ));
            }
        }
    }
    Ok(chosen)
}

/// Refuses a size that does not fit.
fn fits(call: &dyn std::fmt::Display, size: Shape, shape: Shape) -> Result<(), OperationError> {
    if size.iter().zip(shape).all(|(size, side)| *size <= side) {
        return Ok(());
    }
    Err(OperationError::TooSmall { call: call.to_string(), shape, size })
}

/// The same where only some sides are known beforehand.
fn may_fit(
    call: &dyn std::fmt::Display,
    size: Shape,
    before: &SceneSize,
) -> Result<(), OperationError> {
    let known: Shape = std::array::from_fn(|axis| before.sides[axis].unwrap_or(usize::MAX));
    if size.iter().zip(known).all(|(size, side)| *size <= side) {
        return Ok(());
    }
    let shape = std::array::from_fn(|axis| before.sides[axis].unwrap_or(size[axis]));
    Err(OperationError::TooSmall { call: call.to_string(), shape, size })
}

/// A size as a Python call has it.
fn in_call([z, y, x]: Shape) -> String {
    if z == y && y == x { z.to_string() } else { format!("({z}, {y}, {x})") }
}

/// Chosen axes as a Python call has them.
fn axes_in_call(axes: [bool; 3]) -> String {
    let chosen: Vec<_> = (0..3).filter(|axis| axes[*axis]).map(|axis| axis.to_string()).collect();
    match &chosen[..] {
        [one] => format!("({one},)"),
        more => format!("({})", more.join(", ")),
    }
}
