//! Images between voxels where axes stay axes: resampling to another spacing.

use crate::{Move, Region};

use super::view::RegionView;

/// For each place along an axis two neighbours and how far it is to the second.
type Places = Vec<(usize, usize, f32)>;

/// The places along each axis of the new grid. None, if axes are exchanged or a place lies where something else than
/// the edge is.
pub(super) fn places(
    view: &RegionView<'_, f32>,
    step: &Move,
    axes: [(usize, f64); 3],
    to: Region,
) -> Option<[Places; 3]> {
    let strides = view.strides();
    let mut all = [Places::new(), Places::new(), Places::new()];
    for (axis, places) in all.iter_mut().enumerate() {
        let (row, factor) = axes[axis];
        if row != axis {
            return None;
        }
        let last = view.shape[axis] as f64 - 1.0;
        let (start, end) = (view.region.start[axis], view.region.shape[axis] - 1);
        for i in 0..to.shape[axis] {
            let at = factor * (to.start[axis] + i) as f64 + step.map.offset[axis];
            let reach = step.margin[axis] + 1e-9;
            if step.fill.is_some() && !(-reach..=last + reach).contains(&at) {
                return None;
            }
            places.push(between(at, last, start, end, strides[axis]));
        }
    }
    Some(all)
}

/// The neighbours of a coordinate along an axis whose last voxel is at `last`, of which `start..=start + end` are in
/// memory.
fn between(at: f64, last: f64, start: usize, end: usize, stride: usize) -> (usize, usize, f32) {
    let at = at.clamp(0.0, last);
    let first = at.floor();
    let local = |index: f64| (index as usize).saturating_sub(start).min(end) * stride;
    (local(first), local((first + 1.0).min(last)), (at - first) as f32)
}

/// The places of an enlargement from `small` voxels to `large` ones with given distance, as torch's `interpolate`
/// finds them (without aligned corners).
pub(super) fn enlarged(small: usize, large: usize, stride: usize) -> Places {
    let factor = small as f64 / large as f64;
    let last = (small - 1) as f64;
    let place = |i: usize| between((i as f64 + 0.5) * factor - 0.5, last, 0, small - 1, stride);
    (0..large).map(place).collect()
}

/// Makes all voxels of the new grid.
pub(super) fn separable(data: &[f32], places: &[Places; 3], out: &mut [f32], line: &mut Vec<f32>) {
    let [planes, rows, columns] = places;
    if columns.is_empty() {
        return;
    }
    let low = columns.iter().map(|place| place.0).min().unwrap_or(0);
    let high = columns.iter().map(|place| place.1.max(place.0)).max().unwrap_or(0);
    let width = high - low + 1;
    // Columns that are copied need no line of their own.
    let straight =
        columns.iter().enumerate().all(|(i, place)| place.2 == 0.0 && place.0 == low + i);
    line.resize(width, 0.0);
    let mut lines = out.chunks_exact_mut(columns.len());
    for (z0, z1, wz) in planes {
        for (y0, y1, wy) in rows {
            let Some(out) = lines.next() else { return };
            let from = |plane: &usize, row: &usize| &data[plane + row + low..][..width];
            let target = if straight { &mut out[..width] } else { &mut line[..] };
            match (*wz == 0.0, *wy == 0.0) {
                (true, true) => target.copy_from_slice(from(z0, y0)),
                (true, false) => blend(from(z0, y0), from(z0, y1), *wy, target),
                (false, true) => blend(from(z0, y0), from(z1, y0), *wz, target),
                (false, false) => {
                    let four = [from(z0, y0), from(z0, y1), from(z1, y0), from(z1, y1)];
                    blend_four(four, *wy, *wz, target);
                }
            }
            if !straight {
                for (out, (x0, x1, wx)) in out.iter_mut().zip(columns) {
                    let (a, b) = (line[x0 - low], line[x1 - low]);
                    *out = a + (b - a) * wx;
                }
            }
        }
    }
}

fn blend(a: &[f32], b: &[f32], weight: f32, out: &mut [f32]) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = a + (b - a) * weight;
    }
}

fn blend_four([a, b, c, d]: [&[f32]; 4], wy: f32, wz: f32, out: &mut [f32]) {
    let pairs = a.iter().zip(b).zip(c.iter().zip(d));
    for (out, ((a, b), (c, d))) in out.iter_mut().zip(pairs) {
        let (ab, cd) = (a + (b - a) * wy, c + (d - c) * wy);
        *out = ab + (cd - ab) * wz;
    }
}
