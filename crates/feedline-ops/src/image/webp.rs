//! What a WebP file says about its own length.
//!
//! The decoder takes a chunk that ends early for one that is over, and goes on with zeros: a file without its last
//! bytes would be a picture with wrong pixels. So all lengths are checked beforehand, as libwebp does, and the
//! sizes that a file tells in more than one place, before memory is taken for them.

use super::{Format, ImageError, ImageHeader, Orientation};

fn error(reason: impl ToString) -> ImageError {
    ImageError::decode(Format::WebP, reason)
}

fn ends() -> ImageError {
    error("the file ends before the picture does")
}

/// A part of a RIFF file: what it is, and its data.
type Chunk<'a> = ([u8; 4], &'a [u8]);

/// The chunks that lie one after the other in `rest`. One that reaches over its end is an error.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = Result<Chunk<'_>, ImageError>> {
    std::iter::from_fn(move || {
        // Up to seven bytes are no chunk; writers leave such.
        let (kind, behind) = rest.split_first_chunk()?;
        let (length, behind) = behind.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let Some(data) = behind.get(..length) else {
            rest = &[];
            return Some(Err(ends()));
        };
        // Chunks begin at even places.
        rest = behind.get(length.next_multiple_of(2)..).unwrap_or_default();
        Some(Ok((*kind, data)))
    })
}

/// Three bytes, the least first.
fn number(bytes: &[u8], at: usize) -> Result<u32, ImageError> {
    match bytes.get(at..at + 3) {
        Some(&[low, middle, high]) => Ok(u32::from_le_bytes([low, middle, high, 0])),
        _ => Err(ends()),
    }
}

/// Width and height of a picture by its own data.
fn size((kind, data): Chunk<'_>) -> Result<(u32, u32), ImageError> {
    if &kind == b"VP8 " {
        let &[_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] = data else {
            return Err(error("its picture does not begin as pictures do"));
        };
        let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
        Ok((side(w0, w1), side(h0, h1)))
    } else {
        let &[0x2f, b0, b1, b2, b3, ..] = data else {
            return Err(error("its picture does not begin as pictures do"));
        };
        let both = u32::from_le_bytes([b0, b1, b2, b3]);
        Ok(((both & 0x3fff) + 1, (both >> 14 & 0x3fff) + 1))
    }
}

fn is_picture((kind, _): &Chunk<'_>) -> bool {
    matches!(kind, b"VP8 " | b"VP8L")
}

/// Checks that a picture is as large as the frame around it says, on which memory is reckoned.
fn check(picture: Chunk<'_>, frame: (u32, u32)) -> Result<(), ImageError> {
    let (width, height) = size(picture)?;
    if (width, height) != frame {
        let (w, h) = frame;
        return Err(error(format!("its picture is {width}x{height}, its frame {w}x{h}")));
    }
    Ok(())
}

/// The file as long as it says it is. What comes behind is not part of it.
pub(super) fn trimmed(bytes: &[u8]) -> Result<&[u8], ImageError> {
    let claimed = bytes.get(4..8).and_then(|b| b.first_chunk()).ok_or_else(ends)?;
    let end = (u32::from_le_bytes(*claimed) as usize).checked_add(8).ok_or_else(ends)?;
    bytes.get(..end).ok_or_else(ends)
}

/// Size and orientation of a file whose every chunk is there.
pub(super) fn header(bytes: &[u8]) -> Result<ImageHeader, ImageError> {
    let upright = |(width, height)| ImageHeader {
        format: Format::WebP,
        width,
        height,
        orientation: Orientation::Upright,
    };
    let body = trimmed(bytes)?.get(12..).ok_or_else(ends)?;
    let first = chunks(body).next().unwrap_or_else(|| Err(ends()))?;
    if is_picture(&first) {
        return Ok(upright(size(first)?));
    }
    let (kind, info) = first;
    if &kind != b"VP8X" {
        return Err(error("it does not begin with its picture"));
    }
    let canvas = (number(info, 4)? + 1, number(info, 7)? + 1);
    let mut header = upright(canvas);
    let mut pictures = 0;
    for chunk in chunks(body) {
        let (kind, data) = chunk?;
        match &kind {
            b"EXIF" => {
                // Cameras' habit from JPEG, which the format does not have.
                let block = data.strip_prefix(b"Exif\0\0").unwrap_or(data);
                header.orientation = Orientation::of_exif(block);
            }
            b"ANMF" => {
                let (x, y) = (2 * number(data, 0)?, 2 * number(data, 3)?);
                let frame = (number(data, 6)? + 1, number(data, 9)? + 1);
                if x + frame.0 > canvas.0 || y + frame.1 > canvas.1 {
                    return Err(error("a frame reaches over the picture's edge"));
                }
                for part in chunks(data.get(16..).ok_or_else(ends)?) {
                    let part = part?;
                    if is_picture(&part) {
                        check(part, frame)?;
                        pictures += 1;
                    }
                }
            }
            _ if is_picture(&(kind, data)) => {
                check((kind, data), canvas)?;
                pictures += 1;
            }
            _ => {}
        }
    }
    if pictures == 0 {
        return Err(error("it has no picture"));
    }
    Ok(header)
}
