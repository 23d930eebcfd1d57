//! A whole picture from its bytes.

use super::{Color, Format, ImageError, Limits, Orientation, Picture, jpeg, raster};

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
    let format = Format::of(bytes)?;
    let orientation =
        if options.orientation { super::header(bytes)?.orientation } else { Orientation::Upright };
    if orientation == Orientation::Upright {
        return stored(bytes, format, options, picture);
    }
    let mut lying = Picture::new();
    stored(bytes, format, options, &mut lying)?;
    orientation.apply(&lying, picture);
    Ok(())
}

/// The picture as stored.
fn stored(
    bytes: &[u8],
    format: Format,
    options: &DecodeOptions,
    picture: &mut Picture,
) -> Result<(), ImageError> {
    if format != Format::Jpeg {
        return raster::decode(
            bytes,
            format,
            options.color,
            &options.limits,
            &mut Vec::new(),
            picture,
        );
    }
    let mut session = jpeg::Session::open(bytes, &options.limits, None)?;
    session.start(options.color, 8, None)?;
    let (width, height) = session.scaled_size();
    session.read(height, picture.reset(width, height, options.color.channels()))
}
