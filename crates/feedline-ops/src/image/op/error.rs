//! Why an operation cannot be made, or cannot be done to a picture.

use crate::image::action::Size;

/// An operation that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// An argument that makes no sense.
    #[error("{operation}: {argument} must be {wanted}, got {got}")]
    Argument {
        /// The operation.
        operation: &'static str,
        /// Its argument.
        argument: &'static str,
        /// What was given.
        got: String,
        /// What to give.
        wanted: String,
    },
    /// A crop larger than the picture.
    #[error(
        "{call} does not fit into a picture of {size} (height x width); {advice}call resize(...) before it"
    )]
    TooSmall {
        /// The operation.
        call: String,
        /// The picture's size, with padding.
        size: Size,
        /// What else can be done.
        advice: &'static str,
    },
    /// A picture larger than an operation can be done to.
    #[error(
        "{call} takes too much memory for a picture of {size} (height x width); call a crop or resize(...) before it"
    )]
    TooLarge {
        /// The operation.
        call: String,
        /// The picture's size.
        size: Size,
    },
    /// Channels that depend on chance.
    #[error(
        "{call}: images would have {before} or {after} channels, by chance; use operations that keep their number, \
         such as random_grayscale"
    )]
    Channels {
        /// The operation.
        call: String,
        /// Channels without it.
        before: usize,
        /// Channels with it.
        after: usize,
    },
}

impl OperationError {
    pub(crate) fn argument(
        operation: &'static str,
        argument: &'static str,
        got: impl ToString,
        wanted: impl ToString,
    ) -> OperationError {
        let (got, wanted) = (got.to_string(), wanted.to_string());
        OperationError::Argument { operation, argument, got, wanted }
    }
}
