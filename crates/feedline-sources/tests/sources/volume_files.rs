//! Making volumes: what is in them follows from the place of each voxel.

use std::io::Write;
use std::path::{Path, PathBuf};

use feedline_sources::volumes::{VolumeCache, VolumeFile, VolumeOptions};
use feedline_volume::{Region, VoxelType};
use tempfile::TempDir;

/// A folder for volumes, and one for what is kept of them.
pub(crate) struct Folders {
    pub(crate) data: TempDir,
    pub(crate) cache: TempDir,
}

impl Folders {
    pub(crate) fn new() -> Folders {
        let folder = || tempfile::tempdir().expect("temporary folder");
        Folders { data: folder(), cache: folder() }
    }

    pub(crate) fn options(&self) -> VolumeOptions {
        let cache = VolumeCache::Folder(self.cache.path().to_path_buf());
        VolumeOptions { cache, ..VolumeOptions::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    /// Writes a file, and sets its time back so that what is kept of it is trusted.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("temporary folder");
        std::fs::write(&path, bytes).expect("temporary file");
        age(&path, 100);
        path
    }

    pub(crate) fn open(&self, name: &str) -> VolumeFile {
        VolumeFile::open(&self.path(name), &self.options())
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn refused(&self, name: &str) -> String {
        let opened = VolumeFile::open(&self.path(name), &self.options());
        let message = match opened {
            Err(error) => error.to_string(),
            // What cannot be told by the header is told by reading.
            Ok(volume) => match all(&volume) {
                Err(message) => message,
                Ok(_) => panic!("{name} was read"),
            },
        };
        assert!(message.contains(name), "{message}");
        message
    }

    /// How many files of this ending are kept.
    pub(crate) fn kept(&self, ending: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.cache.path()).expect("the folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|e| e == ending)).collect()
    }
}

/// Makes a file older by so many seconds.
pub(crate) fn age(path: &Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).expect("the file");
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
    file.set_modified(then).expect("its time");
}

/// All numbers of all channels, as doubles.
pub(crate) fn all(volume: &VolumeFile) -> Result<Vec<f64>, String> {
    part(volume, Region::whole(volume.header().shape()))
}

/// Those of a region.
pub(crate) fn part(volume: &VolumeFile, region: Region) -> Result<Vec<f64>, String> {
    let mut bytes = Vec::new();
    let channels = 0..volume.header().channels();
    volume.read_channels(channels, region, &mut bytes).map_err(|error| error.to_string())?;
    Ok(numbers(&bytes, volume.header().voxel_type()))
}

/// Bytes in this machine's order as doubles.
pub(crate) fn numbers(bytes: &[u8], kind: VoxelType) -> Vec<f64> {
    macro_rules! each {
        ($kind:ty) => {
            bytes
                .chunks_exact(size_of::<$kind>())
                .map(|b| <$kind>::from_ne_bytes(b.try_into().expect("its size")) as f64)
                .collect()
        };
    }
    match kind {
        VoxelType::U8 => each!(u8),
        VoxelType::I8 => each!(i8),
        VoxelType::U16 => each!(u16),
        VoxelType::I16 => each!(i16),
        VoxelType::U32 => each!(u32),
        VoxelType::I32 => each!(i32),
        VoxelType::U64 => each!(u64),
        VoxelType::I64 => each!(i64),
        VoxelType::F32 => each!(f32),
        VoxelType::F64 => each!(f64),
    }
}

/// Numbers as bytes of a type, in one or the other order.
pub(crate) fn bytes(numbers: &[f64], kind: VoxelType, big: bool) -> Vec<u8> {
    macro_rules! each {
        ($kind:ty) => {
            numbers
                .iter()
                .flat_map(|x| {
                    let x = *x as $kind;
                    if big { x.to_be_bytes() } else { x.to_le_bytes() }
                })
                .collect()
        };
    }
    match kind {
        VoxelType::U8 => each!(u8),
        VoxelType::I8 => each!(i8),
        VoxelType::U16 => each!(u16),
        VoxelType::I16 => each!(i16),
        VoxelType::U32 => each!(u32),
        VoxelType::I32 => each!(i32),
        VoxelType::U64 => each!(u64),
        VoxelType::I64 => each!(i64),
        VoxelType::F32 => each!(f32),
        VoxelType::F64 => each!(f64),
    }
}

/// So many numbers that every type holds, none like the one before it.
pub(crate) fn counted(count: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7 + i / 11) % 127) as f64).collect()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub(crate) fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub(crate) fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(9));
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A NIfTI header that can be changed before it is written.
#[derive(Clone, Debug)]
pub(crate) struct NiftiFile {
    pub(crate) two: bool,
    pub(crate) big: bool,
    pub(crate) single: bool,
    pub(crate) dim: Vec<i64>,
    pub(crate) datatype: i16,
    pub(crate) pixdim: [f64; 8],
    pub(crate) vox_offset: Option<f64>,
    pub(crate) slope: f64,
    pub(crate) intercept: f64,
    pub(crate) qform: Option<([f64; 3], [f64; 3])>,
    pub(crate) sform: Option<[[f64; 4]; 3]>,
}

impl NiftiFile {
    pub(crate) fn new(dim: &[i64], datatype: i16) -> NiftiFile {
        let pixdim = [1.0, 0.5, 0.75, 2.0, 1.0, 1.0, 1.0, 1.0];
        NiftiFile {
            two: false,
            big: false,
            single: true,
            dim: dim.to_vec(),
            datatype,
            pixdim,
            vox_offset: None,
            slope: 0.0,
            intercept: 0.0,
            qform: None,
            sform: None,
        }
    }

    /// The header, and what is between it and the data.
    pub(crate) fn header(&self) -> Vec<u8> {
        let length = if self.two { 540 } else { 348 };
        let mut out = vec![0u8; length];
        let mut put = |at: usize, le: &[u8]| {
            let slot = &mut out[at..at + le.len()];
            slot.copy_from_slice(le);
            if self.big {
                slot.reverse();
            }
        };
        let dims: Vec<i64> =
            std::iter::once(self.dim.len() as i64).chain(self.dim.iter().copied()).collect();
        let offset = self.vox_offset.unwrap_or(match (self.single, self.two) {
            (false, _) => 0.0,
            (true, false) => 352.0,
            (true, true) => 544.0,
        });
        let codes = [i64::from(self.qform.is_some()), i64::from(self.sform.is_some())];
        let (quaternion, shift) = self.qform.unwrap_or_default();
        let rows = self.sform.unwrap_or_default();
        put(0, &(length as i32).to_le_bytes());
        if self.two {
            put(12, &self.datatype.to_le_bytes());
            dims.iter().enumerate().for_each(|(i, n)| put(16 + 8 * i, &n.to_le_bytes()));
            self.pixdim.iter().enumerate().for_each(|(i, x)| put(104 + 8 * i, &x.to_le_bytes()));
            put(168, &(offset as i64).to_le_bytes());
            put(176, &self.slope.to_le_bytes());
            put(184, &self.intercept.to_le_bytes());
            codes
                .iter()
                .enumerate()
                .for_each(|(i, n)| put(344 + 4 * i, &(*n as i32).to_le_bytes()));
            let floats = quaternion.iter().chain(&shift).chain(rows.iter().flatten());
            floats.enumerate().for_each(|(i, x)| put(352 + 8 * i, &x.to_le_bytes()));
            let magic = if self.single { b"n+2\0\r\n\x1a\n" } else { b"ni2\0\r\n\x1a\n" };
            out[4..12].copy_from_slice(magic);
        } else {
            put(70, &self.datatype.to_le_bytes());
            dims.iter().enumerate().for_each(|(i, n)| put(40 + 2 * i, &(*n as i16).to_le_bytes()));
            let float = |x: f64| (x as f32).to_le_bytes();
            self.pixdim.iter().enumerate().for_each(|(i, x)| put(76 + 4 * i, &float(*x)));
            put(108, &float(offset));
            put(112, &float(self.slope));
            put(116, &float(self.intercept));
            codes
                .iter()
                .enumerate()
                .for_each(|(i, n)| put(252 + 2 * i, &(*n as i16).to_le_bytes()));
            let floats = quaternion.iter().chain(&shift).chain(rows.iter().flatten());
            floats.enumerate().for_each(|(i, x)| put(256 + 4 * i, &float(*x)));
            out[344..348].copy_from_slice(if self.single { b"n+1\0" } else { b"ni1\0" });
        }
        if self.single {
            let end = if self.two { 544 } else { 352 };
            out.resize((offset.clamp(0.0, 1e6) as usize).max(end), 0);
        }
        out
    }

    /// The header, then the data.
    pub(crate) fn with(&self, data: &[u8]) -> Vec<u8> {
        [self.header(), data.to_vec()].concat()
    }
}

/// A NIfTI file of int16, in gzip, whose content hardly compresses, and its numbers.
pub(crate) fn noisy([x, y, z]: [usize; 3]) -> (Vec<u8>, Vec<f64>) {
    let mut state = 88_172_645_463_325_252u64;
    let numbers: Vec<f64> = (0..x * y * z)
        .map(|i| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Noise on a slope, as in CT.
            ((state >> 40) % 97) as f64 + (i % 512) as f64 - 300.0
        })
        .collect();
    let header = NiftiFile::new(&[x as i64, y as i64, z as i64], 4);
    (gzip(&header.with(&bytes(&numbers, VoxelType::I16, false))), numbers)
}

/// The numbers of a region, out of all.
pub(crate) fn cut(all: &[f64], shape: [usize; 3], region: Region) -> Vec<f64> {
    let [_, rows, columns] = shape;
    let voxels = shape.iter().product::<usize>();
    let mut out = Vec::new();
    for channel in all.chunks_exact(voxels) {
        for z in region.start[0]..region.end()[0] {
            for y in region.start[1]..region.end()[1] {
                let line = (z * rows + y) * columns;
                out.extend_from_slice(&channel[line + region.start[2]..line + region.end()[2]]);
            }
        }
    }
    out
}
