//! How large a picture may be.

use super::ImageError;

/// What one picture may cost. Checked against what its header claims, before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most pixels. The default is the number above which Pillow refuses.
    pub pixels: u64,
    /// Most bytes of memory that decoding may take: the decoded picture and what the decoder needs beside it.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pixels: 178_956_970, bytes: 2 << 30 }
    }
}

impl Limits {
    /// Refuses a picture of this size whose pixels take `depth` bytes each.
    pub(super) fn check(&self, width: u32, height: u32, depth: u64) -> Result<(), ImageError> {
        let pixels = u64::from(width) * u64::from(height);
        if pixels == 0 {
            return Err(ImageError::Empty { width, height });
        }
        if pixels > self.pixels {
            return Err(ImageError::Pixels { width, height, pixels, limit: self.pixels });
        }
        let bytes = pixels.saturating_mul(depth);
        if bytes > self.bytes {
            return Err(ImageError::Bytes { width, height, bytes, limit: self.bytes });
        }
        Ok(())
    }
}
