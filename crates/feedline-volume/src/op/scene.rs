//! What an operation sees of the volume it is about to be done to.

use crate::{Action, Foreground, Geometry, Map, Shape};

/// What is known of volumes beforehand.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SceneSize {
    /// Voxels along each axis, where all volumes have the same.
    pub sides: [Option<usize>; 3],
    /// The axis along which there is one voxel and which results do not have: volumes are slices.
    pub flat: Option<usize>,
}

/// A volume between two operations: not its voxels, but where they are.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    /// Its shape and place.
    pub geometry: Geometry,
    /// Channels of the image.
    pub channels: usize,
    /// The axis along which it is a slice.
    pub flat: Option<usize>,
    /// From its voxels to those of the file.
    to_file: Map,
    file: Shape,
    /// Where the classes of the file's mask are.
    pub foreground: Option<&'a Foreground>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(
        geometry: &Geometry,
        channels: usize,
        foreground: Option<&'a Foreground>,
    ) -> Scene<'a> {
        let (geometry, file) = (*geometry, geometry.shape());
        Scene { geometry, channels, flat: None, to_file: Map::IDENTITY, file, foreground }
    }

    /// Voxels along each axis.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.geometry.shape()
    }

    /// The axes that it extends along.
    #[must_use]
    pub fn axes(&self) -> [bool; 3] {
        std::array::from_fn(|axis| self.flat != Some(axis))
    }

    /// Where a voxel of the file, by its number in the order of memory, is in this volume. None, if it is outside.
    pub(crate) fn place(&self, number: u64) -> Option<[usize; 3]> {
        let [_, rows, columns] = self.file.map(|side| side as u64);
        let index = [number / (rows * columns), number / columns % rows, number % columns];
        let here = self.to_file.inverse()?.of(index.map(|x| x as f64));
        let mut place = [0; 3];
        for (axis, side) in self.shape().into_iter().enumerate() {
            let nearest = here[axis].round();
            if !(0.0..side as f64).contains(&nearest) {
                return None;
            }
            place[axis] = nearest as usize;
        }
        Some(place)
    }

    /// The volume after an action.
    pub(crate) fn after(&mut self, action: &Action) {
        if let Action::Move(step) = action {
            self.geometry = self.geometry.moved(step.to, &step.map);
            self.to_file = self.to_file.after(&step.map);
        }
    }
}
