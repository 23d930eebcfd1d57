//! Colours of single pixels: brightness, contrast, saturation, hue, and what RandAugment adds.
//!
//! Factors and rounding are those of torchvision on tensors of bytes: values are computed in single
//! precision, cut to 0..=255 and lose their fraction.

use super::histogram;
use super::hue;
use super::sharpness;
use crate::image::Picture;

/// A change of colours with its parameter drawn.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Tone {
    /// Times a factor.
    Brightness(f64),
    /// Away from the mean gray, by a factor.
    Contrast(f64),
    /// Away from each pixel's gray, by a factor.
    Saturation(f64),
    /// Around the circle of hues, by a part of it from -0.5 to 0.5.
    Hue(f64),
    /// Away from the blurred picture, by a factor.
    Sharpness(f64),
    /// Keeps so many bits of each value.
    Posterize(u32),
    /// Inverts values from a threshold on.
    Solarize(f64),
    /// Stretches each channel to the whole range.
    AutoContrast,
    /// Makes the values of each channel equally frequent.
    Equalize,
    /// Makes a negative.
    Invert,
}

impl Tone {
    /// Changes the picture. `spare` is memory to work in.
    pub(crate) fn apply(self, picture: &mut Picture, spare: &mut Picture) {
        match self {
            Tone::Brightness(factor) => {
                let factor = factor as f32;
                look_up(picture.pixels_mut(), &table(|v| v * factor));
            }
            Tone::Contrast(factor) => contrast(picture, factor),
            Tone::Saturation(factor) => saturation(picture, factor),
            Tone::Hue(part) => hue::shift(picture, part as f32),
            Tone::Sharpness(factor) => sharpness::adjust(picture, factor, spare),
            Tone::Posterize(bits) if bits >= 8 => {}
            Tone::Posterize(bits) => {
                let mask = !(0xFFu8 >> bits);
                picture.pixels_mut().iter_mut().for_each(|v| *v &= mask);
            }
            Tone::Solarize(threshold) => {
                let threshold = threshold as f32;
                look_up(
                    picture.pixels_mut(),
                    &table(|v| if v >= threshold { 255.0 - v } else { v }),
                );
            }
            Tone::AutoContrast => histogram::auto_contrast(picture),
            Tone::Equalize => histogram::equalize(picture),
            Tone::Invert => picture.pixels_mut().iter_mut().for_each(|v| *v = !*v),
        }
    }
}

/// What becomes of each value.
pub(crate) fn table(change: impl Fn(f32) -> f32) -> [u8; 256] {
    // `as` cuts the fraction off and stays in range.
    std::array::from_fn(|v| change(v as f32) as u8)
}

fn look_up(values: &mut [u8], table: &[u8; 256]) {
    for value in values {
        *value = table[usize::from(*value)];
    }
}

/// `a * b + c`, rounded once, as torch's vector instructions do it. (A fused instruction need not exist
/// here; the product of two singles is exact in a double.)
fn fused(a: f32, b: f32, c: f32) -> f32 {
    (f64::from(a) * f64::from(b) + f64::from(c)) as f32
}

/// The gray of a pixel, by torchvision's weights.
pub(crate) fn gray([r, g, b]: [u8; 3]) -> f32 {
    fused(f32::from(b), 0.114, fused(f32::from(g), 0.587, f32::from(r) * 0.2989))
}

fn contrast(picture: &mut Picture, factor: f64) {
    let pixels = picture.height() * picture.width();
    if pixels == 0 {
        return;
    }
    let total: u64 = match picture.channels() {
        3 => picture.pixels().as_chunks::<3>().0.iter().map(|p| gray(*p) as u64).sum(),
        _ => picture.pixels().iter().map(|v| u64::from(*v)).sum(),
    };
    let mean = (total as f64 / pixels as f64) as f32;
    let (ratio, rest) = (factor as f32, (1.0 - factor) as f32);
    look_up(picture.pixels_mut(), &table(|v| fused(mean, rest, v * ratio)));
}

fn saturation(picture: &mut Picture, factor: f64) {
    if picture.channels() != 3 {
        return;
    }
    let (ratio, rest) = (factor as f32, (1.0 - factor) as f32);
    for pixel in picture.pixels_mut().as_chunks_mut::<3>().0 {
        let gray = gray(*pixel).floor();
        for value in pixel {
            *value = fused(gray, rest, f32::from(*value) * ratio) as u8;
        }
    }
}

/// Makes the picture gray, of `channels` equal channels.
pub(crate) fn make_gray(picture: &mut Picture, channels: usize, spare: &mut Picture) {
    let (height, width) = (picture.height(), picture.width());
    match (picture.channels(), channels) {
        (3, 3) => {
            for pixel in picture.pixels_mut().as_chunks_mut::<3>().0 {
                *pixel = [gray(*pixel) as u8; 3];
            }
        }
        (3, 1) => {
            spare.reset(width, height, 1);
            let pixels = picture.pixels().as_chunks::<3>().0;
            for (out, pixel) in spare.pixels_mut().iter_mut().zip(pixels) {
                *out = gray(*pixel) as u8;
            }
            std::mem::swap(picture, spare);
        }
        (1, 3) => {
            spare.reset(width, height, 3);
            let pixels = spare.pixels_mut().as_chunks_mut::<3>().0;
            for (out, value) in pixels.iter_mut().zip(picture.pixels()) {
                *out = [*value; 3];
            }
            std::mem::swap(picture, spare);
        }
        _ => {}
    }
}
