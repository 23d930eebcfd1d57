//! One volume in its file or files.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use feedline_core::Stage;
use feedline_volume::Region;

use super::error::{VolumeError, VolumeProblem};
use super::header::{DataFile, VolumeHeader, VoxelEncoding};
use super::inflate::Deflated;
use super::runs::{ReadPlan, VoxelRun, swap, take_apart};
use super::{VolumeOptions, bzip, format, raw, text};
use crate::read_at::make_room;
use crate::source_file::{SourceFile, is_url};
use crate::stamp::Stamp;

thread_local! {
    /// Channels that lie side by side, before they are taken apart.
    static SIDE_BY_SIDE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes up to which a thread keeps its buffer.
const KEPT: usize = 1 << 26;

/// A volume in its file, of which any region can be read.
///
/// ```no_run
/// use std::path::Path;
///
/// use feedline_sources::volumes::{VolumeFile, VolumeOptions};
/// use feedline_volume::{Region, VoxelType};
///
/// let volume = VolumeFile::open(Path::new("ct.nii.gz"), &VolumeOptions::default())?;
/// println!("{:?} voxels of {:?} mm", volume.header().shape(), volume.header().geometry().spacing());
/// let mut voxels = Vec::new();
/// volume.read(0, Region { start: [10, 200, 200], shape: [96, 96, 96] }, &mut voxels)?;
/// # Ok::<(), feedline_sources::volumes::VolumeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct VolumeFile {
    path: PathBuf,
    header: VolumeHeader,
    cache: Option<PathBuf>,
    max_bytes: u64,
    restart_spacing: u64,
    /// Its data files that are objects, once they were opened: opening one again would be a request.
    far: Arc<[OnceLock<FarFile>]>,
}

/// An object that is open, and its state.
type FarFile = (SourceFile, Stamp);

impl VolumeFile {
    /// Reads the header.
    pub fn open(path: &Path, options: &VolumeOptions) -> Result<VolumeFile, VolumeError> {
        let header = format::read(path, options.root.as_deref())
            .and_then(|header| check(&header).map(|()| header))
            .map_err(|problem| VolumeError::new(path, problem))?;
        Ok(VolumeFile::of(path, header, options))
    }

    /// With a header that was read before.
    pub(super) fn of(path: &Path, header: VolumeHeader, options: &VolumeOptions) -> VolumeFile {
        let far = header.place.files.iter().map(|_| OnceLock::new()).collect();
        VolumeFile {
            far,
            path: path.to_path_buf(),
            header,
            cache: options.cache_folder(),
            max_bytes: options.max_bytes,
            restart_spacing: options.restart_spacing,
        }
    }

    /// The file that was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes of it, or made of it, may be in memory.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Where tables are kept.
    pub(super) fn cache(&self) -> Option<&Path> {
        self.cache.as_deref()
    }

    /// What it says of its volume.
    #[must_use]
    pub fn header(&self) -> &VolumeHeader {
        &self.header
    }

    /// Reads a region of one channel: numbers of the file's type in this machine's byte order, the last axis (x)
    /// fastest. Returns how many bytes of files were read.
    pub fn read(
        &self,
        channel: usize,
        region: Region,
        into: &mut Vec<u8>,
    ) -> Result<u64, VolumeError> {
        self.read_channels(channel..channel.saturating_add(1), region, into)
    }

    /// The same for several channels, one after the other.
    pub fn read_channels(
        &self,
        channels: Range<usize>,
        region: Region,
        into: &mut Vec<u8>,
    ) -> Result<u64, VolumeError> {
        let bytes = self.bytes_of(channels.clone(), region)?;
        room(into, bytes).map_err(|problem| VolumeError::new(&self.path, problem))?;
        self.read_watched(channels, region, into, &mut |_| {})
    }

    /// How many bytes a region of some channels has. Fails where there is no such region, or it is too large.
    pub(super) fn bytes_of(
        &self,
        channels: Range<usize>,
        region: Region,
    ) -> Result<usize, VolumeError> {
        let bytes = bytes_of(&self.header, channels, region, self.max_bytes);
        bytes.map_err(|problem| VolumeError::new(&self.path, problem))
    }

    /// Reads into room for exactly [`bytes_of`](VolumeFile::bytes_of); `stage` is told whether bytes are fetched or
    /// decoded.
    pub(super) fn read_watched(
        &self,
        channels: Range<usize>,
        region: Region,
        into: &mut [u8],
        stage: &mut dyn FnMut(Stage),
    ) -> Result<u64, VolumeError> {
        let read = read(&self.header, channels, region, into, self, stage);
        read.map_err(|problem| VolumeError::new(&self.path, problem))
    }
}

/// Whether the files are as long as the header says.
fn check(header: &VolumeHeader) -> Result<(), VolumeProblem> {
    let place = &header.place;
    for file in &place.files {
        let there = file.stamp.len.saturating_sub(file.start);
        let most = match place.encoding {
            VoxelEncoding::Raw => there,
            // Nothing is compressed to less.
            VoxelEncoding::Deflate => there.saturating_mul(1032),
            // Two bytes for each number, or one for the last.
            VoxelEncoding::Text => {
                (there / 2).saturating_add(1).saturating_mul(header.voxel_type.bytes() as u64)
            }
            VoxelEncoding::Bzip2 => u64::MAX,
        };
        if place.share > most {
            return Err(VolumeProblem::Short { expected: place.share, actual: most });
        }
    }
    Ok(())
}

/// Makes a buffer exactly so long.
fn room(buffer: &mut Vec<u8>, bytes: usize) -> Result<(), VolumeProblem> {
    if buffer.len() < bytes {
        buffer.clear();
        make_room(buffer, bytes).map_err(VolumeProblem::io("make room for"))?;
    }
    buffer.resize(bytes, 0);
    Ok(())
}

fn bytes_of(
    header: &VolumeHeader,
    channels: Range<usize>,
    region: Region,
    most: u64,
) -> Result<usize, VolumeProblem> {
    if channels.is_empty() || channels.end > header.channels {
        let (channel, channels) = (channels.end.saturating_sub(1), header.channels);
        return Err(VolumeProblem::NoChannel { channel, channels });
    }
    let shape = header.shape();
    if !Region::whole(shape).contains(&region) || region.is_empty() {
        return Err(VolumeProblem::NoRegion { region, shape });
    }
    let one = (region.voxels() as u64).saturating_mul(header.voxel_type.bytes() as u64);
    // Channels that lie side by side are read together.
    let bytes = one.saturating_mul(header.channels as u64);
    if bytes > most {
        return Err(VolumeProblem::TooLarge { bytes, most });
    }
    Ok(one as usize * channels.len())
}

fn read(
    header: &VolumeHeader,
    channels: Range<usize>,
    region: Region,
    into: &mut [u8],
    options: &VolumeFile,
    stage: &mut dyn FnMut(Stage),
) -> Result<u64, VolumeProblem> {
    let size = header.voxel_type.bytes();
    let plan = ReadPlan::new(header, channels.clone(), region);
    let mut beside = Vec::new();
    let out = match plan.interleaved {
        Some(_) => {
            beside = SIDE_BY_SIDE.take();
            room(&mut beside, plan.bytes)?;
            &mut beside[..]
        }
        None => &mut *into,
    };
    let read = read_files(header, &plan, out, options, stage)?;
    stage(Stage::Decode);
    if let Some(step) = plan.interleaved {
        take_apart(&beside, into, size, step, channels);
        if beside.capacity() <= KEPT {
            SIDE_BY_SIDE.set(beside);
        }
    }
    let text = header.place.encoding == VoxelEncoding::Text;
    if !text && header.place.big_endian != cfg!(target_endian = "big") {
        swap(into, size);
    }
    Ok(read)
}

/// Reads the runs of each file.
fn read_files(
    header: &VolumeHeader,
    plan: &ReadPlan,
    out: &mut [u8],
    options: &VolumeFile,
    stage: &mut dyn FnMut(Stage),
) -> Result<u64, VolumeProblem> {
    let (place, mut read) = (&header.place, 0);
    let share = place.share.max(1);
    let mut own = Vec::new();
    for (number, data) in place.files.iter().enumerate() {
        let (start, end) = (number as u64 * share, (number as u64 + 1) * share);
        let runs = if place.files.len() == 1 {
            &plan.runs
        } else {
            own.clear();
            let first = plan.runs.partition_point(|run| run.end() <= start);
            let touched = plan.runs[first..].iter().take_while(|run| run.from < end);
            own.extend(touched.map(|run| {
                let (from, last) = (run.from.max(start), run.end().min(end));
                let to = run.to + (from - run.from) as usize;
                VoxelRun { from: from - start, length: (last - from) as usize, to }
            }));
            &own
        };
        if !runs.is_empty() {
            let far = options.far.get(number).filter(|_| is_url(&data.path));
            read +=
                read_file(header, data, far, runs, plan.row, out, options, stage).map_err(|p| {
                    if place.files.len() == 1 && data.path == options.path {
                        p
                    } else {
                        inside(data, p)
                    }
                })?;
        }
    }
    Ok(read)
}

/// A problem of one of several files, with its name.
fn inside(data: &DataFile, problem: VolumeProblem) -> VolumeProblem {
    let name = super::error::shown(&data.path);
    match problem {
        VolumeProblem::Io { doing, source } => {
            let source = io::Error::new(source.kind(), format!("`{name}`: {source}"));
            VolumeProblem::Io { doing, source }
        }
        VolumeProblem::Damaged { what } => {
            VolumeProblem::Damaged { what: format!("`{name}`: {what}") }
        }
        VolumeProblem::Changed { what } => {
            VolumeProblem::Changed { what: format!("`{name}`: {what}") }
        }
        other => other,
    }
}

/// Opens a data file, or takes the object that is open.
fn open<'a>(
    data: &DataFile,
    far: Option<&'a OnceLock<FarFile>>,
    opened: &'a mut Option<FarFile>,
) -> io::Result<&'a FarFile> {
    if let Some(open) = far.and_then(OnceLock::get) {
        return Ok(open);
    }
    let file = SourceFile::open(&data.path)?;
    Ok(match far {
        Some(far) => far.get_or_init(|| file),
        None => opened.insert(file),
    })
}

#[expect(clippy::too_many_arguments, reason = "what is read, of what, where to")]
fn read_file(
    header: &VolumeHeader,
    data: &DataFile,
    far: Option<&OnceLock<FarFile>>,
    runs: &[VoxelRun],
    row: u64,
    out: &mut [u8],
    options: &VolumeFile,
    stage: &mut dyn FnMut(Stage),
) -> Result<u64, VolumeProblem> {
    let place = &header.place;
    stage(Stage::Load);
    let mut opened = None;
    let (file, now) = open(data, far, &mut opened).map_err(VolumeProblem::io("open"))?;
    // Headers that were kept do not know the device.
    let stamp = Stamp { device: now.device, ..data.stamp };
    let changed = |what| VolumeProblem::Changed { what };
    if let Some(what) = stamp.difference(now) {
        return Err(changed(what));
    }
    let read = match place.encoding {
        VoxelEncoding::Raw => raw::read(file, data.start, runs, row, out).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                let actual = stamp.len.saturating_sub(data.start);
                return VolumeProblem::Short { expected: place.share, actual };
            }
            VolumeProblem::Io { doing: "read", source: error }
        }),
        VoxelEncoding::Deflate => {
            let cache = options.cache.as_deref();
            let (share, before, spacing) = (place.share, place.before, options.restart_spacing);
            Deflated { file, data, before, share, cache, spacing }.read(runs, out, stage)
        }
        VoxelEncoding::Bzip2 => {
            stage(Stage::Decode);
            bzip::read(file, data, place.before, place.share, runs, out)
        }
        VoxelEncoding::Text => {
            let length = stamp.len.saturating_sub(data.start);
            if length > options.max_bytes {
                return Err(VolumeProblem::TooLarge { bytes: length, most: options.max_bytes });
            }
            let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
            file.append_at(&mut bytes, data.start, length as usize)
                .map_err(VolumeProblem::io("read"))?;
            stage(Stage::Decode);
            let kind = header.voxel_type;
            text::parse(&bytes, kind, place.share / kind.bytes() as u64, &mut numbers)?;
            for run in runs {
                let part = &numbers[run.from as usize..run.end() as usize];
                out[run.to..run.to + run.length].copy_from_slice(part);
            }
            Ok(length)
        }
    };
    // Of a file that somebody writes at the moment it would be a part.
    if let Some(what) = file.change(&stamp).map_err(VolumeProblem::io("read"))? {
        return Err(changed(what));
    }
    read
}
