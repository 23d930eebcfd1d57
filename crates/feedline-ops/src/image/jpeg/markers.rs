//! What the segments before the first scan say: size and orientation.

use crate::image::{Format, ImageError, ImageHeader, Orientation};

/// Size and orientation of a JPEG file, without starting a decoder.
pub(in crate::image) fn header(bytes: &[u8]) -> Result<ImageHeader, ImageError> {
    let error = |reason: &str| ImageError::decode(Format::Jpeg, reason);
    let ends = || error("the file ends before the picture does");
    let mut orientation = Orientation::Upright;
    let mut at = 2;
    loop {
        // Any stray bytes up to the next marker are passed over, as decoders do.
        let from = bytes.get(at..).ok_or_else(ends)?;
        at += memchr::memchr(0xff, from).ok_or_else(ends)?;
        while bytes.get(at) == Some(&0xff) {
            at += 1;
        }
        let marker = *bytes.get(at).ok_or_else(ends)?;
        at += 1;
        match marker {
            // Stuffing and markers without a segment.
            0x00 | 0x01 | 0xd0..=0xd8 => continue,
            0xd9 => return Err(error("it has no picture")),
            0xda => return Err(error("a scan comes before the picture's size")),
            _ => {}
        }
        let length = match bytes.get(at..at + 2) {
            Some(&[high, low]) => usize::from(u16::from_be_bytes([high, low])),
            _ => return Err(ends()),
        };
        if length < 2 {
            return Err(error("a segment has an impossible length"));
        }
        let segment = &bytes[at + 2..bytes.len().min(at + length).max(at + 2)];
        match marker {
            // All frame types; 0xc4, 0xc8 and 0xcc in between are tables.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let &[_, h1, h0, w1, w0, ..] = segment else { return Err(ends()) };
                let height = u32::from(u16::from_be_bytes([h1, h0]));
                let width = u32::from(u16::from_be_bytes([w1, w0]));
                return Ok(ImageHeader { format: Format::Jpeg, width, height, orientation });
            }
            0xe1 => {
                if let Some(block) = segment.strip_prefix(b"Exif\0\0") {
                    orientation = Orientation::of_exif(block);
                }
            }
            _ => {}
        }
        at += length;
    }
}
