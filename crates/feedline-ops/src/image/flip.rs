//! Mirroring pixels in place.

/// Left becomes right.
pub(super) fn horizontal(pixels: &mut [u8], width: usize, channels: usize) {
    for row in pixels.chunks_exact_mut(width * channels) {
        for left in 0..width / 2 {
            let right = width - 1 - left;
            for channel in 0..channels {
                row.swap(left * channels + channel, right * channels + channel);
            }
        }
    }
}

/// Top becomes bottom.
pub(super) fn vertical(pixels: &mut [u8], stride: usize) {
    let rows = pixels.len() / stride;
    for upper in 0..rows / 2 {
        let (above, below) = pixels.split_at_mut((rows - 1 - upper) * stride);
        above[upper * stride..(upper + 1) * stride].swap_with_slice(&mut below[..stride]);
    }
}
