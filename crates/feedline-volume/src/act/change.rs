//! Changes of a channel's numbers, in place.

use crate::{Change, Region};

use super::blur::blur;
use super::low_resolution::low_resolution;
use super::noise;
use super::power::power;
use super::separable::Planes;
use super::statistics::{extremes, moments, percentile};
use super::wide::wide;

/// Buffers of changes.
#[derive(Debug, Default)]
pub(crate) struct ChangeScratch {
    numbers: Vec<f32>,
    planes: Planes,
}

/// What two numbers of a range are divided by at least.
const LEAST: f32 = 1e-7;

/// Changes the region `need` of a channel, of which `data` has the region `cover`.
pub(crate) fn change(
    change: &Change,
    data: &mut [f32],
    cover: Region,
    need: Region,
    scratch: &mut ChangeScratch,
) {
    match change {
        Change::Scale { factor, offset, clip } => {
            scale(data, cover, need, (*factor, *offset), *clip);
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
        Change::Percentiles { lower, upper, to: (low, high), clip } => {
            scratch.numbers.clear();
            scratch.numbers.extend_from_slice(data);
            let from = percentile(&mut scratch.numbers, *lower);
            let width = percentile(&mut scratch.numbers, *upper) - from;
            let factor = if width == 0.0 { 1.0 } else { (high - low) / width };
            let ends = (low.min(*high), low.max(*high));
            let (low, clip) = (*low, clip.then_some(ends));
            match clip {
                None => each(data, cover, need, |x| (x - from) * factor + low),
                Some((a, b)) => {
                    each(data, cover, need, |x| ((x - from) * factor + low).max(a).min(b));
                }
            }
        }
        Change::Noise { mean, std, seed } => noise::add(data, *mean, *std, *seed),
        Change::Blur { kernels, border } => {
            blur(data, cover, kernels, *border, &mut scratch.numbers);
        }
        Change::Contrast { factor, preserve_range } => {
            let mean = moments(data, false).mean as f32;
            let clip = preserve_range.then(|| extremes(data));
            let factor = *factor;
            match clip {
                None => each(data, cover, need, |x| (x - mean) * factor + mean),
                Some((low, high)) => {
                    each(data, cover, need, |x| ((x - mean) * factor + mean).max(low).min(high))
                }
            }
        }
        Change::Gamma { gamma, invert, retain_stats } => {
            raise(data, *gamma, *invert, *retain_stats);
        }
        Change::LowResolution { shape, exact } => {
            let ChangeScratch { numbers, planes } = scratch;
            low_resolution(data, cover.shape, *shape, *exact, numbers, planes);
        }
    }
}

fn scale(
    data: &mut [f32],
    cover: Region,
    need: Region,
    (factor, offset): (f32, f32),
    clip: Option<(f32, f32)>,
) {
    match clip {
        None => each(data, cover, need, |x| x * factor + offset),
        Some((low, high)) => each(data, cover, need, |x| (x * factor + offset).max(low).min(high)),
    }
}

/// Numbers between the least and the largest, to a power.
fn raise(data: &mut [f32], gamma: f32, invert: bool, retain_stats: bool) {
    let (low, high) = extremes(data);
    let before = retain_stats.then(|| moments(data, false));
    let (low, high, sign) = if invert { (-high, -low, -1.0) } else { (low, high, 1.0) };
    let range = high - low;
    powers(data, gamma, sign, low, range);
    if let Some(before) = before {
        let after = moments(data, false);
        let (old, new) = (before.sample_deviation(), after.sample_deviation());
        let factor = (old / new.max(f64::from(LEAST))) as f32;
        let (from, to) = (after.mean as f32, before.mean as f32);
        for x in data {
            *x = (*x - from) * factor + to;
        }
    }
}

wide! {
    /// Numbers, or their negatives, from `low` on over this range.
    fn powers(data: &mut [f32], gamma: f32, sign: f32, low: f32, range: f32) {
        let over = 1.0 / range.max(LEAST);
        for x in data {
            *x = sign * (power((*x * sign - low) * over, gamma) * range + low);
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
