//! Why a picture cannot be had.

use super::Format;

/// Why a picture could not be decoded, or a crop of it not be made. The caller knows the path and adds it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No bytes at all.
    #[error("the file is empty")]
    NoBytes,
    /// The first bytes are those of no known format.
    #[error(
        "not a picture in a known format (it begins with {start}); known are JPEG, PNG, WebP, BMP, GIF and TIFF"
    )]
    Unknown {
        /// The first bytes, in hexadecimal or as text.
        start: String,
    },
    /// The decoder's own reason.
    #[error("cannot decode the {format}: {reason}")]
    Decode {
        /// The format by its first bytes.
        format: Format,
        /// What the decoder found.
        reason: String,
    },
    /// More pixels than allowed.
    #[error(
        "{width}x{height} is {pixels} pixels, more than the limit of {limit}; raise the pixel limit if the file is \
         trusted"
    )]
    Pixels {
        /// Claimed width.
        width: u32,
        /// Claimed height.
        height: u32,
        /// Their product.
        pixels: u64,
        /// What is allowed.
        limit: u64,
    },
    /// More memory than allowed.
    #[error(
        "{width}x{height} takes {bytes} bytes to decode, more than the limit of {limit}; raise the byte limit if the \
         file is trusted"
    )]
    Bytes {
        /// Claimed width.
        width: u32,
        /// Claimed height.
        height: u32,
        /// What decoding takes.
        bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A picture without pixels.
    #[error("the picture is {width}x{height}: it has no pixels")]
    Empty {
        /// Claimed width.
        width: u32,
        /// Claimed height.
        height: u32,
    },
    /// A crop that is empty or reaches over the edge.
    #[error(
        "the crop of {crop_width}x{crop_height} at ({x}, {y}) does not lie in the picture of {width}x{height}"
    )]
    Crop {
        /// Left edge of the crop.
        x: u32,
        /// Top edge of the crop.
        y: u32,
        /// Width of the crop.
        crop_width: u32,
        /// Height of the crop.
        crop_height: u32,
        /// Width of the picture.
        width: u32,
        /// Height of the picture.
        height: u32,
    },
    /// A slot of the wrong length.
    #[error(
        "the output has {got} bytes and the result {expected}; pass a slot of exactly that length"
    )]
    Output {
        /// Bytes of the output.
        got: usize,
        /// Bytes of the result.
        expected: usize,
    },
    /// The resizer refused what it was given.
    #[error("cannot resize: {reason}")]
    Resize {
        /// What it said.
        reason: String,
    },
    /// Means and deviations that do not fit the picture.
    #[error("{0}")]
    Finish(#[from] crate::OpError),
}

impl ImageError {
    /// The decoder's reason, whatever type it has.
    pub(super) fn decode(format: Format, reason: impl ToString) -> Self {
        Self::Decode { format, reason: reason.to_string() }
    }
}
