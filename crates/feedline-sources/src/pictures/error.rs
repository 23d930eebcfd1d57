//! Why pictures cannot be had as asked.

use feedline_core::Cause;
use feedline_ops::image::ProgramError;

/// Pictures that cannot be had as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PicturesError {
    /// No such part.
    #[error("samples have no part `{part}`; they have {parts}")]
    NoPart {
        /// What was asked for.
        part: String,
        /// What there is.
        parts: String,
    },
    /// Views, but none.
    #[error("views needs at least one view")]
    NoView,
    /// Views of pictures decoded in different ways.
    #[error("all views of a picture must be decoded in the same way: pass equal options")]
    ViewOptions,
    /// Operations that cannot be done to what lies on the image.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A source that promised labels and has none for a sample.
    #[error("the source has no label for it")]
    NoLabel,
    /// As many masks or shapes as there are not pictures.
    #[error("{what} has {got} entries for {pictures} pictures; pass one for each")]
    Count {
        /// Masks, boxes or keypoints.
        what: &'static str,
        /// How many there are.
        got: u64,
        /// How many pictures there are.
        pictures: u64,
    },
    /// A mask of another picture.
    #[error(
        "sample {index} is {picture}, but its mask would be {mask}; name masks as their pictures, up to \
         the ending"
    )]
    MaskName {
        /// The sample.
        index: u64,
        /// The picture's place.
        picture: String,
        /// The mask's place.
        mask: String,
    },
    /// A mask that cannot be decoded.
    #[error("its mask: {error}")]
    Mask {
        /// Why.
        error: ProgramError,
    },
    /// A mask that cannot be read.
    #[error("its mask: {error}")]
    MaskFile {
        /// Why.
        error: Cause,
    },
    /// A field that is a mask of no image.
    #[error(
        "field `{name}` is no mask: it must be uint8 of shape (height, width), as large as the image"
    )]
    MaskField {
        /// The field.
        name: String,
    },
    /// A field that was asked for twice.
    #[error("field `{name}` is the {role} already; name another field")]
    Role {
        /// The field.
        name: String,
        /// What it is.
        role: &'static str,
    },
    /// Shapes that are no rows of so many numbers.
    #[error(
        "{what} must be an array of shape (n, {columns}) of float32, float64 or int64, got {got}"
    )]
    Shapes {
        /// Boxes or keypoints.
        what: &'static str,
        /// Numbers of one.
        columns: usize,
        /// What it is instead.
        got: String,
    },
    /// Another number of rows than promised.
    #[error(
        "{what} has {got} rows, but {expected} in the first sample; pass a list to let them differ"
    )]
    RowCount {
        /// Boxes or keypoints.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many there should be.
        expected: usize,
    },
}
