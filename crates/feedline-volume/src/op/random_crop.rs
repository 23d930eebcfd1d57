//! A random part of a volume, or a random slice.

use feedline_ops::Draw;

use super::{CropPlace, Operation, Scene, SceneSize, fits, in_call, may_fit, some_voxels};
use crate::op::place::Otherwise;
use crate::{Action, Move, OperationError, Shape};

/// The most patches of one volume.
const MOST_PATCHES: usize = 1024;

fn some_patches(operation: &'static str, patches: usize) -> Result<usize, OperationError> {
    if (1..=MOST_PATCHES).contains(&patches) {
        return Ok(patches);
    }
    let wanted = format!("a number from 1 to {MOST_PATCHES}");
    Err(OperationError::argument(operation, "patches", patches, wanted))
}

/// Cuts out parts of one size at random places: MONAI's `RandSpatialCrop`, `RandCropByPosNegLabel` and
/// `RandCropByLabelClasses`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomCrop {
    size: Shape,
    place: CropPlace,
    patches: usize,
}

impl RandomCrop {
    /// So many parts of this size.
    pub fn new(
        size: Shape,
        place: CropPlace,
        patches: usize,
    ) -> Result<RandomCrop, OperationError> {
        const NAME: &str = "random_crop";
        let (size, place) = (some_voxels(NAME, size)?, place.checked(NAME)?);
        Ok(RandomCrop { size, place, patches: some_patches(NAME, patches)? })
    }
}

/// What a place adds to a call.
fn place_in_call(place: &CropPlace, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    let CropPlace::Foreground { share, classes, elsewhere } = place else { return Ok(()) };
    write!(f, ", foreground={share}")?;
    if let Some(classes) = classes {
        let pairs = classes.iter().map(|(label, weight)| format!("{label}: {weight}"));
        write!(f, ", classes={{{}}}", pairs.collect::<Vec<_>>().join(", "))?;
    }
    if *elsewhere == Otherwise::Anywhere {
        f.write_str(", elsewhere=\"anywhere\"")?;
    }
    Ok(())
}

impl std::fmt::Display for RandomCrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_crop({}", in_call(self.size))?;
        place_in_call(&self.place, f)?;
        if self.patches > 1 {
            write!(f, ", patches={}", self.patches)?;
        }
        f.write_str(")")
    }
}

impl Operation for RandomCrop {
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        may_fit(self, self.size, &before)?;
        Ok(SceneSize { sides: self.size.map(Some), ..before })
    }

    fn needs_foreground(&self) -> bool {
        self.place != CropPlace::Anywhere
    }

    fn patches(&self) -> usize {
        self.patches
    }

    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let shape = scene.shape();
        fits(self, self.size, shape)?;
        let start = self.place.start(self, self.size, scene, draw)?;
        actions.push(Action::Move(Move::crop(shape, start, self.size)));
        Ok(())
    }
}

/// Takes a random slice, which results then are: without the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomSlice {
    axis: usize,
    place: CropPlace,
    patches: usize,
}

impl RandomSlice {
    /// So many slices across this axis.
    pub fn new(
        axis: usize,
        place: CropPlace,
        patches: usize,
    ) -> Result<RandomSlice, OperationError> {
        const NAME: &str = "random_slice";
        if axis > 2 {
            return Err(OperationError::argument(NAME, "axis", axis, "0, 1 or 2"));
        }
        let place = place.checked(NAME)?;
        Ok(RandomSlice { axis, place, patches: some_patches(NAME, patches)? })
    }
}

impl std::fmt::Display for RandomSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_slice({}", self.axis)?;
        place_in_call(&self.place, f)?;
        if self.patches > 1 {
            write!(f, ", patches={}", self.patches)?;
        }
        f.write_str(")")
    }
}

impl Operation for RandomSlice {
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        if before.flat.is_some() {
            let before = "random_slice".to_string();
            return Err(OperationError::Twice { call: self.to_string(), before });
        }
        let mut after = SceneSize { flat: Some(self.axis), ..before };
        after.sides[self.axis] = Some(1);
        Ok(after)
    }

    fn flattens(&self) -> Option<usize> {
        Some(self.axis)
    }

    fn needs_foreground(&self) -> bool {
        self.place != CropPlace::Anywhere
    }

    fn patches(&self) -> usize {
        self.patches
    }

    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let shape = scene.shape();
        let mut size = shape;
        size[self.axis] = 1;
        let start = self.place.start(self, size, scene, draw)?;
        actions.push(Action::Move(Move::crop(shape, start, size)));
        Ok(())
    }
}
