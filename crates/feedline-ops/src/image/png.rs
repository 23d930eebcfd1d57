//! The checksums of a PNG file.

use super::{Format, ImageError};

/// Checks that all chunks are as they were written.
///
/// The decoder stops when it has all pixels, which is before it comes to the checksum of their last chunk, and
/// passes over broken chunks that it does not need. Pillow refuses both, and a file with one broken chunk is not
/// to be trusted with the others.
pub(super) fn check(bytes: &[u8]) -> Result<(), ImageError> {
    let error = |reason: String| ImageError::decode(Format::Png, reason);
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let [l3, l2, l1, l0, body @ ..] = rest {
        let length = u32::from_be_bytes([*l3, *l2, *l1, *l0]) as usize;
        let chunk = (length.checked_add(4))
            .and_then(|end| Some((body.get(..end)?, body.get(end..end + 4)?)));
        let Some((chunk, sum)) = chunk else {
            return Err(error("the file ends before the picture does".to_owned()));
        };
        let kind = &chunk[..4];
        if crc32fast::hash(chunk).to_be_bytes() != sum {
            let kind = String::from_utf8_lossy(kind);
            return Err(error(format!("the checksum of a chunk {kind} is wrong")));
        }
        if kind == b"IEND" {
            break;
        }
        rest = &body[length + 8..];
    }
    Ok(())
}
