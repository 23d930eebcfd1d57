//! Moves along the axes, axis by axis: for each place along an axis of the new grid, one of the old.

use crate::{Map, Move, Region};

use super::view::RegionView;

/// Stands for a place outside.
pub(super) const OUTSIDE: usize = usize::MAX;

/// Which axis of the old grid each axis of the new one runs along, and how fast. None, if axes are turned.
pub(super) fn aligned(map: &Map) -> Option<[(usize, f64); 3]> {
    let mut found = [(0, 0.0); 3];
    let mut taken = [false; 3];
    for (axis, found) in found.iter_mut().enumerate() {
        let mut rows = (0..3).filter(|row| map.linear[*row][axis] != 0.0);
        let row = rows.next()?;
        if rows.next().is_some() || taken[row] {
            return None;
        }
        taken[row] = true;
        *found = (row, map.linear[row][axis]);
    }
    Some(found)
}

/// Whether each new voxel is exactly an old one.
pub(super) fn exact(map: &Map) -> bool {
    aligned(map).is_some_and(|axes| axes.iter().all(|(_, factor)| factor.abs() == 1.0))
        && map.offset.iter().all(|offset| offset.fract() == 0.0)
}

/// For each axis of the new grid, where its places are in the old one's memory, to the nearest voxel.
pub(super) fn nearest<T>(
    view: &RegionView<'_, T>,
    step: &Move,
    axes: [(usize, f64); 3],
    to: Region,
) -> [Vec<usize>; 3] {
    let strides = view.strides();
    std::array::from_fn(|axis| {
        let (row, factor) = axes[axis];
        let (side, start) = (view.shape[row] as f64, view.region.start[row]);
        let last = view.region.shape[row] - 1;
        let place = |i: usize| {
            let at = factor * (to.start[axis] + i) as f64 + step.map.offset[row];
            let nearest = at.round_ties_even();
            let beyond = (-at).max(at - (side - 1.0)) - step.margin[row];
            let outside = !(0.0..side).contains(&nearest) && beyond.round_ties_even() >= 1.0;
            if step.fill.is_some() && outside {
                return OUTSIDE;
            }
            let nearest = nearest.clamp(0.0, side - 1.0) as usize;
            nearest.saturating_sub(start).min(last) * strides[row]
        };
        (0..to.shape[axis]).map(place).collect()
    })
}
