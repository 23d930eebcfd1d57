//! A whole picture from its bytes.

use super::header::header_within;
use super::jpeg::{Entropy, JpegSession};
use super::raster::{self, Wide};
use super::{Color, Format, ImageError, ImageHeader, Limits, Orientation, Picture};

/// How to decode a whole picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Channels of the result.
    pub color: Color,
    /// What it may cost.
    pub limits: Limits,
    /// Whether to turn the picture upright by its EXIF orientation. Off by default, as in torchvision.
    pub orientation: bool,
}

/// Decodes a picture of any known [`Format`]; of several in one file the first.
///
/// A file that ends early or whose data is damaged is an error, never a half-grey picture. Panics of decoders
/// are errors as well.
///
/// ```
/// use feedline_ops::image::{DecodeOptions, Picture, decode};
///
/// let bitmap = b"BM\x1e\0\0\0\0\0\0\0\x1a\0\0\0\x0c\0\0\0\x01\0\x01\0\x01\0\x18\0\xff\x80\0\0";
/// let mut picture = Picture::new();
/// decode(bitmap, &DecodeOptions::default(), &mut picture)?;
/// assert_eq!(picture.pixels(), [0, 128, 255]);
/// # Ok::<(), feedline_ops::image::ImageError>(())
/// ```
pub fn decode(
    bytes: &[u8],
    options: &DecodeOptions,
    picture: &mut Picture,
) -> Result<(), ImageError> {
    decode_with(bytes, options, &mut Entropy::default(), picture)
}

/// The same with an entropy decoder that knows the tables of files before.
pub(super) fn decode_with(
    bytes: &[u8],
    options: &DecodeOptions,
    entropy: &mut Entropy,
    picture: &mut Picture,
) -> Result<(), ImageError> {
    let header = header_within(bytes, &options.limits)?;
    if !options.orientation || header.orientation == Orientation::Upright {
        return stored(bytes, header, options, entropy, picture);
    }
    let mut lying = Picture::new();
    stored(bytes, header, options, entropy, &mut lying)?;
    header.orientation.apply(&lying, picture);
    Ok(())
}

/// The picture as stored.
fn stored(
    bytes: &[u8],
    header: ImageHeader,
    options: &DecodeOptions,
    entropy: &mut Entropy,
    picture: &mut Picture,
) -> Result<(), ImageError> {
    let &DecodeOptions { color, ref limits, .. } = options;
    if header.format != Format::Jpeg {
        return raster::decode(bytes, header.format, color, Wide::Shades, limits, picture);
    }
    let mut session = JpegSession::open(bytes, &header, limits, entropy)?;
    session.start(color, 8, None)?;
    let (width, height) = session.scaled_size();
    session.read(height, picture.reset(width, height, color.channels()))
}
