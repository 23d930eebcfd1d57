//! Weighted means along each axis.

use crate::{Border, Region};

use super::wide::wide;

wide! {
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
            let apart = rows * columns;
            for row in 0..rows {
                let data = &mut data[row * columns..];
                lines(data, planes, apart, columns, &kernels[0], border, scratch);
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
#[inline(always)]
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
        let from = |k: usize| {
            let from = found(line as isize + k as isize - reach, count, border)?;
            Some((&scratch[from * length..][..length], kernel[k]))
        };
        let mut k = 0;
        while k < kernel.len() {
            match (from(k), (k + 3 < kernel.len()).then(|| [from(k + 1), from(k + 2), from(k + 3)]))
            {
                (Some(a), Some([Some(b), Some(c), Some(d)])) => {
                    add_four(out, [a, b, c, d]);
                    k += 4;
                }
                (one, _) => {
                    if let Some((x, weight)) = one {
                        add_one(out, x, weight);
                    }
                    k += 1;
                }
            }
        }
    }
}

/// Means along one line.
#[inline(always)]
fn along(line: &mut [f32], kernel: &[f32], border: Border, scratch: &mut Vec<f32>) {
    let (count, reach) = (line.len(), kernel.len() / 2);
    scratch.clear();
    let outside = |place: isize| found(place, count, border).map_or(0.0, |place| line[place]);
    scratch.extend((0..reach).map(|i| outside(i as isize - reach as isize)));
    scratch.extend_from_slice(line);
    scratch.extend((0..reach).map(|i| outside((count + i) as isize)));
    line.fill(0.0);
    let from = |k: usize| (&scratch[k..][..count], kernel[k]);
    let fours = kernel.len() / 4 * 4;
    for k in (0..fours).step_by(4) {
        add_four(line, [from(k), from(k + 1), from(k + 2), from(k + 3)]);
    }
    for k in fours..kernel.len() {
        let (x, weight) = from(k);
        add_one(line, x, weight);
    }
}

/// Adds numbers with their weight.
#[inline(always)]
fn add_one(out: &mut [f32], x: &[f32], weight: f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += x * weight;
    }
}

/// Adds four times numbers with their weights, one after the other, while each sum stays in a register.
#[inline(always)]
fn add_four(out: &mut [f32], [a, b, c, d]: [(&[f32], f32); 4]) {
    let pairs = a.0.iter().zip(b.0).zip(c.0.iter().zip(d.0));
    for (out, ((x, y), (z, w))) in out.iter_mut().zip(pairs) {
        *out = *out + x * a.1 + y * b.1 + z * c.1 + w * d.1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the definition, voxel by voxel and axis by axis.
    fn by_definition(
        data: &[f32],
        shape: [usize; 3],
        kernels: &[Vec<f32>; 3],
        border: Border,
    ) -> Vec<f64> {
        let mut now: Vec<f64> = data.iter().map(|x| f64::from(*x)).collect();
        let number = |place: [usize; 3]| (place[0] * shape[1] + place[1]) * shape[2] + place[2];
        for (axis, kernel) in kernels.iter().enumerate() {
            let before = now.clone();
            for z in 0..shape[0] {
                for y in 0..shape[1] {
                    for x in 0..shape[2] {
                        let mut sum = 0.0;
                        for (k, weight) in kernel.iter().enumerate() {
                            let mut place = [z, y, x];
                            let last = shape[axis] as isize - 1;
                            let mut at =
                                place[axis] as isize + k as isize - (kernel.len() / 2) as isize;
                            if border == Border::Zero && !(0..=last).contains(&at) {
                                continue;
                            }
                            // Reflected until it is inside.
                            while !(0..=last).contains(&at) {
                                at = if last == 0 { 0 } else { at.abs() };
                                at = if at > last { 2 * last - at } else { at };
                            }
                            place[axis] = at as usize;
                            sum += before[number(place)] * f64::from(*weight);
                        }
                        now[number([z, y, x])] = sum;
                    }
                }
            }
        }
        now
    }

    proptest! {
        #[test]
        fn a_blur_is_a_mean_along_each_axis(
            shape in proptest::array::uniform3(1usize..12),
            taps in proptest::array::uniform3(0usize..6),
            zero in any::<bool>(),
            seed in any::<u32>(),
        ) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1u32 << 24) as f32
            };
            let data: Vec<f32> = (0..crate::count(shape)).map(|_| next()).collect();
            // A kernel of one weight is not applied: it is 1.
            let kernels = taps.map(|taps| match taps {
                0 => vec![1.0],
                _ => (0..2 * taps + 1).map(|_| next()).collect::<Vec<_>>(),
            });
            let border = if zero { Border::Zero } else { Border::Reflect };
            let wanted = by_definition(&data, shape, &kernels, border);
            let mut got = data;
            blur(&mut got, Region::whole(shape), &kernels, border, &mut Vec::new());
            for (got, wanted) in got.iter().zip(wanted) {
                prop_assert!((f64::from(*got) - wanted).abs() <= 1e-4 * (1.0 + wanted.abs()));
            }
        }
    }
}
