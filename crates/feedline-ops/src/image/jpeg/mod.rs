//! JPEG files, by libjpeg-turbo's decoder.

mod entropy;
mod markers;
mod session;
mod sys;
#[cfg(test)]
mod test;

pub(super) use entropy::Entropy;
pub(super) use markers::header;
pub(super) use session::{Columns, JpegSession};

/// Whether the decoder uses this machine's vector instructions. The build fails without them; this asks the
/// library itself, at run time.
pub fn simd() -> bool {
    // SAFETY: takes and changes nothing but libjpeg's own record of the processor's features.
    unsafe { sys::feedline_jpeg_simd() != 0 }
}
