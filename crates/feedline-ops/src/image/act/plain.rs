//! Resizing without antialiasing: each new pixel is made of its nearest neighbours only.

use crate::image::Picture;
use crate::image::action::{Interpolation, Size};

/// Two (bilinear) or four (bicubic, a = -0.75) neighbours and their weights along one axis, as torch's
/// `interpolate` has them with `align_corners=False`.
fn taps(at: usize, from: usize, to: usize, cubic: bool) -> Vec<(usize, f32)> {
    let scale = from as f32 / to as f32;
    let center = (at as f32 + 0.5) * scale - 0.5;
    let within = |at: isize| at.clamp(0, from as isize - 1) as usize;
    if !cubic {
        let center = center.max(0.0);
        let left = center.floor();
        let part = center - left;
        let left = left as isize;
        return vec![(within(left), 1.0 - part), (within(left + 1), part)];
    }
    let left = center.floor();
    let part = center - left;
    const A: f32 = -0.75;
    let near = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    let weights = [far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part)];
    let left = left as isize - 1;
    weights.into_iter().enumerate().map(|(i, w)| (within(left + i as isize), w)).collect()
}

/// Resizes without antialiasing: first across, then down, with bytes in between as torch has them.
pub(crate) fn resize_plain(
    from: &Picture,
    size: Size,
    interpolation: Interpolation,
    to: &mut Picture,
) {
    let channels = from.channels();
    let (height, width) = (from.height(), from.width());
    let out = to.reset(size.width, size.height, channels);
    if height == 0 || width == 0 || size.width == 0 {
        return;
    }
    let cubic = interpolation == Interpolation::Bicubic;
    let columns: Vec<_> = (0..size.width).map(|x| taps(x, width, size.width, cubic)).collect();
    let row = size.width * channels;
    let mut across = vec![0u8; height * row];
    for (y, out) in across.chunks_exact_mut(row).enumerate() {
        let from = from.row(y);
        for (out, columns) in out.chunks_exact_mut(channels).zip(&columns) {
            for (channel, out) in out.iter_mut().enumerate() {
                *out = weighed(columns, |x| from[x * channels + channel]);
            }
        }
    }
    for (y, out) in out.chunks_exact_mut(row).enumerate() {
        let rows = taps(y, height, size.height, cubic);
        for (i, out) in out.iter_mut().enumerate() {
            *out = weighed(&rows, |y| across[y * row + i]);
        }
    }
}

fn weighed(taps: &[(usize, f32)], value: impl Fn(usize) -> u8) -> u8 {
    let sum: f32 = taps.iter().map(|(at, weight)| f32::from(value(*at)) * weight).sum();
    (sum + 0.5) as u8
}
