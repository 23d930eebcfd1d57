//! What a file says about its picture before the pixels.

use super::{Format, ImageError, Limits, Orientation, jpeg, raster};

/// What a file says about its picture before the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageHeader {
    /// The format, by the first bytes.
    pub format: Format,
    /// Pixels per row, as stored.
    pub width: u32,
    /// Rows, as stored.
    pub height: u32,
    /// Which way up it is.
    pub orientation: Orientation,
}

impl ImageHeader {
    /// Width and height as seen: those stored, or changed if `oriented` and the picture lies on its side.
    pub fn size(&self, oriented: bool) -> (u32, u32) {
        if oriented && self.orientation.swaps_sides() {
            (self.height, self.width)
        } else {
            (self.width, self.height)
        }
    }
}

/// Reads the header of a picture in any known [`Format`].
///
/// ```
/// use feedline_ops::image::{Format, header};
///
/// let bitmap = b"BM\x1e\0\0\0\0\0\0\0\x1a\0\0\0\x0c\0\0\0\x01\0\x01\0\x01\0\x18\0\xff\0\0\0";
/// let header = header(bitmap)?;
/// assert_eq!((header.format, header.width, header.height), (Format::Bmp, 1, 1));
/// # Ok::<(), feedline_ops::image::ImageError>(())
/// ```
pub fn header(bytes: &[u8]) -> Result<ImageHeader, ImageError> {
    header_within(bytes, &Limits::default())
}

/// The same under limits: some formats tell their size behind what may claim to be large.
pub(super) fn header_within(bytes: &[u8], limits: &Limits) -> Result<ImageHeader, ImageError> {
    match Format::of(bytes)? {
        Format::Jpeg => jpeg::header(bytes),
        format => raster::header(bytes, format, limits),
    }
}
