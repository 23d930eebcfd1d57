//! What a file says of its volume, whichever format it has.

use std::path::PathBuf;

use feedline_volume::{Geometry, Map, Shape, VoxelType};

use super::error::VolumeProblem;
use crate::stamp::Stamp;

/// A volume's header: what is known without its voxels.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeHeader {
    pub(super) geometry: Geometry,
    pub(super) voxel_type: VoxelType,
    pub(super) channels: usize,
    pub(super) slope: f64,
    pub(super) intercept: f64,
    pub(super) format: VolumeFormat,
    pub(super) place: DataPlace,
}

/// A file format.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VolumeFormat {
    /// NRRD, with its data or apart from it.
    Nrrd,
    /// NIfTI-1, one file or two.
    Nifti1,
    /// NIfTI-2.
    Nifti2,
    /// MetaImage, with its data or apart from it.
    MetaImage,
}

/// Where a volume's numbers are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DataPlace {
    /// Files with equal shares of the numbers, one after the other.
    pub(super) files: Vec<DataFile>,
    /// Bytes of numbers in each file.
    pub(super) share: u64,
    pub(super) encoding: VoxelEncoding,
    /// What comes before the numbers in a decoded file.
    pub(super) before: SkippedBefore,
    pub(super) big_endian: bool,
    /// How many numbers lie between neighbours along (z, y, x).
    pub(super) strides: [u64; 3],
    /// The same for channels.
    pub(super) channel_stride: u64,
}

/// A file with numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DataFile {
    pub(super) path: PathBuf,
    /// Its first byte that counts.
    pub(super) start: u64,
    /// The state it was in when the header was read.
    pub(super) stamp: Stamp,
}

/// How numbers are written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum VoxelEncoding {
    Raw,
    /// In gzip or zlib: the first bytes tell.
    Deflate,
    Bzip2,
    Text,
}

/// Decoded bytes before the numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SkippedBefore {
    Bytes(u64),
    /// As many as there are: the numbers are at the end.
    Rest,
}

impl VolumeHeader {
    /// The shape (z, y, x) and where voxels are.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Voxels along each axis (z, y, x).
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.geometry.shape()
    }

    /// The type of the numbers in the file.
    #[must_use]
    pub fn voxel_type(&self) -> VoxelType {
        self.voxel_type
    }

    /// How many numbers each voxel has, or how many volumes there are one after the other.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// What numbers are multiplied by to be values: 1 where nothing was said.
    #[must_use]
    pub fn slope(&self) -> f64 {
        self.slope
    }

    /// What is added then.
    #[must_use]
    pub fn intercept(&self) -> f64 {
        self.intercept
    }

    /// The file format.
    #[must_use]
    pub fn format(&self) -> VolumeFormat {
        self.format
    }

    /// Whether the numbers are compressed (or text), so that not every voxel can be read by its place.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.place.encoding != VoxelEncoding::Raw
    }

    /// Bytes of all numbers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.place.share.saturating_mul(self.place.files.len() as u64)
    }

    /// The files with the numbers.
    pub fn data_files(&self) -> impl Iterator<Item = &std::path::Path> {
        self.place.files.iter().map(|file| file.path.as_path())
    }
}

/// The geometry of a volume whose file says, axis by axis (x, y, z), where the next voxel is, and where the first
/// one is, both in the order right, anterior, superior.
pub(super) fn geometry(
    sizes: [usize; 3],
    columns: [[f64; 3]; 3],
    origin: [f64; 3],
) -> Result<Geometry, VolumeProblem> {
    let [x, y, z] = sizes;
    let linear = std::array::from_fn(|row| [columns[2][row], columns[1][row], columns[0][row]]);
    Ok(Geometry::new([z, y, x], Map { linear, offset: origin })?)
}

/// From left, posterior, superior to right, anterior, superior, or back.
pub(super) fn flipped([a, b, c]: [f64; 3]) -> [f64; 3] {
    // No negative zeros.
    [0.0 - a, 0.0 - b, c]
}

/// How far neighbours along each axis are apart where axes of these lengths follow each other, the first fastest;
/// and how many numbers there are.
pub(super) fn strides(sizes: &[usize]) -> Result<(Vec<u64>, u64), VolumeProblem> {
    let mut strides = Vec::with_capacity(sizes.len());
    let mut count = 1u64;
    for size in sizes {
        strides.push(count);
        count = u64::try_from(*size)
            .ok()
            .and_then(|size| count.checked_mul(size))
            .filter(|count| *count <= i64::MAX as u64 / 8)
            .ok_or_else(|| {
                VolumeProblem::header(format!("says {sizes:?} voxels, more than there can be"))
            })?;
    }
    Ok((strides, count))
}
