//! Why an operation cannot be made, or cannot be done to a volume.

use crate::{Label, NoLabel, Region, Shape};

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
    /// A crop larger than the volume.
    #[error("{call} does not fit into a volume of {shape:?}; call pad({size:?}) before it")]
    TooSmall {
        /// The operation.
        call: String,
        /// The volume's shape.
        shape: Shape,
        /// What the crop needs.
        size: Shape,
    },
    /// A result larger than a volume may be.
    #[error("{call} makes {shape:?} voxels of {before:?}, more than {limit}; make fewer")]
    TooLarge {
        /// The operation.
        call: String,
        /// The shape before it.
        before: Shape,
        /// The shape after it.
        shape: Shape,
        /// The most voxels.
        limit: usize,
    },
    /// A crop by classes of a volume without a mask.
    #[error(
        "{call} needs a mask to know where the classes are; pass mask=... or leave foreground out"
    )]
    NoMask {
        /// The operation.
        call: String,
    },
    /// A second operation of which there may be one.
    #[error("{call} comes after {before}; call one of them, once")]
    Twice {
        /// What was called.
        call: String,
        /// What had been called.
        before: String,
    },
    /// An operation on volumes after they became slices.
    #[error("{call} works on volumes, and after {after} there are slices; call it before {after}")]
    TooLate {
        /// What was called.
        call: String,
        /// What must come after it.
        after: &'static str,
    },
    /// Nothing in a volume that a crop could be of.
    #[error("{call} finds {what} in the volume; {advice}")]
    Nothing {
        /// The operation.
        call: String,
        /// What is missing.
        what: String,
        /// What to do.
        advice: &'static str,
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

/// A volume that a program cannot be run on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Another part of the volume than is needed.
    #[error("the region {got:?} was read, and {wanted:?} is needed")]
    Region {
        /// What was read.
        got: Region,
        /// What is needed.
        wanted: Region,
    },
    /// As many voxels as a region does not have.
    #[error("{what} has {got} voxels, and the region {region:?} has {wanted}")]
    Lengths {
        /// A channel, or the mask.
        what: String,
        /// How many it has.
        got: usize,
        /// How many it should have.
        wanted: usize,
        /// The region.
        region: Region,
    },
    /// As many channels as were not expected.
    #[error("the image has {got} channels, and {wanted} were drawn for")]
    Channels {
        /// How many were read.
        got: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// Room for something else than the result.
    #[error("room for {got} bytes of {what}, which takes {wanted}")]
    Room {
        /// The image or the mask.
        what: &'static str,
        /// Bytes there are.
        got: usize,
        /// Bytes it takes.
        wanted: usize,
    },
    /// More memory than voxels may take.
    #[error(
        "{bytes} bytes would have to be in memory for a part of {shape:?} voxels, more than {most}; check the file's \
         spacing, crop before, or raise max_bytes"
    )]
    TooLarge {
        /// Bytes that are needed.
        bytes: usize,
        /// Of which part.
        shape: Shape,
        /// The most.
        most: usize,
    },
    /// Memory that the system does not give.
    #[error("there is no memory for {bytes} bytes of voxels; crop before, or use fewer workers")]
    NoMemory {
        /// Bytes that are needed.
        bytes: usize,
    },
    /// A label that the mask's type does not hold.
    #[error(
        "the mask has the label {label}, which uint8 does not hold; call to_dtype(mask=\"int16\")"
    )]
    MaskType {
        /// The label.
        label: Label,
    },
    /// A number that is no label.
    #[error(transparent)]
    Label(#[from] NoLabel),
    /// An operation that cannot be done to this volume.
    #[error(transparent)]
    Operation(#[from] OperationError),
}
