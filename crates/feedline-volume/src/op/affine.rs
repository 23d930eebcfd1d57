//! Volumes turned and scaled about their middle.

use feedline_ops::Draw;

use super::{Operation, Scene, probability, range};
use crate::{Action, Fill, Labels, Map, Move, OperationError, Shape};

/// Two ends of a range for each axis.
pub type Ranges = [(f64, f64); 3];

/// How far a volume may be shifted, in voxels.
const FARTHEST: f64 = 1e6;

/// The matrix of three turns about the axes of the array, in radians.
pub(super) fn turns(angles: [f64; 3]) -> [Map; 3] {
    let about = |axis: usize| {
        let (sine, cosine) = angles[axis].sin_cos();
        let (a, b) = [(1, 2), (2, 0), (0, 1)][axis];
        let mut map = Map::IDENTITY;
        map.linear[a][a] = cosine;
        map.linear[a][b] = -sine;
        map.linear[b][a] = sine;
        map.linear[b][b] = cosine;
        map
    };
    [about(0), about(1), about(2)]
}

/// The middle of a volume.
pub(super) fn middle(shape: Shape) -> [f64; 3] {
    shape.map(|side| (side as f64 - 1.0) / 2.0)
}

/// Turns, scales and shifts volumes about their middle: MONAI's `RandAffine`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomAffine {
    p: f64,
    degrees: Ranges,
    scale: Ranges,
    /// Whether all axes are scaled by the first axis's factor.
    same_scale: bool,
    translate: Ranges,
    fill: Option<Fill>,
    labels: Labels,
}

impl RandomAffine {
    /// With probability `p`: turned about each axis by an angle of `degrees`; places multiplied by a factor of
    /// `scale`, so that objects become smaller with larger numbers; shifted by voxels of `translate`.
    pub fn new(
        p: f64,
        degrees: Ranges,
        scale: Ranges,
        same_scale: bool,
        translate: Ranges,
    ) -> Result<RandomAffine, OperationError> {
        const NAME: &str = "random_affine";
        for axis in 0..3 {
            range(NAME, "degrees", degrees[axis], -36_000.0, 36_000.0)?;
            range(NAME, "scale", scale[axis], 0.01, 100.0)?;
            range(NAME, "translate", translate[axis], -FARTHEST, FARTHEST)?;
        }
        let p = probability(NAME, p)?;
        let fill = Some(Fill { image: 0.0, mask: 0 });
        let labels = Labels::Nearest;
        Ok(RandomAffine { p, degrees, scale, same_scale, translate, fill, labels })
    }

    /// What lies outside the volume; without, its edge.
    pub fn outside(self, fill: Option<Fill>) -> Result<RandomAffine, OperationError> {
        if let Some(fill) = fill.filter(|fill| !fill.image.is_finite()) {
            let wanted = "a finite number";
            return Err(OperationError::argument("random_affine", "value", fill.image, wanted));
        }
        Ok(RandomAffine { fill, ..self })
    }

    /// How labels between voxels are found.
    #[must_use]
    pub fn labels(self, labels: Labels) -> RandomAffine {
        RandomAffine { labels, ..self }
    }
}

/// Ranges in a call: one where all are the same.
fn in_call(ranges: &Ranges) -> String {
    match ranges {
        [a, b, c] if a == b && b == c => format!("{a:?}"),
        all => format!("{all:?}").replace('[', "(").replace(']', ")"),
    }
}

impl std::fmt::Display for RandomAffine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_affine(p={}, degrees={}", self.p, in_call(&self.degrees))?;
        if self.scale != [(1.0, 1.0); 3] {
            write!(f, ", scale={}", in_call(&self.scale))?;
        }
        if self.translate != [(0.0, 0.0); 3] {
            write!(f, ", translate={}", in_call(&self.translate))?;
        }
        if self.same_scale {
            f.write_str(", same_scale=True")?;
        }
        match self.fill {
            None => f.write_str(", mode=\"edge\"")?,
            Some(Fill { image, mask }) => {
                if image != 0.0 {
                    write!(f, ", value={image}")?;
                }
                if mask != 0 {
                    write!(f, ", mask_value={mask}")?;
                }
            }
        }
        if self.labels == Labels::MostWeight {
            f.write_str(", labels=\"most_weight\"")?;
        }
        f.write_str(")")
    }
}

impl Operation for RandomAffine {
    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if !draw.chance(self.p) {
            return Ok(());
        }
        let mut each = |ranges: &Ranges| ranges.map(|(low, high)| draw.uniform(low, high));
        let (degrees, mut scale, mut shift) =
            (each(&self.degrees), each(&self.scale), each(&self.translate));
        if self.same_scale {
            scale = [scale[0]; 3];
        }
        // A slice is turned within its plane.
        let mut angles = degrees.map(f64::to_radians);
        if let Some(flat) = scene.flat {
            angles = std::array::from_fn(|axis| if axis == flat { angles[axis] } else { 0.0 });
            scale[flat] = 1.0;
            shift[flat] = 0.0;
        }
        let [about_0, about_1, about_2] = turns(angles);
        let turned = about_0.after(&about_1.after(&about_2));
        let whole = turned.after(&Map::shift(shift).after(&Map::scale(scale)));
        let shape = scene.shape();
        let center = middle(shape);
        let about = Map::about(whole.linear, center, center);
        let offset = std::array::from_fn(|axis| about.offset[axis] + whole.offset[axis]);
        let step = Move::new(shape, shape, Map { offset, ..about });
        let (fill, labels) = (self.fill, self.labels);
        actions.push(Action::Move(Move { fill, labels, around: true, ..step }));
        Ok(())
    }
}
