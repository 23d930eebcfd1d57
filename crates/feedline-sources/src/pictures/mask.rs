//! Decoding masks: values are numbers of classes, not colours.

use feedline_ops::image::{self, DecodeOptions, Options, Picture, ProgramError};

/// Decodes a mask into one channel: palette numbers as they are, gray as it is.
pub(super) fn decode(
    bytes: &[u8],
    options: &Options,
    mask: &mut Picture,
) -> Result<(), ProgramError> {
    let &Options { limits, orientation, color, .. } = options;
    Ok(image::decode_mask(bytes, &DecodeOptions { color, limits, orientation }, mask)?)
}
