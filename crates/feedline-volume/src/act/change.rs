//! Changes of a channel's numbers, in place.

use crate::{Change, Region};

use super::statistics::moments;

/// Changes the region `need` of a channel, of which `data` has the region `cover`.
pub(crate) fn change(change: &Change, data: &mut [f32], cover: Region, need: Region) {
    match change {
        Change::Scale { factor, offset, clip } => {
            let (factor, offset) = (*factor, *offset);
            match *clip {
                None => each(data, cover, need, |x| x * factor + offset),
                Some((low, high)) => {
                    each(data, cover, need, |x| (x * factor + offset).max(low).min(high));
                }
            }
        }
        Change::ZScore { nonzero } => {
            let found = moments(data, *nonzero);
            let deviation = found.variance.sqrt();
            let deviation = if deviation == 0.0 { 1.0 } else { deviation as f32 };
            let (mean, over) = (found.mean as f32, 1.0 / deviation);
            if *nonzero {
                each(data, cover, need, |x| if x == 0.0 { x } else { (x - mean) * over });
            } else {
                each(data, cover, need, |x| (x - mean) * over);
            }
        }
    }
}

/// Changes each number of the region `need` by itself.
fn each(data: &mut [f32], cover: Region, need: Region, to: impl Fn(f32) -> f32) {
    for line in lines(cover, need) {
        for x in &mut data[line] {
            *x = to(*x);
        }
    }
}

/// Where in memory the lines of the region `need` are, all of them at once where nothing lies between.
fn lines(cover: Region, need: Region) -> impl Iterator<Item = std::ops::Range<usize>> {
    let [_, rows, columns] = cover.shape;
    let at = |axis: usize| need.start[axis].saturating_sub(cover.start[axis]);
    let whole = cover == need;
    let (planes, lines) = if whole { (1, 1) } else { (need.shape[0], need.shape[1]) };
    let length = if whole { cover.voxels() } else { need.shape[2] };
    let start = (at(0) * rows + at(1)) * columns + at(2);
    (0..planes).flat_map(move |z| {
        (0..lines).map(move |y| {
            let start = start + (z * rows + y) * columns;
            start..start + length
        })
    })
}
