//! Numbers rather than colours: what segmentation masks are made of.

use super::raster::{self, Wide, guarded};
use super::{Color, DecodeOptions, Format, ImageError, Orientation, Picture, decode, png};

/// Decodes a mask into one channel: palette numbers and gray values as they are. A gray value of 16 bits that does not
/// fit a byte is an error; colours become their brightness. Of the options the color does not count.
pub fn decode_mask(
    bytes: &[u8],
    options: &DecodeOptions,
    mask: &mut Picture,
) -> Result<(), ImageError> {
    let options = DecodeOptions { color: Color::Gray, ..*options };
    let format = Format::of(bytes)?;
    if format == Format::Jpeg {
        return decode(bytes, &options, mask);
    }
    let header = raster::header(bytes, format, &options.limits)?;
    let stored = |mask: &mut Picture| {
        if format == Format::Png && png::has_palette(bytes) {
            indices(bytes, &options, mask)
        } else {
            raster::decode(bytes, format, Color::Gray, Wide::Numbers, &options.limits, mask)
        }
    };
    if !options.orientation || header.orientation == Orientation::Upright {
        return stored(mask);
    }
    let mut lying = Picture::new();
    stored(&mut lying)?;
    header.orientation.apply(&lying, mask);
    Ok(())
}

/// The palette numbers of a PNG.
fn indices(bytes: &[u8], options: &DecodeOptions, mask: &mut Picture) -> Result<(), ImageError> {
    let failed = |reason: &dyn ToString| ImageError::decode(Format::Png, reason.to_string());
    guarded(Format::Png, || {
        let limits = &options.limits;
        let mut reader = png::open(bytes, limits, ::png::Transformations::IDENTITY)?;
        let (width, height) = reader.info().size();
        let bits = reader.info().bit_depth as usize;
        limits.check(width, height, 2)?;
        let mut packed = vec![0; reader.output_buffer_size().unwrap_or(0)];
        let frame = reader.next_frame(&mut packed).map_err(|e| failed(&e))?;
        let (width, height) = (width as usize, height as usize);
        if bits > 8 || frame.line_size * height > packed.len() || width * bits > frame.line_size * 8
        {
            return Err(failed(&"rows of the wrong length"));
        }
        let out = mask.reset(width, height, 1);
        let low = ((1u16 << bits) - 1) as u8;
        for (line, out) in packed.chunks_exact(frame.line_size).zip(out.chunks_exact_mut(width)) {
            for (x, out) in out.iter_mut().enumerate() {
                // The leftmost pixel has the highest bits.
                let at = x * bits;
                *out = line[at / 8] >> (8 - bits - at % 8) & low;
            }
        }
        Ok(())
    })
}
