//! Images between voxels, whichever way the axes are turned.

use crate::{Move, Region, Shape, count};

use super::view::{RegionView, strides};
use super::walk::{Line, ONE, Walk, fixed};

/// A line without the errors of rounding where there is one voxel alone, and the voxels whose eight neighbours are
/// all in the region.
pub(super) fn inner(line: &mut Line, shape: Shape, count: usize) -> std::ops::Range<usize> {
    // What is less than this is an error of rounding.
    const SLACK: i64 = 1 << 12;
    let mut high = [0; 3];
    for axis in 0..3 {
        if shape[axis] == 1 {
            if line.at[axis].abs() > SLACK || line.step[axis].abs() > SLACK >> 8 {
                return 0..0;
            }
            line.at[axis] = 0;
            line.step[axis] = 0;
        } else {
            high[axis] = (shape[axis] as i64 - 1) * ONE - 1;
        }
    }
    line.between([0; 3], high, count)
}

/// The voxels that are not wholly outside, where outside is something else than the edge.
pub(super) fn outer(
    line: &Line,
    view: &RegionView<'_, impl Sized>,
    step: &Move,
    count: usize,
) -> std::ops::Range<usize> {
    if step.fill.is_none() {
        return 0..count;
    }
    let start = |axis: usize| view.region.start[axis] as f64;
    let low = |axis: usize| fixed(-1.0 - step.margin[axis] - start(axis));
    let high = |axis: usize| fixed(view.shape[axis] as f64 + step.margin[axis] - start(axis));
    line.between(std::array::from_fn(low), std::array::from_fn(high), count)
}

/// What fraction of the way to the next voxel a coordinate is.
#[inline(always)]
pub(super) fn fraction(coordinate: i64) -> f32 {
    ((coordinate as u32) >> 8) as f32 * (1.0 / (1u32 << 24) as f32)
}

/// Makes the region `to` of the new grid.
pub(super) fn trilinear(view: RegionView<'_, f32>, step: &Move, to: Region, out: &mut [f32]) {
    let fill = step.fill.map_or(0.0, |fill| fill.image);
    let walk = Walk::new(step, view.region, to);
    let [_, rows, columns] = to.shape;
    for (number, out) in out.chunks_exact_mut(columns.max(1)).enumerate() {
        let exact = walk.line(number / rows, number % rows);
        let mut line = exact;
        let inside = inner(&mut line, view.region.shape, columns);
        let near = outer(&exact, &view, step, columns);
        out[..near.start].fill(fill);
        out[near.end..].fill(fill);
        let before = near.start..inside.start.clamp(near.start, near.end);
        let after = inside.end.clamp(near.start, near.end)..near.end;
        for i in before.chain(after) {
            out[i] = edge(&view, step, exact.place(i));
        }
        between(view.data, view.region.shape, line.from(inside.start), &mut out[inside]);
    }
}

/// How far along each axis the other one of two neighbours is in a box: nowhere, where there is one voxel alone.
pub(super) fn neighbours(shape: Shape) -> [usize; 3] {
    let strides = strides(shape);
    std::array::from_fn(|axis| if shape[axis] > 1 { strides[axis] } else { 0 })
}

/// The eight voxels around a place, given how far apart they are.
#[inline(always)]
pub(super) fn around(
    at: [i64; 3],
    plane: usize,
    row: usize,
    [dz, dy, dx]: [usize; 3],
) -> [usize; 8] {
    let [z, y, x] = at.map(|at| (at >> 32) as usize);
    let base = z * plane + y * row + x;
    let far = base + dz;
    [base, base + dx, base + dy, base + dy + dx, far, far + dx, far + dy, far + dy + dx]
}

/// Makes voxels of a line whose neighbours are all in the box `data`.
fn between(data: &[f32], shape: Shape, line: Line, out: &mut [f32]) {
    assert!(data.len() == count(shape) && line.stays_in(shape, out.len()));
    let ([plane, row, _], near) = (strides(shape), neighbours(shape));
    let mut at = line.at;
    for out in out {
        // SAFETY: just asserted: each voxel of the line has its eight neighbours in the box, which `data` is.
        let values = around(at, plane, row, near).map(|place| unsafe {
            debug_assert!(place < data.len());
            *data.get_unchecked(place)
        });
        *out = mean(values, at.map(fraction));
        at = std::array::from_fn(|axis| at[axis].wrapping_add(line.step[axis]));
    }
}

/// What lies between eight values, at these parts of the way along each axis.
#[inline(always)]
fn mean(v: [f32; 8], [fz, fy, fx]: [f32; 3]) -> f32 {
    let a = v[0] + (v[1] - v[0]) * fx;
    let b = v[2] + (v[3] - v[2]) * fx;
    let c = v[4] + (v[5] - v[4]) * fx;
    let d = v[6] + (v[7] - v[6]) * fx;
    let ab = a + (b - a) * fy;
    let cd = c + (d - c) * fy;
    ab + (cd - ab) * fz
}

/// The eight neighbours of a place near the edge: each one's place in memory, or none outside, and its weight.
pub(super) fn corners<T>(
    view: &RegionView<'_, T>,
    step: &Move,
    place: [i64; 3],
) -> [(Option<usize>, f32); 8] {
    let strides = view.strides();
    let mut first = [0i64; 3];
    let mut part = [0f64; 3];
    for axis in 0..3 {
        let last = view.shape[axis] as f64 - 1.0;
        let mut at = place[axis] as f64 / ONE as f64 + view.region.start[axis] as f64;
        if step.fill.is_none() {
            at = at.clamp(0.0, last);
        } else if at > last {
            at = last.max(at - step.margin[axis]);
        } else if at < 0.0 {
            at = 0f64.min(at + step.margin[axis]);
        }
        first[axis] = at.floor() as i64;
        part[axis] = at - at.floor();
    }
    std::array::from_fn(|corner| {
        let (mut weight, mut offset, mut inside) = (1.0, 0, true);
        for axis in 0..3 {
            let next = corner >> (2 - axis) & 1;
            let index = first[axis] + next as i64;
            weight *= if next == 1 { part[axis] } else { 1.0 - part[axis] };
            inside &= (0..view.shape[axis] as i64).contains(&index);
            let local = index - view.region.start[axis] as i64;
            let local = local.clamp(0, view.region.shape[axis] as i64 - 1) as usize;
            offset += local * strides[axis];
        }
        // Without a fill, what would be outside has no weight, or is the edge.
        ((inside || step.fill.is_none()).then_some(offset), weight as f32)
    })
}

/// A voxel near the edge or outside.
#[cold]
fn edge(view: &RegionView<'_, f32>, step: &Move, place: [i64; 3]) -> f32 {
    let fill = step.fill.map_or(0.0, |fill| fill.image);
    let all = corners(view, step, place);
    // A neighbour without weight does not count, whatever it is.
    let some = all.iter().filter(|(_, weight)| *weight != 0.0);
    some.map(|(offset, weight)| offset.map_or(fill, |offset| view.data[offset]) * weight).sum()
}
