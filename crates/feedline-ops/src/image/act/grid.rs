//! Pixels taken from anywhere between those of another picture.
//!
//! The arithmetic is that of torch's `grid_sample` (single precision, coordinates from -1 to 1), so that the pixels
//! are torchvision's.

use crate::image::Picture;
use crate::image::action::{Fill, Size};

/// `m[0] * x + m[1] * y + m[2]`, as torch's matrix product has it.
pub(super) fn dot(m: [f32; 3], x: f32, y: f32) -> f32 {
    // The second term is added by a fused multiplication, which doubles imitate. A coordinate half-way between two
    // pixels falls to the same side then.
    (f64::from(x * m[0]) + f64::from(y) * f64::from(m[1])) as f32 + m[2]
}

/// Makes a picture of `size`: `row(y)(x)` tells where each pixel is taken from, across and down. `smooth` blends
/// neighbours, else the nearest is taken. What comes from outside gets the colour `fill`, or is black without
/// blending.
pub(super) fn sample<R: Fn(usize) -> (f32, f32)>(
    from: &Picture,
    size: Size,
    smooth: bool,
    fill: Option<Fill>,
    to: &mut Picture,
    row: impl Fn(usize) -> R,
) {
    to.reset(size.width, size.height, from.channels());
    match from.channels() {
        1 => run::<1, R>(from, size, smooth, fill, to, row),
        _ => run::<3, R>(from, size, smooth, fill, to, row),
    }
}

fn run<const C: usize, R: Fn(usize) -> (f32, f32)>(
    from: &Picture,
    size: Size,
    smooth: bool,
    fill: Option<Fill>,
    to: &mut Picture,
    row: impl Fn(usize) -> R,
) {
    let (height, width) = (from.height(), from.width());
    if height == 0 || width == 0 || size.width == 0 {
        return;
    }
    let pixels: &[[u8; C]] = from.pixels().as_chunks::<C>().0;
    let colour: [f32; C] = std::array::from_fn(|c| fill.unwrap_or_default()[c]);
    for (y, out) in to.pixels_mut().chunks_exact_mut(size.width * C).enumerate() {
        let place = row(y);
        for (x, out) in out.as_chunks_mut::<C>().0.iter_mut().enumerate() {
            let (across, down) = place(x);
            let at_x = ((across + 1.0) * width as f32 - 1.0) * 0.5;
            let at_y = ((down + 1.0) * height as f32 - 1.0) * 0.5;
            *out = if smooth {
                blend(pixels, (height, width), (at_y, at_x), fill.is_some(), &colour)
            } else {
                let (y, x) = (at_y.round_ties_even(), at_x.round_ties_even());
                if y >= 0.0 && x >= 0.0 && y < height as f32 && x < width as f32 {
                    pixels[y as usize * width + x as usize]
                } else {
                    colour.map(round)
                }
            };
        }
    }
}

fn round(value: f32) -> u8 {
    value.round_ties_even() as u8
}

/// The bilinear mean of four neighbours, of which those outside are nothing.
fn blend<const C: usize>(
    pixels: &[[u8; C]],
    (height, width): (usize, usize),
    (at_y, at_x): (f32, f32),
    filled: bool,
    fill: &[f32; C],
) -> [u8; C] {
    let (top, left) = (at_y.floor(), at_x.floor());
    let (down, right) = (at_y - top, at_x - left);
    // Far outside nothing is added; the comparison also keeps the conversions below in range.
    let near = top >= -1.0 && left >= -1.0 && top < height as f32 && left < width as f32;
    let mut sum = [0f32; C];
    let mut inside = 0f32;
    if near {
        let (top, left) = (top as isize, left as isize);
        let corners = [
            (top, left, (1.0 - down) * (1.0 - right)),
            (top, left + 1, (1.0 - down) * right),
            (top + 1, left, down * (1.0 - right)),
            (top + 1, left + 1, down * right),
        ];
        for (y, x, weight) in corners {
            if y >= 0 && x >= 0 && (y as usize) < height && (x as usize) < width {
                let pixel = pixels[y as usize * width + x as usize];
                for c in 0..C {
                    sum[c] += f32::from(pixel[c]) * weight;
                }
                inside += weight;
            }
        }
    }
    std::array::from_fn(|c| {
        // torchvision weighs what is inside once more where a colour is given.
        round(if filled { (sum[c] - fill[c]) * inside + fill[c] } else { sum[c] })
    })
}
