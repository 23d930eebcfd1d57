//! Images between voxels where axes stay axes: resampling to another spacing.

use crate::voxels::Voxel;
use crate::{Move, Region, Shape};

use super::values::VoxelValues;
use super::view::strides;
use super::wide::wide;

/// For each place along an axis two neighbours and how far it is to the second.
type Places = Vec<(usize, usize, f32)>;

/// The places along each axis of the new grid. None, if axes are exchanged or a place lies where something else than
/// the edge is.
pub(super) fn places(
    region: Region,
    shape: Shape,
    step: &Move,
    axes: [(usize, f64); 3],
    to: Region,
) -> Option<[Places; 3]> {
    let strides = strides(region.shape);
    let mut all = [Places::new(), Places::new(), Places::new()];
    for (axis, places) in all.iter_mut().enumerate() {
        let (row, factor) = axes[axis];
        if row != axis {
            return None;
        }
        let last = shape[axis] as f64 - 1.0;
        let (start, end) = (region.start[axis], region.shape[axis] - 1);
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

/// Two planes of the old grid, resampled within themselves, and a line in the making.
#[derive(Debug, Default)]
pub(crate) struct Planes {
    kept: [Vec<f32>; 2],
    line: Vec<f32>,
}

/// Makes all voxels of the new grid: planes of the old one first, each once, then what lies between two of them.
/// What is worked on stays in the processor's caches, and long loops run over neighbours in memory.
pub(super) fn separable<T: Voxel>(
    data: &[T],
    values: VoxelValues,
    places: &[Places; 3],
    out: &mut [f32],
    scratch: &mut Planes,
) {
    let [planes, rows, columns] = places;
    let size = rows.len() * columns.len();
    if size == 0 {
        return;
    }
    let columns = LinePlaces::new(columns);
    let Planes { kept, line } = scratch;
    line.resize(columns.width, 0.0);
    let outs = planes.iter().zip(out.chunks_exact_mut(size));
    if planes.iter().all(|(_, _, weight)| *weight == 0.0) {
        for ((plane, ..), out) in outs {
            within(data, values, *plane, rows, &columns, line, out);
        }
        return;
    }
    kept.iter_mut().for_each(|kept| kept.resize(size, 0.0));
    let mut which = [None; 2];
    for ((first, second, weight), out) in outs {
        let mut slot = |wanted: usize, other: usize| {
            if let Some(slot) = which.iter().position(|plane| *plane == Some(wanted)) {
                return slot;
            }
            let slot = usize::from(which[0] == Some(other));
            within(data, values, wanted, rows, &columns, line, &mut kept[slot]);
            which[slot] = Some(wanted);
            slot
        };
        if *weight == 0.0 {
            let slot = slot(*first, *second);
            out.copy_from_slice(&kept[slot]);
        } else {
            let (a, b) = (slot(*first, *second), slot(*second, *first));
            blend(&kept[a], &kept[b], *weight, out);
        }
    }
}

/// The places along the last axis, in a line that has only what they need.
struct LinePlaces<'a> {
    places: &'a [(usize, usize, f32)],
    /// The first voxel that is needed, and how many from there on.
    low: usize,
    width: usize,
    /// Whether they are copied one by one, so that no line is needed.
    straight: bool,
}

impl<'a> LinePlaces<'a> {
    fn new(places: &'a [(usize, usize, f32)]) -> LinePlaces<'a> {
        let low = places.iter().map(|place| place.0.min(place.1)).min().unwrap_or(0);
        let high = places.iter().map(|place| place.0.max(place.1)).max().unwrap_or(0);
        let straight =
            places.iter().enumerate().all(|(i, place)| place.2 == 0.0 && place.0 == low + i);
        let width = if straight { places.len() } else { high - low + 1 };
        LinePlaces { places, low, width, straight }
    }
}

wide! {
    /// Makes a plane of the old grid's, resampled along its two axes.
    fn within<T: Voxel>(
        data: &[T],
        values: VoxelValues,
        plane: usize,
        rows: &[(usize, usize, f32)],
        columns: &LinePlaces<'_>,
        line: &mut [f32],
        out: &mut [f32],
    ) {
        let LinePlaces { places, low, width, straight } = *columns;
        for ((first, second, weight), out) in rows.iter().zip(out.chunks_exact_mut(places.len())) {
            let from = |row: usize| &data[plane + row + low..][..width];
            let target = if straight { &mut *out } else { &mut line[..width] };
            if *weight == 0.0 {
                values.convert(from(*first), target);
            } else {
                values.between(from(*first), from(*second), *weight, target);
            }
            if straight {
                continue;
            }
            let line = &line[..width];
            for (out, (first, second, weight)) in out.iter_mut().zip(places) {
                // SAFETY: `LinePlaces::new` found the least and the largest of just these places, and the line is as
                // wide as from one to the other.
                let (a, b) = unsafe {
                    debug_assert!(first - low < width && second - low < width);
                    (*line.get_unchecked(first - low), *line.get_unchecked(second - low))
                };
                *out = a + (b - a) * weight;
            }
        }
    }
}

wide! {
    fn blend(a: &[f32], b: &[f32], weight: f32, out: &mut [f32]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = a + (b - a) * weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Places anywhere in a row of voxels.
    fn some_places(side: usize, stride: usize) -> impl Strategy<Value = Places> {
        let place = (0..side, 0..side, prop_oneof![Just(0f32), 0f32..1.0]);
        let place = place.prop_map(move |(a, b, weight)| (a * stride, b * stride, weight));
        proptest::collection::vec(place, 0..9)
    }

    proptest! {
        #[test]
        fn every_voxel_is_the_mean_of_its_eight_neighbours(
            planes in some_places(4, 30),
            rows in some_places(5, 6),
            columns in prop_oneof![
                some_places(6, 1),
                (0usize..6).prop_map(|from| (from..6).map(|x| (x, x, 0.0)).collect()),
            ],
            slope in prop_oneof![Just(1f64), -2f64..2.0],
        ) {
            let data: Vec<i16> = (0..120).map(|i: i16| (i * 37) % 101 - 50).collect();
            let values = VoxelValues { slope, intercept: 3.0 * (slope - 1.0) };
            let mut out = vec![0f32; planes.len() * rows.len() * columns.len()];
            let places = [planes.clone(), rows.clone(), columns.clone()];
            separable(&data, values, &places, &mut out, &mut Planes::default());
            let mut got = out.into_iter();
            let value = |i: usize| f64::from(data[i]) * slope + values.intercept;
            for (z0, z1, wz) in &planes {
                for (y0, y1, wy) in &rows {
                    for (x0, x1, wx) in &columns {
                        let mut wanted = 0.0;
                        for (z, wz) in [(z0, 1.0 - wz), (z1, *wz)] {
                            for (y, wy) in [(y0, 1.0 - wy), (y1, *wy)] {
                                for (x, wx) in [(x0, 1.0 - wx), (x1, *wx)] {
                                    wanted += value(z + y + x) * f64::from(wz * wy * wx);
                                }
                            }
                        }
                        let got = f64::from(got.next().unwrap());
                        prop_assert!((got - wanted).abs() < 1e-3, "{got} {wanted}");
                    }
                }
            }
        }
    }
}
