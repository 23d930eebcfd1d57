//! Where the voxels of a volume are.

use crate::{Map, Orientation, Shape};

/// The shape of a volume and where in the patient its voxels are.
///
/// Axes are those of the array: (z, y, x) of a file whose first axis is x. The affine takes an index in that order
/// to millimetres in the order right, anterior, superior (as NIfTI has it).
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Geometry {
    shape: Shape,
    affine: Map,
}

/// Why voxels cannot be where a header says.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A volume without voxels.
    #[error("a volume of {shape:?} voxels has none")]
    Empty {
        /// Its shape.
        shape: Shape,
    },
    /// More voxels than can be counted.
    #[error("a volume of {shape:?} voxels is larger than memory can be")]
    TooLarge {
        /// Its shape.
        shape: Shape,
    },
    /// An affine that cannot be undone.
    #[error("the affine {affine:?} is singular or not finite, so voxels have no place in space")]
    Singular {
        /// Rows of the affine.
        affine: [[f64; 4]; 3],
    },
}

impl Geometry {
    /// A volume of this shape whose voxel `index` is at `affine.of(index)`.
    pub fn new(shape: Shape, affine: Map) -> Result<Geometry, GeometryError> {
        if shape.contains(&0) {
            return Err(GeometryError::Empty { shape });
        }
        let voxels = shape.iter().try_fold(1usize, |product, side| product.checked_mul(*side));
        // Room for eight bytes each, as a signed size.
        if voxels.is_none_or(|voxels| voxels > isize::MAX as usize / 8) {
            return Err(GeometryError::TooLarge { shape });
        }
        if !affine.is_finite() || affine.inverse().is_none() {
            let row = |r: usize| {
                let [a, b, c] = affine.linear[r];
                [a, b, c, affine.offset[r]]
            };
            return Err(GeometryError::Singular { affine: std::array::from_fn(row) });
        }
        Ok(Geometry { shape, affine })
    }

    /// A volume whose axes are those of the world, with this many millimetres from voxel to voxel (z, y, x).
    pub fn with_spacing(shape: Shape, [z, y, x]: [f64; 3]) -> Result<Geometry, GeometryError> {
        let linear = [[0.0, 0.0, x], [0.0, y, 0.0], [z, 0.0, 0.0]];
        Geometry::new(shape, Map { linear, offset: [0.0; 3] })
    }

    /// Voxels along each axis.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// From a voxel's index to millimetres.
    #[must_use]
    pub fn affine(&self) -> &Map {
        &self.affine
    }

    /// Millimetres from voxel to voxel, along each axis.
    #[must_use]
    pub fn spacing(&self) -> [f64; 3] {
        self.columns().map(|column| column.iter().map(|x| x * x).sum::<f64>().sqrt())
    }

    /// Which way each axis points.
    #[must_use]
    pub fn orientation(&self) -> Orientation {
        Orientation::of_columns(self.columns())
    }

    /// Of a volume of this shape whose voxels lie where `map` says in this one.
    #[must_use]
    pub(crate) fn moved(&self, shape: Shape, map: &Map) -> Geometry {
        Geometry { shape, affine: self.affine.after(map) }
    }

    fn columns(&self) -> [[f64; 3]; 3] {
        std::array::from_fn(|axis| std::array::from_fn(|row| self.affine.linear[row][axis]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacing_and_orientation_come_from_the_affine() {
        // Rows: right, anterior, superior. The array's last axis goes to the left, 0.7 mm a voxel.
        let linear = [[0.0, 0.0, -0.7], [0.0, 0.8, 0.0], [2.5, 0.0, 0.0]];
        let geometry = Geometry::new([10, 20, 30], Map { linear, offset: [5.0; 3] }).unwrap();
        assert_eq!(geometry.spacing(), [2.5, 0.8, 0.7]);
        assert_eq!(geometry.orientation().codes(), "LAS");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let affine = Map::IDENTITY;
        assert!(matches!(Geometry::new([4, 0, 4], affine), Err(GeometryError::Empty { .. })));
        let huge = [1 << 30; 3];
        assert!(matches!(Geometry::new(huge, affine), Err(GeometryError::TooLarge { .. })));
        for spacing in [0.0, f64::NAN, f64::INFINITY] {
            let refused = Geometry::with_spacing([4; 3], [1.0, spacing, 1.0]);
            assert!(matches!(refused, Err(GeometryError::Singular { .. })), "{spacing}");
        }
    }
}
