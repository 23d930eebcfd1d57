//! Palette numbers rather than colours: what segmentation masks are made of.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Format, ImageError, Limits, Picture};

/// Decodes a PNG with a palette into its palette numbers, one channel. Returns whether it is one; others
/// are for [`decode`](super::decode).
pub fn decode_indices(
    bytes: &[u8],
    limits: &Limits,
    picture: &mut Picture,
) -> Result<bool, ImageError> {
    if Format::of(bytes)? != Format::Png {
        return Ok(false);
    }
    let failed = |reason: &dyn ToString| ImageError::decode(Format::Png, reason.to_string());
    let read = || {
        let memory = usize::try_from(limits.bytes).unwrap_or(usize::MAX);
        let mut decoder =
            png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: memory });
        decoder.set_transformations(png::Transformations::IDENTITY);
        let header = decoder.read_header_info().map_err(|e| failed(&e))?;
        if header.color_type != png::ColorType::Indexed {
            return Ok(false);
        }
        let (width, height) = (header.width, header.height);
        let bits = header.bit_depth as usize;
        limits.check(width, height, 2)?;
        super::png::check(bytes)?;
        let mut reader = decoder.read_info().map_err(|e| failed(&e))?;
        let mut packed = vec![0; reader.output_buffer_size().unwrap_or(0)];
        let frame = reader.next_frame(&mut packed).map_err(|e| failed(&e))?;
        let (width, height) = (width as usize, height as usize);
        if frame.line_size * height > packed.len() || width * bits > frame.line_size * 8 {
            return Err(failed(&"rows of the wrong length"));
        }
        let out = picture.reset(width, height, 1);
        let mask = ((1u16 << bits) - 1) as u8;
        for (line, out) in packed.chunks_exact(frame.line_size).zip(out.chunks_exact_mut(width)) {
            for (x, out) in out.iter_mut().enumerate() {
                // The leftmost pixel has the highest bits.
                let at = x * bits;
                *out = line[at / 8] >> (8 - bits - at % 8) & mask;
            }
        }
        Ok(true)
    };
    // The crate has no state that outlives the call; a panic in it is that file's error.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(failed(&"the decoder gave up on a damaged file")))
}
