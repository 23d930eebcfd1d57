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
        "{call} does not fit into a picture of {size} (height x width); pass pad_if_needed=True, or \
         call resize(...) before it"
    )]
    TooSmall {
        /// The operation.
        call: String,
        /// The picture's size, with padding.
        size: Size,
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
