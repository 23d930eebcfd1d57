//! Axes brought into one order and direction.

use feedline_ops::Draw;

use super::{Operation, Scene, SceneSize};
use crate::{Action, Map, Move, OperationError, Orientation};

/// Exchanges and mirrors axes so that they point the same way in all volumes: MONAI's `Orientation`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reorient {
    wanted: Orientation,
}

impl Reorient {
    /// To letters such as `"RAS"`: x first, as nibabel and MONAI write them.
    pub fn new(codes: &str) -> Result<Reorient, OperationError> {
        let wanted = Orientation::of_codes(codes).ok_or_else(|| {
            let wanted = "three letters, of R or L, A or P and S or I one each, such as \"RAS\"";
            OperationError::argument("reorient", "axcodes", format!("{codes:?}"), wanted)
        })?;
        Ok(Reorient { wanted })
    }
}

impl std::fmt::Display for Reorient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reorient({:?})", self.wanted.codes())
    }
}

impl Operation for Reorient {
    fn extent(&self, before: SceneSize) -> Result<SceneSize, OperationError> {
        if before.flat.is_some() {
            let call = self.to_string();
            return Err(OperationError::TooLate { call, after: "random_slice" });
        }
        // Which axes are exchanged differs from volume to volume.
        let [z, y, x] = before.sides;
        let sides = if z == y && y == x { before.sides } else { [None; 3] };
        Ok(SceneSize { sides, ..before })
    }

    fn draw(
        &self,
        scene: &Scene<'_>,
        _draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let (from, now) = (scene.shape(), scene.geometry.orientation());
        let mut map = Map { linear: [[0.0; 3]; 3], offset: [0.0; 3] };
        let mut to = from;
        for (axis, (world, along)) in self.wanted.axes.into_iter().enumerate() {
            let found = now.axes.iter().position(|(other, _)| *other == world);
            let old = found.unwrap_or(axis);
            to[axis] = from[old];
            if now.axes[old].1 == along {
                map.linear[old][axis] = 1.0;
            } else {
                map.linear[old][axis] = -1.0;
                map.offset[old] = (from[old] - 1) as f64;
            }
        }
        if map != Map::IDENTITY {
            actions.push(Action::Move(Move::new(from, to, map)));
        }
        Ok(())
    }
}
