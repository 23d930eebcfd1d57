//! Every format but JPEG: PNG by the `png` crate, the others by the decoders of the `image` crate.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::codecs::{bmp::BmpDecoder, gif::GifDecoder, tiff::TiffDecoder, webp::WebPDecoder};
use image::{ColorType, ImageDecoder};

use super::{
    Color, Format, ImageError, ImageHeader, Limits, Orientation, Picture, png, tiff, webp,
};

/// What a file says before its pixels. Nothing is taken on trust: lengths and counts are those of the file.
pub(super) fn header(
    bytes: &[u8],
    format: Format,
    limits: &Limits,
) -> Result<ImageHeader, ImageError> {
    match format {
        Format::Png => return png::header(bytes),
        Format::WebP => return webp::header(bytes),
        _ => {}
    }
    guarded(format, || {
        let mut decoder = open(bytes, format, limits)?;
        let (width, height) = decoder.dimensions();
        let orientation = decoder
            .orientation()
            .map_or(Orientation::Upright, |found| Orientation::from_exif(found.to_exif()));
        Ok(ImageHeader { format, width, height, orientation })
    })
}

/// What becomes of samples of 16 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wide {
    /// Their high byte: a shade in less detail.
    Shades,
    /// Themselves: numbers of classes, which must fit a byte.
    Numbers,
}

/// Decodes the picture, or the first of several, as stored.
pub(super) fn decode(
    bytes: &[u8],
    format: Format,
    color: Color,
    wide: Wide,
    limits: &Limits,
    picture: &mut Picture,
) -> Result<(), ImageError> {
    guarded(format, || {
        if format == Format::Png {
            let mut reader = png::open(bytes, limits, ::png::Transformations::EXPAND)?;
            let (width, height) = reader.info().size();
            let stored = match reader.output_color_type() {
                (::png::ColorType::Grayscale, ::png::BitDepth::Sixteen) => ColorType::L16,
                (::png::ColorType::GrayscaleAlpha, ::png::BitDepth::Sixteen) => ColorType::La16,
                (::png::ColorType::Rgb, ::png::BitDepth::Sixteen) => ColorType::Rgb16,
                (::png::ColorType::Rgba, ::png::BitDepth::Sixteen) => ColorType::Rgba16,
                (::png::ColorType::Grayscale, _) => ColorType::L8,
                (::png::ColorType::GrayscaleAlpha, _) => ColorType::La8,
                (::png::ColorType::Rgb, _) => ColorType::Rgb8,
                (::png::ColorType::Rgba, _) => ColorType::Rgba8,
                (::png::ColorType::Indexed, _) => {
                    return Err(ImageError::decode(format, "it has no palette"));
                }
            };
            return RasterTarget { format, size: (width, height), stored, beside: 0, color, wide }
                .fill(limits, picture, |into| {
                    let frame = reader.next_frame(into);
                    let frame = frame.map_err(|error| ImageError::decode(format, error))?;
                    if (frame.width, frame.height) != (width, height) {
                        return Err(ImageError::decode(format, "a frame of another size"));
                    }
                    if frame.bit_depth == ::png::BitDepth::Sixteen {
                        for sample in into.as_chunks_mut::<2>().0 {
                            *sample = u16::from_be_bytes(*sample).to_ne_bytes();
                        }
                    }
                    Ok(())
                });
        }
        if format == Format::WebP {
            webp::header(bytes)?;
        }
        let mut decoder = open(bytes, format, limits)?;
        let stored = decoder.color_type();
        let depth = u64::from(stored.bytes_per_pixel());
        let beside = match format {
            // Brightness and colours, or all channels; then opacity as a picture of its own.
            Format::WebP if stored.has_alpha() => 7,
            Format::WebP => 4,
            // All pixels once more, of four channels where three are given.
            Format::Tiff => depth + depth.div_ceil(3),
            _ => 0,
        };
        let target =
            RasterTarget { format, size: decoder.dimensions(), stored, beside, color, wide };
        target.fill(limits, picture, |into| {
            let mut allowed = image::Limits::default();
            allowed.max_alloc = Some(target.left(limits));
            decoder.set_limits(allowed).map_err(|error| ImageError::decode(format, error))?;
            decoder.read_image_boxed(into).map_err(|error| ImageError::decode(format, error))
        })
    })
}

/// What a decoder gives and what is wanted of it.
#[derive(Clone, Copy)]
struct RasterTarget {
    format: Format,
    /// Width and height.
    size: (u32, u32),
    stored: ColorType,
    /// Bytes per pixel that the decoder takes for itself.
    beside: u64,
    color: Color,
    wide: Wide,
}

impl RasterTarget {
    /// Whether the decoder's pixels are those wanted.
    fn is_direct(&self) -> bool {
        let wanted = match self.color {
            Color::Gray => ColorType::L8,
            Color::Rgb => ColorType::Rgb8,
            Color::Rgba => ColorType::Rgba8,
        };
        self.stored == wanted
    }

    /// Bytes per pixel here: of the picture, and of the decoder's pixels where they are others.
    fn depth(&self) -> u64 {
        let stored = u64::from(self.stored.bytes_per_pixel());
        self.color.channels() as u64 + if self.is_direct() { 0 } else { stored }
    }

    /// What the limits leave to the decoder.
    fn left(&self, limits: &Limits) -> u64 {
        let (width, height) = self.size;
        let pixels = u64::from(width) * u64::from(height);
        limits.bytes.saturating_sub(pixels.saturating_mul(self.depth()))
    }

    /// Checks the limits, lets the decoder `read` and makes of its pixels those wanted.
    fn fill(
        &self,
        limits: &Limits,
        picture: &mut Picture,
        read: impl FnOnce(&mut [u8]) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let &Self { format, size: (width, height), stored, color, .. } = self;
        limits.check(width, height, self.depth() + self.beside)?;
        let pixels = picture.reset(width as usize, height as usize, color.channels());
        if self.is_direct() {
            return read(pixels);
        }
        let depth = usize::from(stored.bytes_per_pixel());
        let mut scratch = vec![0; pixels.len() / color.channels() * depth];
        read(&mut scratch)?;
        if self.wide == Wide::Numbers && matches!(stored, ColorType::L16 | ColorType::La16) {
            return numbers(format, depth, &scratch, color, pixels);
        }
        convert(stored, &scratch, color, pixels)
            .ok_or_else(|| ImageError::decode(format, format!("pixels of type {stored:?}")))
    }
}

fn open<'a>(
    bytes: &'a [u8],
    format: Format,
    limits: &Limits,
) -> Result<Box<dyn ImageDecoder + 'a>, ImageError> {
    if format == Format::Tiff {
        tiff::check(bytes, limits)?;
    }
    let cursor = Cursor::new(bytes);
    let decoder: Result<Box<dyn ImageDecoder + 'a>, image::ImageError> = match format {
        Format::WebP => {
            WebPDecoder::new(Cursor::new(webp::trimmed(bytes)?)).map(|d| Box::new(d) as _)
        }
        Format::Bmp => BmpDecoder::new(cursor).map(|d| Box::new(d) as _),
        Format::Gif => GifDecoder::new(cursor).map(|d| Box::new(d) as _),
        Format::Tiff => TiffDecoder::new(cursor).map(|d| Box::new(d) as _),
        Format::Jpeg | Format::Png => {
            return Err(ImageError::decode(format, "not one of these formats"));
        }
    };
    decoder.map_err(|error| ImageError::decode(format, error))
}

/// Runs a decoder. A panic in it is that file's error; it has no state that outlives the call.
pub(super) fn guarded<T>(
    format: Format,
    run: impl FnOnce() -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(ImageError::decode(format, "the decoder gave up on a damaged file"))
    })
}

/// Gray samples of 16 bits as the numbers they are. One that does not fit a byte is an error.
fn numbers(
    format: Format,
    depth: usize,
    from: &[u8],
    color: Color,
    to: &mut [u8],
) -> Result<(), ImageError> {
    let number = |pixel: &[u8]| pixel.first_chunk().map_or(0, |s| u16::from_ne_bytes(*s));
    if let Some(most) = from.chunks_exact(depth).map(number).find(|number| *number > 255) {
        let reason = format!("a pixel has the number {most}; masks hold numbers from 0 to 255");
        return Err(ImageError::decode(format, reason));
    }
    each(depth, from, color, to, |pixel| gray(number(pixel) as u8, 255));
    Ok(())
}

/// Any stored pixels as 8 bit in the wanted channels. Opacity is dropped unless it is wanted, as Pillow's
/// `convert("RGB")` does. Of 16 bits the high byte stays, in every kind of picture. That is what Pillow makes of
/// colours; of gray it makes white wherever a sample is above 255, which is nearly everywhere, and here it is not
/// followed. `None` for pixels of a kind that no decoder gives yet.
fn convert(stored: ColorType, from: &[u8], color: Color, to: &mut [u8]) -> Option<()> {
    fn byte(pixel: &[u8], channel: usize) -> u8 {
        pixel[channel]
    }
    // `image` gives samples in the machine's byte order.
    fn word(pixel: &[u8], channel: usize) -> u8 {
        (u16::from_ne_bytes([pixel[2 * channel], pixel[2 * channel + 1]]) >> 8) as u8
    }
    fn float(pixel: &[u8], channel: usize) -> u8 {
        let sample = pixel[4 * channel..].first_chunk().map_or(0.0, |s| f32::from_ne_bytes(*s));
        (sample.clamp(0.0, 1.0) * 255.0).round() as u8
    }
    match stored {
        ColorType::L8 => each(1, from, color, to, |p| gray(byte(p, 0), 255)),
        ColorType::La8 => each(2, from, color, to, |p| gray(byte(p, 0), byte(p, 1))),
        ColorType::Rgb8 => each(3, from, color, to, |p| [p[0], p[1], p[2], 255]),
        ColorType::Rgba8 => each(4, from, color, to, |p| [p[0], p[1], p[2], p[3]]),
        ColorType::L16 => each(2, from, color, to, |p| gray(word(p, 0), 255)),
        ColorType::La16 => each(4, from, color, to, |p| gray(word(p, 0), word(p, 1))),
        ColorType::Rgb16 => each(6, from, color, to, |p| [word(p, 0), word(p, 1), word(p, 2), 255]),
        ColorType::Rgba16 => {
            each(8, from, color, to, |p| [word(p, 0), word(p, 1), word(p, 2), word(p, 3)]);
        }
        ColorType::Rgb32F => {
            each(12, from, color, to, |p| [float(p, 0), float(p, 1), float(p, 2), 255]);
        }
        ColorType::Rgba32F => {
            each(16, from, color, to, |p| [float(p, 0), float(p, 1), float(p, 2), float(p, 3)]);
        }
        _ => return None,
    }
    Some(())
}

fn gray(shade: u8, opacity: u8) -> [u8; 4] {
    [shade, shade, shade, opacity]
}

/// Makes of every pixel, of `depth` bytes, red, green, blue and opacity, and of these what is wanted.
fn each(depth: usize, from: &[u8], color: Color, to: &mut [u8], rgba: impl Fn(&[u8]) -> [u8; 4]) {
    let pixels = from.chunks_exact(depth).map(rgba);
    match color {
        // Exact for shades too, because the weights add up to one.
        Color::Gray => pixels.zip(to).for_each(|([r, g, b, _], to)| *to = luma(r, g, b)),
        Color::Rgb => (pixels.zip(to.chunks_exact_mut(3)))
            .for_each(|([r, g, b, _], to)| to.copy_from_slice(&[r, g, b])),
        Color::Rgba => {
            pixels.zip(to.chunks_exact_mut(4)).for_each(|(rgba, to)| to.copy_from_slice(&rgba));
        }
    }
}

/// Brightness as Pillow's mode `L` has it (ITU-R 601-2, in 16 bit fixed point).
pub(super) fn luma(r: u8, g: u8, b: u8) -> u8 {
    ((u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}
