//! Every format but JPEG, by the decoders of the `image` crate.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::codecs::{
    bmp::BmpDecoder, gif::GifDecoder, png::PngDecoder, tiff::TiffDecoder, webp::WebPDecoder,
};
use image::{ColorType, ImageDecoder};

use super::{Color, Format, Header, ImageError, Limits, Orientation, Picture, png};

/// What a decoder knows before it decodes.
pub(super) fn header(bytes: &[u8], format: Format) -> Result<Header, ImageError> {
    guarded(format, || {
        let mut decoder = open(bytes, format, &Limits::NONE)?;
        let (width, height) = decoder.dimensions();
        let orientation = decoder
            .orientation()
            .map_or(Orientation::Upright, |found| Orientation::from_exif(found.to_exif()));
        Ok(Header { format, width, height, orientation })
    })
}

/// Decodes the picture, or the first of several, as stored.
pub(super) fn decode(
    bytes: &[u8],
    format: Format,
    color: Color,
    limits: &Limits,
    scratch: &mut Vec<u8>,
    picture: &mut Picture,
) -> Result<(), ImageError> {
    if format == Format::Png {
        png::check(bytes)?;
    }
    guarded(format, || {
        let decoder = open(bytes, format, limits)?;
        let (width, height) = decoder.dimensions();
        let stored = decoder.color_type();
        let depth = u64::from(stored.bytes_per_pixel());
        limits.check(width, height, depth + color.channels() as u64)?;
        let pixels = picture.reset(width as usize, height as usize, color.channels());
        let read = |decoder: Box<dyn ImageDecoder + '_>, into: &mut [u8]| {
            decoder.read_image_boxed(into).map_err(|error| ImageError::decode(format, error))
        };
        if stored
            == (match color {
                Color::Gray => ColorType::L8,
                Color::Rgb => ColorType::Rgb8,
                Color::Rgba => ColorType::Rgba8,
            })
        {
            return read(decoder, pixels);
        }
        scratch.resize(pixels.len() / color.channels() * depth as usize, 0);
        read(decoder, scratch)?;
        convert(stored, scratch, color, pixels)
            .ok_or_else(|| ImageError::decode(format, format!("pixels of type {stored:?}")))
    })
}

fn open<'a>(
    bytes: &'a [u8],
    format: Format,
    limits: &Limits,
) -> Result<Box<dyn ImageDecoder + 'a>, ImageError> {
    let cursor = Cursor::new(bytes);
    let decoder: Result<Box<dyn ImageDecoder + 'a>, image::ImageError> = match format {
        Format::Png => PngDecoder::new(cursor).map(|d| Box::new(d) as _),
        Format::WebP => WebPDecoder::new(cursor).map(|d| Box::new(d) as _),
        Format::Bmp => BmpDecoder::new(cursor).map(|d| Box::new(d) as _),
        Format::Gif => GifDecoder::new(cursor).map(|d| Box::new(d) as _),
        Format::Tiff => TiffDecoder::new(cursor).map(|d| Box::new(d) as _),
        Format::Jpeg => return Err(ImageError::decode(format, "not a raster format")),
    };
    let mut decoder = decoder.map_err(|error| ImageError::decode(format, error))?;
    let (width, height) = decoder.dimensions();
    if limits.pixels != u64::MAX {
        limits.check(width, height, 1)?;
    }
    let mut allowed = image::Limits::default();
    allowed.max_alloc = Some(limits.bytes);
    decoder.set_limits(allowed).map_err(|error| ImageError::decode(format, error))?;
    Ok(decoder)
}

/// Runs a decoder. A panic in it is that file's error; it has no state that outlives the call.
fn guarded<T>(
    format: Format,
    run: impl FnOnce() -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(ImageError::decode(format, "the decoder gave up on a damaged file"))
    })
}

/// Any stored pixels as 8 bit in the wanted channels. Of 16 bits the high byte stays, opacity is dropped unless
/// it is wanted, as Pillow's `convert("RGB")` does. `None` for pixels of a kind that no decoder gives yet.
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
