//! Decoding masks: values are numbers of classes, not colours.

use feedline_ops::image::{self, Color, DecodeOptions, Options, Picture, ProgramError};

/// Decodes a mask into one channel: palette numbers as they are, gray as it is.
pub(super) fn decode(
    bytes: &[u8],
    options: &Options,
    mask: &mut Picture,
) -> Result<(), ProgramError> {
    let &Options { limits, orientation, .. } = options;
    if !image::decode_indices(bytes, &limits, mask)? {
        let options = DecodeOptions { color: Color::Gray, limits, orientation };
        image::decode(bytes, &options, mask)?;
    }
    Ok(())
}
