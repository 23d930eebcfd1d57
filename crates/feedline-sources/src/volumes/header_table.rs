//! Headers of a set, kept in one file, so that they are read once and not at every start.
//!
//! ```text
//! magic "FLVOLHD1"   bytes of all that follows the checksum, and their checksum (xxh3)
//! when it was made   seconds since 1970
//! the headers        for each file: whether there is one, the state the file was in, the header
//! ```
//!
//! A header counts only for the file in the very state it was in. It is checked as tables of tar shards are: anything
//! amiss and headers are read again.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use feedline_volume::{Geometry, Map, VoxelType};
use twox_hash::XxHash3_64;

use super::header::{
    DataFile, DataPlace, SkippedBefore, VolumeFormat, VolumeHeader, VoxelEncoding,
};
use super::kept::{
    MOMENT, NumberReader, put, put_bytes, put_stamp, read_table, same_file, write_table,
};
use crate::stamp::{Stamp, since_1970};

const MAGIC: &[u8; 8] = b"FLVOLHD1";

const TYPES: [VoxelType; 10] = [
    VoxelType::U8,
    VoxelType::I8,
    VoxelType::U16,
    VoxelType::I16,
    VoxelType::U32,
    VoxelType::I32,
    VoxelType::U64,
    VoxelType::I64,
    VoxelType::F32,
    VoxelType::F64,
];
const FORMATS: [VolumeFormat; 4] =
    [VolumeFormat::Nrrd, VolumeFormat::Nifti1, VolumeFormat::Nifti2, VolumeFormat::MetaImage];
const ENCODINGS: [VoxelEncoding; 4] =
    [VoxelEncoding::Raw, VoxelEncoding::Deflate, VoxelEncoding::Bzip2, VoxelEncoding::Text];

/// A header, and the state its file was in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeptHeader {
    pub(super) stamp: Stamp,
    pub(super) header: VolumeHeader,
}

/// Where the headers of some files are kept.
pub(super) struct HeaderTable {
    path: PathBuf,
}

impl HeaderTable {
    /// Of these files, in their order, whose detached data must be in `root`.
    pub(super) fn of<'a>(
        folder: &Path,
        files: impl Iterator<Item = &'a Path>,
        root: Option<&'a Path>,
    ) -> HeaderTable {
        let mut all = Vec::new();
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        for file in root.into_iter().chain(files) {
            put_bytes(&mut all, whole(file).as_os_str().as_encoded_bytes());
        }
        let name = format!("{:016x}.headers", XxHash3_64::oneshot(&all));
        HeaderTable { path: folder.join(name) }
    }

    /// The headers of `paths`, if they are kept; each may be missing.
    pub(super) fn read(&self, paths: &[&Path]) -> Option<Vec<Option<KeptHeader>>> {
        let body = read_table(&self.path, MAGIC)?;
        let mut from = NumberReader(&body);
        let made = Duration::from_secs(from.number()?);
        if from.count(8)? != paths.len() {
            return None;
        }
        let mut kept = Vec::with_capacity(paths.len());
        for path in paths {
            let one = match from.number()? {
                0 => None,
                _ => Some(header(&mut from, path)?),
            };
            // A file that was written in the same moment may have been written again.
            kept.push(one.filter(|one| made >= one.stamp.changed.saturating_add(MOMENT)));
        }
        from.0.is_empty().then_some(kept)
    }

    /// Keeps headers, if the folder lets it. `made` is when their reading began.
    pub(super) fn write(&self, headers: &[(&Path, Option<KeptHeader>)], made: SystemTime) {
        let mut to = Vec::new();
        put(&mut to, since_1970(made).as_secs());
        put(&mut to, headers.len() as u64);
        for (path, one) in headers {
            put(&mut to, u64::from(one.is_some()));
            if let Some(one) = one {
                put_header(&mut to, one, path);
            }
        }
        // Failing to keep them costs time at the next start and nothing else.
        let _ = write_table(&self.path, MAGIC, &to);
    }
}

fn code<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().position(|other| other == one).unwrap_or(all.len()) as u64
}

fn coded<T: Copy>(all: &[T], code: u64) -> Option<T> {
    all.get(usize::try_from(code).ok()?).copied()
}

fn put_header(to: &mut Vec<u8>, kept: &KeptHeader, path: &Path) {
    let KeptHeader { stamp, header } = kept;
    put_stamp(to, stamp);
    let geometry = &header.geometry;
    geometry.shape().iter().for_each(|side| put(to, *side as u64));
    let affine = geometry.affine();
    affine.linear.iter().flatten().chain(&affine.offset).for_each(|x| put(to, x.to_bits()));
    let place = &header.place;
    let (tag, before) = match place.before {
        SkippedBefore::Bytes(before) => (0, before),
        SkippedBefore::Rest => (1, 0),
    };
    for number in [
        code(&TYPES, &header.voxel_type),
        header.channels as u64,
        header.slope.to_bits(),
        header.intercept.to_bits(),
        code(&FORMATS, &header.format),
        place.share,
        code(&ENCODINGS, &place.encoding),
        tag,
        before,
        u64::from(place.big_endian),
        place.strides[0],
        place.strides[1],
        place.strides[2],
        place.channel_stride,
        place.files.len() as u64,
    ] {
        put(to, number);
    }
    for file in &place.files {
        // The file itself has no name.
        let name = if file.path == *path { &[] } else { file.path.as_os_str().as_encoded_bytes() };
        put_bytes(to, name);
        put(to, file.start);
        put_stamp(to, &file.stamp);
    }
}

fn header(from: &mut NumberReader<'_>, path: &Path) -> Option<KeptHeader> {
    let stamp = from.stamp()?;
    let mut shape = [0; 3];
    for side in &mut shape {
        *side = usize::try_from(from.number()?).ok()?;
    }
    let mut affine = Map { linear: [[0.0; 3]; 3], offset: [0.0; 3] };
    for number in affine.linear.iter_mut().flatten().chain(&mut affine.offset) {
        *number = from.float()?;
    }
    let geometry = Geometry::new(shape, affine).ok()?;
    let voxel_type = coded(&TYPES, from.number()?)?;
    let channels = usize::try_from(from.number()?).ok()?;
    let (slope, intercept) = (from.float()?, from.float()?);
    let format = coded(&FORMATS, from.number()?)?;
    let share = from.number()?;
    let encoding = coded(&ENCODINGS, from.number()?)?;
    let before = match (from.number()?, from.number()?) {
        (0, before) => SkippedBefore::Bytes(before),
        _ => SkippedBefore::Rest,
    };
    let big_endian = from.number()? != 0;
    let strides = [from.number()?, from.number()?, from.number()?];
    let channel_stride = from.number()?;
    let count = from.count(48)?;
    let mut files = Vec::with_capacity(count);
    for _ in 0..count {
        let name = from.bytes()?;
        let path = if name.is_empty() { path.to_path_buf() } else { path_of(name) };
        files.push(DataFile { path, start: from.number()?, stamp: from.stamp()? });
    }
    let place = DataPlace { files, share, encoding, before, big_endian, strides, channel_stride };
    let header = VolumeHeader { geometry, voxel_type, channels, slope, intercept, format, place };
    fits(&header).then_some(KeptHeader { stamp, header })
}

/// Whether no voxel is outside of the data.
fn fits(header: &VolumeHeader) -> bool {
    let place = &header.place;
    let [z, y, x] = header.shape();
    let last = |side: usize, stride: u64| (side as u64 - 1).checked_mul(stride);
    let sides = [
        last(z, place.strides[0]),
        last(y, place.strides[1]),
        last(x, place.strides[2]),
        header
            .channels
            .checked_sub(1)
            .and_then(|last| (last as u64).checked_mul(place.channel_stride)),
    ];
    let last = sides.into_iter().try_fold(0u64, |sum, side| sum.checked_add(side?));
    let bytes =
        last.and_then(|last| last.checked_add(1)?.checked_mul(header.voxel_type.bytes() as u64));
    !place.files.is_empty()
        && place.share.checked_mul(place.files.len() as u64).is_some()
        && bytes.is_some_and(|bytes| bytes <= header.bytes())
}

fn path_of(name: &[u8]) -> PathBuf {
    #[cfg(unix)]
    return PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name));
    #[cfg(not(unix))]
    return PathBuf::from(String::from_utf8_lossy(name).into_owned());
}

/// Whether a kept header is of a file that is in this state now, and of data that is what it was.
pub(super) fn counts(kept: &KeptHeader, path: &Path, now: &Stamp) -> bool {
    let is = |file: &DataFile| Stamp::now(&file.path).is_ok_and(|now| same_file(&file.stamp, &now));
    let mut apart = kept.header.place.files.iter().filter(|file| file.path != *path);
    same_file(&kept.stamp, now) && apart.all(is)
}
