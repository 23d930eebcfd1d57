//! NIfTI-1 and NIfTI-2 headers, read as nibabel does.

use std::path::{Path, PathBuf};

use feedline_volume::VoxelType;

use super::Beginning;
use crate::source_file::SourceFile;
use crate::volumes::error::VolumeProblem;
use crate::volumes::header::{
    DataFile, DataPlace, SkippedBefore, VolumeFormat, VolumeHeader, VoxelEncoding, geometry,
    strides,
};

/// Bytes of a header.
const ONE: usize = 348;
const TWO: usize = 540;

/// The header of a pair of files, whichever of them is named.
pub(super) fn header_path(path: &Path) -> PathBuf {
    for (image, header) in [(".img", ".hdr"), (".img.gz", ".hdr.gz")] {
        if let Some(other) = with_ending(path, image, header) {
            return other;
        }
    }
    path.to_path_buf()
}

/// A path with another ending, if it has the first one.
fn with_ending(path: &Path, ending: &str, other: &str) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let at = name.len().checked_sub(ending.len()).filter(|at| name.is_char_boundary(*at))?;
    name[at..]
        .eq_ignore_ascii_case(ending)
        .then(|| path.with_file_name(format!("{}{other}", &name[..at])))
}

/// Whether a header may begin so.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let Some(size) = bytes.first_chunk::<4>() else { return false };
    [i32::from_le_bytes(*size), i32::from_be_bytes(*size)]
        .iter()
        .any(|size| [ONE as i32, TWO as i32].contains(size))
}

/// The numbers of a header, in one or the other byte order.
struct NiftiBytes<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl NiftiBytes<'_> {
    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.bytes[at..at + N]);
        if self.big {
            bytes.reverse();
        }
        bytes
    }
    fn i16(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.at(at))
    }
    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.at(at))
    }
    fn i64(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.at(at))
    }
    fn f32(&self, at: usize) -> f64 {
        f64::from(f32::from_le_bytes(self.at(at)))
    }
    fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.at(at))
    }
}

/// What counts of a header, of either version.
struct Nifti {
    version: VolumeFormat,
    big: bool,
    /// Whether the data is in the same file.
    single: bool,
    dim: [i64; 8],
    datatype: i16,
    pixdim: [f64; 8],
    vox_offset: f64,
    slope: f64,
    intercept: f64,
    qform_code: i64,
    sform_code: i64,
    quaternion: [f64; 3],
    qoffset: [f64; 3],
    srow: [[f64; 4]; 3],
}

pub(super) fn read(mut beginning: Beginning) -> Result<VolumeHeader, VolumeProblem> {
    let compressed = beginning.bytes.starts_with(&[0x1f, 0x8b]);
    let bytes = if compressed {
        let mut bytes = beginning.inflated(TWO)?;
        // A long name before the data, in the gzip header.
        while bytes.len() < TWO && beginning.bytes.len() < super::LONGEST {
            let more = beginning.bytes.len() * 4;
            if !beginning.more(more)? {
                break;
            }
            bytes = beginning.inflated(TWO)?;
        }
        bytes
    } else {
        beginning.bytes[..beginning.bytes.len().min(TWO)].to_vec()
    };
    if !begins(&bytes) {
        return Err(VolumeProblem::UnknownFormat);
    }
    let header = Nifti::of(&bytes)?;
    let voxel_type = voxel_type(header.datatype)?;
    let sizes = header.sizes()?;
    let (steps, count) = strides(&sizes)?;
    let side = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
    let step = |axis: usize| steps.get(axis).copied().unwrap_or(0);
    let (columns, origin) = header.affine(&sizes)?;
    let geometry = geometry([side(0), side(1), side(2)], columns, origin)?;
    let channels = sizes.iter().skip(3).product::<usize>();
    let (slope, intercept) = header.scaling()?;
    let (file, encoding, before) = header.data(&beginning, compressed)?;
    let place = DataPlace {
        files: vec![file],
        share: count * voxel_type.bytes() as u64,
        encoding,
        before,
        big_endian: header.big,
        strides: [step(2), step(1), step(0)],
        channel_stride: step(3),
    };
    let format = header.version;
    Ok(VolumeHeader { geometry, voxel_type, channels, slope, intercept, format, place })
}

impl Nifti {
    fn of(bytes: &[u8]) -> Result<Nifti, VolumeProblem> {
        let size = bytes.first_chunk::<4>().copied().unwrap_or_default();
        let (size, big) = match (i32::from_le_bytes(size), i32::from_be_bytes(size)) {
            (size, _) if [ONE as i32, TWO as i32].contains(&size) => (size as usize, false),
            (_, size) => (size as usize, true),
        };
        if bytes.len() < size {
            let (expected, actual) = (size as u64, bytes.len() as u64);
            return Err(VolumeProblem::header(format!("has {actual} bytes of {expected}")));
        }
        let from = NiftiBytes { bytes, big };
        let no_magic = |magic: &[u8]| {
            let shown = String::from_utf8_lossy(magic).replace(char::is_control, " ");
            VolumeProblem::Unsupported {
                what: format!("a header of the kind `{shown}` (Analyze, or none)"),
                advice: "write it as NIfTI",
            }
        };
        if size == ONE {
            let magic = &bytes[344..348];
            let single = match magic {
                b"n+1\0" => true,
                b"ni1\0" => false,
                _ => return Err(no_magic(magic)),
            };
            return Ok(Nifti {
                version: VolumeFormat::Nifti1,
                big,
                single,
                dim: std::array::from_fn(|i| i64::from(from.i16(40 + 2 * i))),
                datatype: from.i16(70),
                pixdim: std::array::from_fn(|i| from.f32(76 + 4 * i)),
                vox_offset: from.f32(108),
                slope: from.f32(112),
                intercept: from.f32(116),
                qform_code: i64::from(from.i16(252)),
                sform_code: i64::from(from.i16(254)),
                quaternion: std::array::from_fn(|i| from.f32(256 + 4 * i)),
                qoffset: std::array::from_fn(|i| from.f32(268 + 4 * i)),
                srow: std::array::from_fn(|row| {
                    std::array::from_fn(|i| from.f32(280 + 16 * row + 4 * i))
                }),
            });
        }
        let magic = &bytes[4..12];
        let single = match &magic[..4] {
            b"n+2\0" => true,
            b"ni2\0" => false,
            _ => return Err(no_magic(&magic[..4])),
        };
        if magic[4..] != *b"\r\n\x1a\n" {
            return Err(VolumeProblem::damaged(
                "the header's line ends were changed, as a transfer as text does it",
            ));
        }
        Ok(Nifti {
            version: VolumeFormat::Nifti2,
            big,
            single,
            dim: std::array::from_fn(|i| from.i64(16 + 8 * i)),
            datatype: from.i16(12),
            pixdim: std::array::from_fn(|i| from.f64(104 + 8 * i)),
            vox_offset: from.i64(168) as f64,
            slope: from.f64(176),
            intercept: from.f64(184),
            qform_code: i64::from(from.i32(344)),
            sform_code: i64::from(from.i32(348)),
            quaternion: std::array::from_fn(|i| from.f64(352 + 8 * i)),
            qoffset: std::array::from_fn(|i| from.f64(376 + 8 * i)),
            srow: std::array::from_fn(|row| {
                std::array::from_fn(|i| from.f64(400 + 32 * row + 8 * i))
            }),
        })
    }

    /// Voxels along each axis (x, y, z, then others).
    fn sizes(&self) -> Result<Vec<usize>, VolumeProblem> {
        let no =
            || VolumeProblem::header(format!("has `dim` of {:?}, which makes no sense", self.dim));
        let axes = usize::try_from(self.dim[0]).ok().filter(|axes| (1..=7).contains(axes));
        let axes = axes.ok_or_else(no)?;
        let sizes = self.dim[1..=axes].iter().map(|side| usize::try_from(*side).ok());
        let sizes: Option<Vec<usize>> = sizes.map(|side| side.filter(|side| *side > 0)).collect();
        sizes.ok_or_else(no)
    }

    /// Nothing, if the slope is 0 or no number.
    fn scaling(&self) -> Result<(f64, f64), VolumeProblem> {
        if self.slope == 0.0 || !self.slope.is_finite() {
            return Ok((1.0, 0.0));
        }
        if !self.intercept.is_finite() {
            let what = format!("scales by {} and adds {}", self.slope, self.intercept);
            return Err(VolumeProblem::header(what));
        }
        Ok((self.slope, self.intercept))
    }

    /// Where neighbours along (x, y, z) are, and the first voxel: by the sform, the qform, or the sizes of voxels.
    fn affine(&self, sizes: &[usize]) -> Result<([[f64; 3]; 3], [f64; 3]), VolumeProblem> {
        if self.sform_code > 0 {
            let columns =
                std::array::from_fn(|axis| std::array::from_fn(|row| self.srow[row][axis]));
            return Ok((columns, std::array::from_fn(|row| self.srow[row][3])));
        }
        // nibabel corrects sizes that are not positive when it reads a header; those that are no numbers stay.
        let step: [f64; 3] = std::array::from_fn(|axis| match self.pixdim[axis + 1] {
            0.0 => 1.0,
            step => step.abs(),
        });
        if self.qform_code > 0 {
            let rotation = rotation(self.quaternion, self.version)?;
            let last = if self.pixdim[0] == -1.0 { -1.0 } else { 1.0 };
            let step = [step[0], step[1], step[2] * last];
            let columns = std::array::from_fn(|axis| {
                std::array::from_fn(|row| rotation[row][axis] * step[axis])
            });
            return Ok((columns, self.qoffset));
        }
        // The middle of the volume is the origin, and the first axis goes to the left.
        let side = |axis: usize| sizes.get(axis).map_or(1.0, |side| *side as f64);
        let step = std::array::from_fn(|axis| if axis < sizes.len() { step[axis] } else { 1.0 });
        let [x, y, z]: [f64; 3] = step;
        let columns = [[-x, 0.0, 0.0], [0.0, y, 0.0], [0.0, 0.0, z]];
        let origin =
            std::array::from_fn(|axis| -(side(axis) - 1.0) / 2.0 * columns[axis][axis] + 0.0);
        Ok((columns, origin))
    }

    /// Where the voxels are.
    fn data(
        &self,
        beginning: &Beginning,
        compressed: bool,
    ) -> Result<(DataFile, VoxelEncoding, SkippedBefore), VolumeProblem> {
        let least = match (self.single, self.version) {
            (false, _) => 0,
            (true, VolumeFormat::Nifti2) => TWO as u64 + 4,
            (true, _) => ONE as u64 + 4,
        };
        let said = self.vox_offset;
        let offset = match said {
            0.0 => least,
            said if said >= least as f64 && said <= 1e15 => said as u64,
            _ => {
                let what = format!("says that voxels begin at byte {said}");
                return Err(VolumeProblem::header(what));
            }
        };
        let (mut file, compressed) = if self.single {
            (beginning.data_file(0), compressed)
        } else {
            image_file(&beginning.path)?
        };
        if compressed {
            return Ok((file, VoxelEncoding::Deflate, SkippedBefore::Bytes(offset)));
        }
        file.start = offset;
        Ok((file, VoxelEncoding::Raw, SkippedBefore::Bytes(0)))
    }
}

/// The file with the voxels that belong to a header, and whether it is compressed.
fn image_file(header: &Path) -> Result<(DataFile, bool), VolumeProblem> {
    let plain =
        with_ending(header, ".hdr", ".img").or_else(|| with_ending(header, ".hdr.gz", ".img"));
    let plain = plain.ok_or_else(|| {
        VolumeProblem::header(
            "says that voxels are in an .img file, and its name does not end in .hdr",
        )
    })?;
    let mut packed = plain.clone().into_os_string();
    packed.push(".gz");
    let packed = PathBuf::from(packed);
    let (path, opened) = match SourceFile::open(&plain) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match SourceFile::open(&packed) {
                Ok(opened) => (packed, Ok(opened)),
                Err(_) => (plain, Err(error)),
            }
        }
        opened => (plain, opened),
    };
    let (file, stamp) = opened.map_err(VolumeProblem::io("open the .img file of"))?;
    let mut magic = [0; 2];
    let gzip = file.read_exact_at(&mut magic, 0).is_ok() && magic == [0x1f, 0x8b];
    let compressed =
        gzip && path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
    Ok((DataFile { path, start: 0, stamp }, compressed))
}

fn voxel_type(code: i16) -> Result<VoxelType, VolumeProblem> {
    Ok(match code {
        2 => VoxelType::U8,
        4 => VoxelType::I16,
        8 => VoxelType::I32,
        16 => VoxelType::F32,
        64 => VoxelType::F64,
        256 => VoxelType::I8,
        512 => VoxelType::U16,
        768 => VoxelType::U32,
        1024 => VoxelType::I64,
        1280 => VoxelType::U64,
        1 | 32 | 128 | 1536 | 1792 | 2048 | 2304 => {
            let what = match code {
                1 => "data of single bits",
                128 | 2304 => "data of colours",
                1536 => "data of 128-bit floats",
                _ => "data of complex numbers",
            };
            return Err(VolumeProblem::Unsupported {
                what: what.to_string(),
                advice: "write its numbers as one of the number types, with a channel each",
            });
        }
        other => {
            let what = format!("has `datatype` {other}, which there is not");
            return Err(VolumeProblem::header(what));
        }
    })
}

/// The rotation of a unit quaternion whose first number is left out.
fn rotation([x, y, z]: [f64; 3], version: VolumeFormat) -> Result<[[f64; 3]; 3], VolumeProblem> {
    let rounding = match version {
        VolumeFormat::Nifti2 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    let squared = 1.0 - (x * x + y * y + z * z);
    if squared.is_nan() || squared < -3.0 * rounding {
        let what = format!("has the quaternion {:?}, which is longer than 1", [x, y, z]);
        return Err(VolumeProblem::header(what));
    }
    let w = squared.max(0.0).sqrt();
    let length = w * w + x * x + y * y + z * z;
    if length < f64::EPSILON {
        return Ok([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
    }
    let s = 2.0 / length;
    let [sx, sy, sz] = [x * s, y * s, z * s];
    Ok([
        [1.0 - (y * sy + z * sz), x * sy - w * sz, x * sz + w * sy],
        [x * sy + w * sz, 1.0 - (x * sx + z * sz), y * sz - w * sx],
        [x * sz - w * sy, y * sz + w * sx, 1.0 - (x * sx + y * sy)],
    ])
}
