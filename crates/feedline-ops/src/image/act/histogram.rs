//! Changes that depend on how often each value occurs.

use crate::image::Picture;

/// Stretches each channel so that its least value becomes 0 and its largest 255.
pub(crate) fn auto_contrast(picture: &mut Picture) {
    let channels = picture.channels();
    for channel in 0..channels {
        let values = || picture.pixels().iter().skip(channel).step_by(channels);
        let (Some(&least), Some(&most)) = (values().min(), values().max()) else { return };
        if least == most {
            continue;
        }
        let (offset, step) = (f32::from(least), f32::from(most - least) * (1.0 / 255.0));
        let table = super::tone::table(|v| (v - offset) / step);
        for value in picture.pixels_mut().iter_mut().skip(channel).step_by(channels) {
            *value = table[usize::from(*value)];
        }
    }
}

/// Makes the values of each channel equally frequent, by Pillow's table.
pub(crate) fn equalize(picture: &mut Picture) {
    let channels = picture.channels();
    let pixels = picture.height() * picture.width();
    for channel in 0..channels {
        let mut counts = [0usize; 256];
        for value in picture.pixels().iter().skip(channel).step_by(channels) {
            counts[usize::from(*value)] += 1;
        }
        let last = counts.iter().rev().find(|count| **count > 0).copied().unwrap_or(0);
        let step = (pixels - last) / 255;
        if step == 0 {
            continue;
        }
        let mut below = 0;
        let table: [u8; 256] = std::array::from_fn(|value| {
            let to = if value == 0 { 0 } else { (below + step / 2) / step };
            below += counts[value];
            to.min(255) as u8
        });
        for value in picture.pixels_mut().iter_mut().skip(channel).step_by(channels) {
            *value = table[usize::from(*value)];
        }
    }
}
