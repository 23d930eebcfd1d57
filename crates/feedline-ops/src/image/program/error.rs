//! Why a chain cannot be compiled, or not be done to a picture.

use crate::OpError;
use crate::image::ImageError;
use crate::image::op::OperationError;

/// A chain that cannot be, or a picture it cannot be done to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// An operation on pixels after they became something else.
    #[error(
        "{call} works on pixels, and after {after} there are none any more; call it before {after}"
    )]
    TooLate {
        /// What was called.
        call: String,
        /// What must come after it.
        after: String,
    },
    /// A step that was there already.
    #[error("{call} was called twice; call it once")]
    Twice {
        /// The step.
        call: &'static str,
    },
    /// Normalised numbers as bytes.
    #[error(
        "to_dtype(\"uint8\") cannot hold what normalize makes; leave out one of them, or pass \"float16\""
    )]
    NormalizedBytes,
    /// Noise that bytes cannot hold.
    #[error(
        "random_erasing(value=\"random\") paints numbers around 0, which bytes cannot hold; call \
         normalize(...) or to_dtype(\"float32\") before it"
    )]
    NoiseOnBytes,
    /// Means that do not fit the channels.
    #[error(
        "normalize has {means} means and {deviations} deviations for {channels} channels; pass {channels} of \
         each, such as mean={example_mean}, std={example_std}"
    )]
    Channels {
        /// How many means.
        means: usize,
        /// How many deviations.
        deviations: usize,
        /// How many channels there are.
        channels: usize,
        /// An example.
        example_mean: &'static str,
        /// An example.
        example_std: &'static str,
    },
    /// An operation that cannot be done.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Numbers that cannot be normalised with.
    #[error("normalize: {0}")]
    Normalize(#[from] OpError),
    /// A picture that cannot be decoded.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// More pixels than a picture may have.
    #[error(
        "{call} makes {size} pixels (height x width), and an image may have {limit}; make a smaller size, or \
         raise max_pixels"
    )]
    TooLarge {
        /// The operation.
        call: String,
        /// What it makes.
        size: crate::image::Size,
        /// What is allowed.
        limit: u64,
    },
    /// Masks, boxes or keypoints of an image that is blended of several.
    #[error(
        "{call} blends copies of the image that are moved apart, so masks, boxes and keypoints cannot move with it; \
         leave out one or the other"
    )]
    Blends {
        /// The operation.
        call: String,
    },
    /// A mask of another size than its picture.
    #[error("the mask is {mask} and the picture {picture} (height x width); they must be equal")]
    MaskSize {
        /// The mask's size.
        mask: crate::image::Size,
        /// The picture's.
        picture: crate::image::Size,
    },
}
