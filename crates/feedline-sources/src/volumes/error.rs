//! What can be wrong with a volume.

use std::io;
use std::path::Path;

use feedline_volume::{GeometryError, NoLabel, Region, Shape};

use crate::escaped;

/// A volume that cannot be read, with the file that is the reason.
#[derive(Debug, thiserror::Error)]
#[error("`{path}`: {problem}")]
pub struct VolumeError {
    /// The file, escaped where it is no text.
    pub path: String,
    /// What is wrong with it.
    #[source]
    pub problem: Box<VolumeProblem>,
}

/// What is wrong with a volume's file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeProblem {
    /// The system refused.
    #[error("cannot {doing} it: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// No format that is known.
    #[error(
        "it begins as no NRRD, NIfTI or MetaImage file does; give .nrrd, .nhdr, .nii, .nii.gz, .hdr with .img, .mha or .mhd"
    )]
    UnknownFormat,
    /// A header that does not end.
    #[error("its header has more than {limit} bytes; check that it is a volume's")]
    LongHeader {
        /// The most that is read.
        limit: usize,
    },
    /// A field of the header that is missing or makes no sense.
    #[error("its header {what}; write it again with the program it came from")]
    Header {
        /// What is wrong with it.
        what: String,
    },
    /// Something that is not read.
    #[error("{what} cannot be read; {advice}")]
    Unsupported {
        /// What it is.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// Voxels that have no place.
    #[error("{0}; correct its header")]
    Geometry(#[from] GeometryError),
    /// Fewer bytes than the header asks for.
    #[error(
        "it holds {actual} bytes of voxels and its header asks for {expected}: it was cut off, or the header is \
         another file's; write or copy it again"
    )]
    Short {
        /// Bytes that the header asks for.
        expected: u64,
        /// Bytes there are.
        actual: u64,
    },
    /// More than may be read.
    #[error(
        "{bytes} bytes of it would have to be in memory, more than the {most} that a volume may have; raise max_bytes \
         if it is what it should be"
    )]
    TooLarge {
        /// Bytes that are needed.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// Data elsewhere than the header may send a reader.
    #[error(
        "its data file `{data}` is outside of `{root}`, where its header may not send a reader; move it there"
    )]
    Outside {
        /// The data file.
        data: String,
        /// Where it may be.
        root: String,
    },
    /// Compressed data, or text, that is damaged.
    #[error("its data is damaged: {what}; write or copy it again")]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
    /// Not the file that was opened.
    #[error(
        "it has changed since it was opened: {what}; open it again (to replace a file that is in use, rename another \
         over it)"
    )]
    Changed {
        /// What is different.
        what: String,
    },
    /// A channel that there is not.
    #[error("there is no channel {channel}; it has {channels}")]
    NoChannel {
        /// What was asked for.
        channel: usize,
        /// What there is.
        channels: usize,
    },
    /// Voxels that there are not.
    #[error("the region {region:?} is not within its {shape:?} voxels")]
    NoRegion {
        /// What was asked for.
        region: Region,
        /// What there is.
        shape: Shape,
    },
    /// A part of a sample whose shape is not that of its first file.
    #[error(
        "it has {shape:?} voxels and `{reference}` has {expected:?}; files of one sample must have the same shape: \
         resample one of them, or check that they belong together"
    )]
    OtherShape {
        /// Its shape.
        shape: Shape,
        /// The first file of the sample.
        reference: String,
        /// The shape of that one.
        expected: Shape,
    },
    /// A part of a sample whose voxels are elsewhere than those of its first file.
    #[error(
        "its voxels are up to {distance:.3} mm from those of `{reference}`; files of one sample must lie on the same \
         grid: resample one of them, or check that they belong together"
    )]
    OtherPlace {
        /// How far.
        distance: f64,
        /// The first file of the sample.
        reference: String,
    },
    /// As many channels as the first sample does not have.
    #[error(
        "the sample has {channels} channels and the first one has {expected}; all must have the same number"
    )]
    OtherChannels {
        /// How many it has.
        channels: usize,
        /// How many the first has.
        expected: usize,
    },
    /// A mask of several channels.
    #[error(
        "it has {channels} channels, and a mask has one; pass one of its channels as a file of its own"
    )]
    MaskChannels {
        /// How many it has.
        channels: usize,
    },
    /// A mask whose numbers are scaled.
    #[error(
        "its labels are scaled by {slope} and {intercept}, so they are no labels; write it without scaling"
    )]
    MaskScaled {
        /// What numbers are multiplied by.
        slope: f64,
        /// What is added.
        intercept: f64,
    },
    /// A number that is no label.
    #[error(transparent)]
    Label(#[from] NoLabel),
}

impl VolumeError {
    pub(super) fn new(path: &Path, problem: impl Into<VolumeProblem>) -> VolumeError {
        let path = shown(path);
        VolumeError { path, problem: Box::new(problem.into()) }
    }
}

impl VolumeProblem {
    pub(super) fn header(what: impl Into<String>) -> VolumeProblem {
        VolumeProblem::Header { what: what.into() }
    }

    pub(super) fn damaged(what: impl Into<String>) -> VolumeProblem {
        VolumeProblem::Damaged { what: what.into() }
    }

    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> VolumeProblem {
        move |source| VolumeProblem::Io { doing, source }
    }
}

/// A path for a message.
pub(super) fn shown(path: &Path) -> String {
    escaped(path.as_os_str().as_encoded_bytes()).to_string()
}
