//! Medical volumes: NRRD, NIfTI and MetaImage files, of which only what a patch needs is read.
//!
//! * [`VolumeFile`]: one file; its [header](VolumeHeader), and any region of its voxels.
//! * [`layout`]: which files belong together, in the layouts that there are.
//! * [`VolumeSet`]: many volumes with their headers.
//! * [`Volumes`]: those as a dataset of tensors, made by a [`Program`](feedline_volume::Program).
//!
//! # What is read of a file
//!
//! Arrays are (z, y, x), the last axis being the file's fastest. Affines lead from there to millimetres in the
//! order right, anterior, superior, whichever order the format has.
//!
//! * **Uncompressed**: the rows that the region touches, by their place; never more than whole rows.
//! * **gzip and zlib**: the first time all of it, to the end of the stream, whose checksum is compared. On the way a
//!   table of restart points is made: where a block of compressed data begins, and the 32 KiB before it that it may
//!   refer to. It is kept in the [cache folder](VolumeOptions::cache), and from then on only the pieces
//!   that a region touches are inflated, each compared with its checksum.
//! * **bzip2 and text**: all of it, every time.

mod buffer;
mod bzip;
mod classes;
mod dataset;
mod error;
mod file;
mod format;
mod header;
mod header_table;
mod inflate;
mod kept;
pub mod layout;
mod raw;
mod runs;
mod set;
mod text;

use std::path::PathBuf;

pub use dataset::Volumes;
pub use error::{VolumeError, VolumeProblem};
pub use file::VolumeFile;
pub use header::{VolumeFormat, VolumeHeader};
pub use set::{VolumeCase, VolumeSet};

/// How volumes are read.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Where headers, restart points and the places of classes are kept: by default `feedline/volumes` in the user's
    /// cache folder.
    pub cache: VolumeCache,
    /// The folder that data files must be in which a header names; by default the header's own.
    pub root: Option<PathBuf>,
    /// A volume of which, or of whose result, more bytes would have to be in memory is an error of its sample.
    pub max_bytes: u64,
    /// Decompressed bytes from one restart point of a gzip file to the next, at least: the fewer, the less is inflated
    /// around a patch and the more room the points take. Counts for files whose points are not kept yet.
    pub restart_spacing: u64,
}

/// Where what is known of volumes is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeCache {
    /// In the user's cache folder.
    #[default]
    User,
    /// In this folder.
    Folder(PathBuf),
    /// Nowhere: compressed files are read from front to back every time.
    Nowhere,
}

/// The bytes of a volume that may be in memory where nothing else is said: 2 GiB.
pub const MAX_BYTES: u64 = 2 << 30;

/// How far apart restart points are where nothing else is said: 64 KiB.
///
/// A patch inflates, slice by slice, what it touches and on either side what is left of a piece, half a piece each in
/// the mean. Pieces end where blocks end, some 20 to 60 KB apart, so there are none much shorter. What a point costs is
/// its window, of which those bytes are kept that are needed. `docs/volumes.md` has the table.
pub const RESTART_SPACING: u64 = 64 << 10;

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        VolumeOptions {
            cache: VolumeCache::User,
            root: None,
            max_bytes: MAX_BYTES,
            restart_spacing: RESTART_SPACING,
        }
    }
}

impl VolumeOptions {
    /// The folder where things are kept, if any.
    #[must_use]
    pub fn cache_folder(&self) -> Option<PathBuf> {
        match &self.cache {
            VolumeCache::User => kept::default_folder(),
            VolumeCache::Folder(folder) => Some(folder.clone()),
            VolumeCache::Nowhere => None,
        }
    }
}

/// The files of one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePaths {
    /// What it is called.
    pub name: String,
    /// Its image: channels of the first file, then of the next.
    pub images: Vec<PathBuf>,
    /// Its mask.
    pub mask: Option<PathBuf>,
}
