//! Weighted means along each axis.

use crate::{Border, Region};

/// Blurs a channel of which `data` has the region `cover`: the volume ends where the region does, or what is near
/// its end is not needed.
pub(super) fn blur(
    data: &mut [f32],
    cover: Region,
    kernels: &[Vec<f32>; 3],
    border: Border,
    scratch: &mut Vec<f32>,
) {
    let [planes, rows, columns] = cover.shape;
    if data.is_empty() {
        return;
    }
    if kernels[0].len() > 1 {
        for row in 0..rows {
            let start = row * columns;
            lines(
                &mut data[start..],
                planes,
                rows * columns,
                columns,
                &kernels[0],
                border,
                scratch,
            );
        }
    }
    if kernels[1].len() > 1 {
        for plane in data.chunks_exact_mut(rows * columns) {
            lines(plane, rows, columns, columns, &kernels[1], border, scratch);
        }
    }
    if kernels[2].len() > 1 {
        for line in data.chunks_exact_mut(columns) {
            along(line, &kernels[2], border, scratch);
        }
    }
}

/// Where a place outside is found instead.
fn found(place: isize, count: usize, border: Border) -> Option<usize> {
    let last = count as isize - 1;
    if (0..=last).contains(&place) {
        return Some(place as usize);
    }
    if border == Border::Zero {
        return None;
    }
    if last == 0 {
        return Some(0);
    }
    let around = place.rem_euclid(2 * last);
    Some(around.min(2 * last - around) as usize)
}

/// Means of `count` lines of this length, so far apart.
fn lines(
    data: &mut [f32],
    count: usize,
    stride: usize,
    length: usize,
    kernel: &[f32],
    border: Border,
    scratch: &mut Vec<f32>,
) {
    scratch.clear();
    for line in 0..count {
        scratch.extend_from_slice(&data[line * stride..][..length]);
    }
    let reach = (kernel.len() / 2) as isize;
    for line in 0..count {
        let out = &mut data[line * stride..][..length];
        out.fill(0.0);
        for (k, weight) in kernel.iter().enumerate() {
            if let Some(from) = found(line as isize + k as isize - reach, count, border) {
                for (out, x) in out.iter_mut().zip(&scratch[from * length..][..length]) {
                    *out += x * weight;
                }
            }
        }
    }
}

/// Means along one line.
fn along(line: &mut [f32], kernel: &[f32], border: Border, scratch: &mut Vec<f32>) {
    let (count, reach) = (line.len(), kernel.len() / 2);
    scratch.clear();
    let outside = |place: isize| found(place, count, border).map_or(0.0, |place| line[place]);
    scratch.extend((0..reach).map(|i| outside(i as isize - reach as isize)));
    scratch.extend_from_slice(line);
    scratch.extend((0..reach).map(|i| outside((count + i) as isize)));
    line.fill(0.0);
    for (k, weight) in kernel.iter().enumerate() {
        for (out, x) in line.iter_mut().zip(&scratch[k..]) {
            *out += x * weight;
        }
    }
}
