//! Every format but JPEG, by the decoders of the `image` crate.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::codecs::{
    bmp::BmpDecoder, gif::GifDecoder, png::PngDecoder, tiff::TiffDecoder, webp::WebPDecoder,
};
use image::{ColorType, ImageDecoder};

use super::{Color, Format, Header, ImageError, Limits, Orientation, Picture};

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
/// it is wanted, as Pillow's `convert("RGB")` does.
fn convert(stored: ColorType, from: &[u8], color: Color, to: &mut [u8]) -> Option<()> {
    // The high byte of a sample, which `image` gives in the machine's byte order.
    let high = |pixel: &[u8], channel: usize| {
        let at = 2 * channel;
        (u16::from_ne_bytes([pixel[at], pixel[at + 1]]) >> 8) as u8
    };
    let unit = |pixel: &[u8], channel: usize| {
        let at = 4 * channel;
        let value = f32::from_ne_bytes([pixel[at], pixel[at + 1], pixel[at + 2], pixel[at + 3]]);
        (value.clamp(0.0, 1.0) * 255.0).round() as u8
    };
    let depth = usize::from(stored.bytes_per_pixel());
    let rgba: fn(&[u8], &dyn Fn(&[u8], usize) -> u8) -> [u8; 4] = match stored.channel_count() {
        1 => |p, get| [get(p, 0), get(p, 0), get(p, 0), 255],
        2 => |p, get| [get(p, 0), get(p, 0), get(p, 0), get(p, 1)],
        3 => |p, get| [get(p, 0), get(p, 1), get(p, 2), 255],
        4 => |p, get| [get(p, 0), get(p, 1), get(p, 2), get(p, 3)],
        _ => return None,
    };
    let gray = stored.channel_count() < 3;
    let get: &dyn Fn(&[u8], usize) -> u8 = match depth / usize::from(stored.channel_count()) {
        1 => &|pixel, channel| pixel[channel],
        2 => &high,
        4 => &unit,
        _ => return None,
    };
    for (pixel, out) in from.chunks_exact(depth).zip(to.chunks_exact_mut(color.channels())) {
        let [r, g, b, a] = rgba(pixel, get);
        match color {
            Color::Gray => out[0] = if gray { r } else { luma(r, g, b) },
            Color::Rgb => out.copy_from_slice(&[r, g, b]),
            Color::Rgba => out.copy_from_slice(&[r, g, b, a]),
        }
    }
    Some(())
}

/// Brightness as Pillow's mode `L` has it (ITU-R 601-2, in 16 bit fixed point).
pub(super) fn luma(r: u8, g: u8, b: u8) -> u8 {
    ((u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}
