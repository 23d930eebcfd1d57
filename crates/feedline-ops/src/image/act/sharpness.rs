//! Sharpening and softening.

use crate::image::Picture;

/// Moves every inner pixel away from the mean of its neighbourhood (the pixel itself weighs five), by
/// a factor; the outermost pixels stay.
pub(crate) fn adjust(picture: &mut Picture, factor: f64, spare: &mut Picture) {
    let (height, width, channels) = (picture.height(), picture.width(), picture.channels());
    if height <= 2 || width <= 2 {
        return;
    }
    spare.reset(width, height, channels);
    spare.pixels_mut().copy_from_slice(picture.pixels());
    let (from, row) = (spare.pixels(), width * channels);
    let rest = (1.0 - factor) as f32;
    for y in 1..height - 1 {
        let inner = channels..row - channels;
        let out = &mut picture.pixels_mut()[y * row..][..row];
        for i in inner {
            let at = y * row + i;
            let around = |line: usize| {
                u32::from(from[line - channels])
                    + u32::from(from[line])
                    + u32::from(from[line + channels])
            };
            let value = f32::from(from[at]);
            let sum = around(at - row) + around(at) + around(at + row) + 4 * u32::from(from[at]);
            let soft = (sum as f32 / 13.0).round_ties_even();
            out[i] = (value + (soft - value) * rest) as u8;
        }
    }
}
