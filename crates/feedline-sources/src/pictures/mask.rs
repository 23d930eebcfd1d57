//! Decoding masks: values are numbers of classes, not colours.

use feedline_ops::image::{self, DecodeOptions, Picture, ProgramError, ProgramOptions};

/// Decodes a mask into one channel: palette numbers as they are, gray as it is.
pub(super) fn decode(
    bytes: &[u8],
    options: &ProgramOptions,
    mask: &mut Picture,
) -> Result<(), ProgramError> {
    let &ProgramOptions { limits, orientation, color, .. } = options;
    Ok(image::decode_mask(bytes, &DecodeOptions { color, limits, orientation }, mask)?)
}
