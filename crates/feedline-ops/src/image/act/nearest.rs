//! Resizing without making new values: what masks need.

use crate::image::Picture;
use crate::image::action::Size;

/// Resizes to the pixel at the floor of each coordinate, as torch's `nearest` does.
pub(crate) fn resize_nearest(from: &Picture, size: Size, to: &mut Picture) {
    let channels = from.channels();
    to.reset(size.width, size.height, channels);
    if from.height() == 0 || from.width() == 0 || size.width == 0 {
        return;
    }
    // In single precision, as torch computes it: where the two disagree, torch's pixel is wanted.
    let floor = |at: usize, from: usize, to: usize| {
        let scale = from as f32 / to as f32;
        ((at as f32 * scale) as usize).min(from - 1)
    };
    let columns: Vec<usize> =
        (0..size.width).map(|x| floor(x, from.width(), size.width) * channels).collect();
    let row = from.width() * channels;
    for (y, out) in to.pixels_mut().chunks_exact_mut(size.width * channels).enumerate() {
        let line = &from.pixels()[floor(y, from.height(), size.height) * row..][..row];
        for (out, at) in out.chunks_exact_mut(channels).zip(&columns) {
            out.copy_from_slice(&line[*at..][..channels]);
        }
    }
}
