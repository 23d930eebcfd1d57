//! PNG files, by the `png` crate.
//!
//! What a file says besides its pixels stays compressed: a profile (iCCP) or a text of a few kilobytes can unfold to
//! gigabytes, and nothing here needs either.

use std::io::Cursor;

use ::png::{Decoder, Reader, Transformations};

use super::{Format, ImageError, ImageHeader, Limits, Orientation};

const ENDS: &str = "the file ends before the picture does";

fn error(reason: impl ToString) -> ImageError {
    ImageError::decode(Format::Png, reason)
}

/// One chunk as it lies in the file.
struct Chunk<'a> {
    kind: &'a [u8],
    data: &'a [u8],
    /// Kind and data, of which the checksum is.
    summed: &'a [u8],
    sum: [u8; 4],
}

/// The chunks of a file, up to the last or to where the file was cut.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = Result<Chunk<'_>, ImageError>> {
    let mut rest = bytes.get(8..).unwrap_or_default();
    let mut over = false;
    std::iter::from_fn(move || {
        if over {
            return None;
        }
        let chunk = || {
            let (length, body) = rest.split_first_chunk()?;
            let end = (u32::from_be_bytes(*length) as usize).checked_add(4)?;
            let (summed, behind) = body.split_at_checked(end)?;
            let (sum, behind) = behind.split_first_chunk()?;
            let (kind, data) = summed.split_at_checked(4)?;
            Some((Chunk { kind, data, summed, sum: *sum }, behind))
        };
        Some(match chunk() {
            Some((chunk, behind)) => {
                rest = behind;
                over = chunk.kind == b"IEND";
                Ok(chunk)
            }
            None => {
                over = true;
                Err(error(ENDS))
            }
        })
    })
}

/// Size and orientation, without starting a decoder.
pub(super) fn header(bytes: &[u8]) -> Result<ImageHeader, ImageError> {
    let mut chunks = chunks(bytes);
    let first = chunks.next().unwrap_or_else(|| Err(error(ENDS)))?;
    let (b"IHDR", [w3, w2, w1, w0, h3, h2, h1, h0, ..]) = (first.kind, first.data) else {
        return Err(error("it does not begin with its size"));
    };
    let width = u32::from_be_bytes([*w3, *w2, *w1, *w0]);
    let height = u32::from_be_bytes([*h3, *h2, *h1, *h0]);
    // A file that is cut behind this is refused when it is decoded.
    let orientation = (chunks.map_while(Result::ok))
        .find(|chunk| chunk.kind == b"eXIf")
        .map_or(Orientation::Upright, |chunk| Orientation::of_exif(chunk.data));
    Ok(ImageHeader { format: Format::Png, width, height, orientation })
}

/// Checks that all chunks are there and as they were written.
///
/// The decoder stops when it has all pixels, which is before it comes to the checksum of their last chunk, and
/// passes over broken chunks that it does not need. Pillow refuses both, and a file with one broken chunk is not
/// to be trusted with the others.
fn check(bytes: &[u8]) -> Result<(), ImageError> {
    for chunk in chunks(bytes) {
        let Chunk { kind, summed, sum, .. } = chunk?;
        if crc32fast::hash(summed).to_be_bytes() != sum {
            let kind = String::from_utf8_lossy(kind);
            return Err(error(format!("the checksum of a chunk {kind} is wrong")));
        }
    }
    Ok(())
}

/// Checks the file and starts a decoder at its pixels.
pub(super) fn open<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    transformations: Transformations,
) -> Result<Reader<Cursor<&'a [u8]>>, ImageError> {
    check(bytes)?;
    let memory = ::png::Limits { bytes: usize::try_from(limits.bytes).unwrap_or(usize::MAX) };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), memory);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(transformations);
    decoder.read_info().map_err(error)
}

/// The color type of a file, by its header: whether pixels are numbers of a palette.
pub(super) fn has_palette(bytes: &[u8]) -> bool {
    // Signature, length and kind of the first chunk, width, height, bits; then the color type.
    bytes.get(25) == Some(&3)
}
