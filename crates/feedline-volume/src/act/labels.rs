//! Labels between voxels, whichever way the axes are turned.

use half::f16;

use crate::{Label, Labels, Move, Region, Shape, count};

use super::trilinear::{around, corners, fraction, inner, neighbours, outer};
use super::view::{RegionView, strides};
use super::walk::{Line, ONE, Walk};

/// Numbers that are labels.
pub(super) trait Labelled: Copy + PartialEq + Into<Label> {}

impl<T: Copy + PartialEq + Into<Label>> Labelled for T {}

/// Makes the region `to` of the new grid.
pub(super) fn labels<T: Labelled>(
    view: RegionView<'_, T>,
    step: &Move,
    to: Region,
    out: &mut [Label],
) {
    match step.labels {
        Labels::Nearest => nearest(view, step, to, out),
        Labels::MostWeight => most_weight(view, step, to, out),
    }
}

fn nearest<T: Labelled>(view: RegionView<'_, T>, step: &Move, to: Region, out: &mut [Label]) {
    let fill = step.fill.map_or(0, |fill| fill.mask);
    let walk = Walk::new(step, view.region, to);
    let [_, rows, columns] = to.shape;
    let [plane, row, _] = view.strides();
    let high = view.region.shape.map(|side| side as i64 * ONE - 1 - ONE / 2);
    for (number, out) in out.chunks_exact_mut(columns.max(1)).enumerate() {
        let line = walk.line(number / rows, number % rows);
        let inside = line.between([-(ONE / 2); 3], high, columns);
        let near = outer(&line, &view, step, columns);
        out[..near.start].fill(fill);
        out[near.end..].fill(fill);
        let before = near.start..inside.start.clamp(near.start, near.end);
        let after = inside.end.clamp(near.start, near.end)..near.end;
        for i in before.chain(after) {
            let nearest = heaviest(&corners(&view, step, line.place(i)));
            out[i] = nearest.map_or(fill, |offset| view.data[offset].into());
        }
        let mut at = line.place(inside.start);
        for out in &mut out[inside] {
            let [z, y, x] = at.map(|at| ((at + ONE / 2) >> 32) as usize);
            *out = view.data[z * plane + y * row + x].into();
            at = std::array::from_fn(|axis| at[axis] + line.step[axis]);
        }
    }
}

/// The neighbour with the most weight, which is the nearest.
fn heaviest(corners: &[(Option<usize>, f32); 8]) -> Option<usize> {
    let mut best = corners[0];
    for corner in corners {
        if corner.1 > best.1 {
            best = *corner;
        }
    }
    best.0
}

fn most_weight<T: Labelled>(view: RegionView<'_, T>, step: &Move, to: Region, out: &mut [Label]) {
    let fill = step.fill.map_or(0, |fill| fill.mask);
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
            let corners = corners(&view, step, exact.place(i));
            let label =
                |offset: Option<usize>| offset.map_or(fill, |offset| view.data[offset].into());
            let all = corners.map(|(offset, weight)| (label(offset), weight));
            out[i] = winner(&all);
        }
        between(view.data, view.region.shape, line.from(inside.start), &mut out[inside]);
    }
}

/// Makes labels of a line whose neighbours are all in the box `data`.
fn between<T: Labelled>(data: &[T], shape: Shape, line: Line, out: &mut [Label]) {
    assert!(data.len() == count(shape) && line.stays_in(shape, out.len()));
    let ([plane, row, _], near) = (strides(shape), neighbours(shape));
    let mut at = line.at;
    for out in out {
        // SAFETY: just asserted: each voxel of the line has its eight neighbours in the box, which `data` is.
        let all = around(at, plane, row, near).map(|place| unsafe {
            debug_assert!(place < data.len());
            *data.get_unchecked(place)
        });
        // Nearly always all eight are the same.
        let same = all[1..].iter().fold(true, |same, other| same & (*other == all[0]));
        *out = if same { all[0].into() } else { mixed(all.map(Into::into), at) };
        at = std::array::from_fn(|axis| at[axis].wrapping_add(line.step[axis]));
    }
}

/// The label at a place whose neighbours differ.
fn mixed(labels: [Label; 8], at: [i64; 3]) -> Label {
    let [z, y, x] = at.map(fraction);
    let all = std::array::from_fn(|corner| {
        let part = |next: usize, part: f32| if next == 1 { part } else { 1.0 - part };
        let weight = part(corner >> 2, z) * part(corner >> 1 & 1, y) * part(corner & 1, x);
        (labels[corner], weight)
    });
    winner(&all)
}

/// The label with the most weight. Weights are compared as batchgeneratorsv2 compares them, as halves of a
/// thousandth, so that what is nearly equal is equal: then the nearest voxel's label wins, or else the lowest.
fn winner(all: &[(Label, f32); 8]) -> Label {
    let mut found = [(0, 0f32); 8];
    let mut count = 0;
    let mut nearest = all[0];
    for (label, weight) in all {
        if *weight > nearest.1 {
            nearest = (*label, *weight);
        }
        match found[..count].iter_mut().find(|(other, _)| other == label) {
            Some((_, sum)) => *sum += weight,
            None => {
                found[count] = (*label, *weight);
                count += 1;
            }
        }
    }
    let mut best = (Label::MAX, f32::NEG_INFINITY);
    let mut of_nearest = f32::NEG_INFINITY;
    for (label, weight) in &found[..count] {
        let score = f16::from_f32(weight * 1000.0).to_f32();
        if *label == nearest.0 {
            of_nearest = score;
        }
        if score > best.1 || (score == best.1 && *label < best.0) {
            best = (*label, score);
        }
    }
    if of_nearest == best.1 { nearest.0 } else { best.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_with_the_most_weight_wins_although_another_voxel_is_nearest() {
        let all =
            [(1, 0.3), (2, 0.2), (2, 0.2), (0, 0.1), (3, 0.1), (0, 0.05), (3, 0.03), (3, 0.02)];
        assert_eq!(winner(&all), 2);
    }

    #[test]
    fn equal_weights_are_settled_by_the_nearest_voxel_then_by_the_lowest_label() {
        let mut all = [(0, 0.0); 8];
        all[0] = (5, 0.3);
        all[1] = (5, 0.2);
        all[2] = (2, 0.26);
        all[3] = (2, 0.24);
        assert_eq!(winner(&all), 5);
        all = [(0, 0.0); 8];
        all[0] = (7, 0.2);
        all[1] = (6, 0.15);
        all[2] = (6, 0.13);
        all[3] = (4, 0.14);
        all[4] = (4, 0.14);
        assert_eq!(winner(&all), 4);
    }
}
