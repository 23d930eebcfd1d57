//! Resizing of pictures with antialiasing, as Pillow and torchvision do it.
//!
//! `fast_image_resize` is generic, and what a crate uses of it is compiled with that crate: two thirds of all code of
//! `feedline-ops`, once for the library and once more for its tests. Here it is compiled once.

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3, U8x4};
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions};

/// How new pixels are made of old ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The nearest pixel.
    Nearest,
    /// A triangle as wide as the pixels that become one: torchvision's bilinear with antialiasing.
    #[default]
    Bilinear,
    /// The cubic of Pillow and torchvision (a = -0.5), widened likewise.
    Bicubic,
}

/// A part of a picture in fractions of pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Window {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// A part of a picture in whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PixelArea {
    pub x: usize,
    pub y: usize,
    pub width: usize,
    pub height: usize,
}

/// Pixels to read: those of the area, in rows of `width` pixels.
#[derive(Clone, Copy, Debug)]
pub struct SourcePixels<'a> {
    /// All rows, one after the other.
    pub pixels: &'a [u8],
    /// Pixels of a row.
    pub width: usize,
    /// Bytes of a pixel: 1, 3 or 4.
    pub channels: usize,
    /// The part that counts.
    pub area: PixelArea,
}

impl SourcePixels<'_> {
    /// The area's pixels without gaps.
    pub fn copy_to(&self, to: &mut [u8]) {
        let (stride, row) = (self.width * self.channels, self.area.width * self.channels);
        let rows = self.pixels.chunks_exact(stride).skip(self.area.y);
        let start = self.area.x * self.channels;
        for (from, to) in rows.zip(to.chunks_exact_mut(row)) {
            to.copy_from_slice(&from[start..start + row]);
        }
    }
}

/// Resizes pictures, keeping its buffers between them.
#[derive(Default)]
pub struct Resizer {
    inner: fast_image_resize::Resizer,
}

impl std::fmt::Debug for Resizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resizer").finish_non_exhaustive()
    }
}

impl Resizer {
    /// Makes `to` (of `width` by `height` pixels, without gaps) of the window, which lies in the source's area.
    ///
    /// # Errors
    ///
    /// With the reason, if the pixels are not as many as the sizes say.
    pub fn resize(
        &mut self,
        from: SourcePixels<'_>,
        window: Window,
        filter: Filter,
        to: &mut [u8],
        (width, height): (usize, usize),
    ) -> Result<(), String> {
        let algorithm = match filter {
            Filter::Nearest => ResizeAlg::Nearest,
            Filter::Bilinear => ResizeAlg::Convolution(FilterType::Bilinear),
            Filter::Bicubic => ResizeAlg::Convolution(FilterType::CatmullRom),
        };
        // Rounding may have put it a hair outside, which would be refused.
        let within = (from.area.width as f64, from.area.height as f64);
        let x = (window.x - from.area.x as f64).clamp(0.0, within.0);
        let y = (window.y - from.area.y as f64).clamp(0.0, within.1);
        // Pixels with four channels are resized as they are: Pillow and torchvision do not weigh by opacity.
        let options = ResizeOptions::new()
            .resize_alg(algorithm)
            .crop(x, y, window.width.min(within.0 - x), window.height.min(within.1 - y))
            .use_alpha(false);
        let area = from.area;
        let rows = from.pixels.len() / (from.width * from.channels).max(1);
        macro_rules! typed {
            ($pixel:ty) => {{
                let source = TypedImageRef::<$pixel>::from_buffer(
                    from.width as u32,
                    rows as u32,
                    from.pixels,
                )
                .map_err(|e| e.to_string())
                .and_then(|whole| {
                    let [x, y, w, h] = [area.x, area.y, area.width, area.height].map(|n| n as u32);
                    TypedCroppedImage::new(whole, x, y, w, h).map_err(|e| e.to_string())
                });
                let target = TypedImage::<$pixel>::from_buffer(width as u32, height as u32, to);
                match (source, target) {
                    (Ok(source), Ok(mut target)) => self
                        .inner
                        .resize_typed(&source, &mut target, &options)
                        .map_err(|e| e.to_string()),
                    (Err(reason), _) => Err(reason),
                    (_, Err(reason)) => Err(reason.to_string()),
                }
            }};
        }
        match from.channels {
            1 => typed!(U8),
            3 => typed!(U8x3),
            4 => typed!(U8x4),
            n => Err(format!("{n} channels")),
        }
    }
}
