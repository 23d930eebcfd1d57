//! Where the classes of masks are: found when a mask is first wanted, then kept in the cache folder.
//!
//! ```text
//! magic "FLCLASS2"   bytes of all that follows the checksum, and their checksum (xxh3)
//! how it was read    a checksum of what the header says about the numbers
//! what it is about   of each data file: path, length, time of change, inode; when it was made
//! the classes        label, how many voxels, the numbers of some of them
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use feedline_core::Stage;
use feedline_volume::{ClassVoxels, Foreground, Region, Voxels, count};
use twox_hash::XxHash3_64;

use super::buffer::VoxelBuffer;
use super::error::{VolumeError, VolumeProblem};
use super::file::VolumeFile;
use super::header::{DataPlace, VolumeHeader};
use super::kept::{About, NumberReader, put, put_bytes, read_table, write_table};
use crate::sync::lock;

const MAGIC: &[u8; 8] = b"FLCLASS2";
/// Voxels of a class that are kept, as in nnU-Net: equally likely ones, always the same.
const MOST: usize = 10_000;
const SEED: u64 = 1;
/// Bytes of places that are held in memory.
const HELD: usize = 64 << 20;

/// The places of classes that were looked at.
#[derive(Debug, Default)]
pub(super) struct ClassPlaces {
    held: Mutex<HeldPlaces>,
}

#[derive(Debug, Default)]
struct HeldPlaces {
    by_sample: HashMap<usize, Arc<Foreground>>,
    bytes: usize,
}

impl ClassPlaces {
    /// Those of a sample's mask.
    pub(super) fn of(
        &self,
        sample: usize,
        mask: &VolumeFile,
        stage: &mut dyn FnMut(Stage),
    ) -> Result<Arc<Foreground>, VolumeError> {
        let there = lock(&self.held).by_sample.get(&sample).map(Arc::clone);
        if let Some(there) = there {
            return Ok(there);
        }
        let found = Arc::new(find(mask, stage)?);
        let bytes =
            64 + found.classes().iter().map(|class| 64 + class.kept.len() * 8).sum::<usize>();
        let mut held = lock(&self.held);
        if held.bytes + bytes <= HELD && held.by_sample.insert(sample, Arc::clone(&found)).is_none()
        {
            held.bytes += bytes;
        }
        Ok(found)
    }
}

/// The places of a mask's classes, from the cache folder or from the mask.
fn find(mask: &VolumeFile, stage: &mut dyn FnMut(Stage)) -> Result<Foreground, VolumeError> {
    let header = mask.header();
    let file = mask.cache().and_then(|folder| ClassFile::of(folder, header));
    let shape = header.shape();
    let voxels = count(shape) as u64;
    if let Some(kept) = file.as_ref().and_then(|file| file.read(voxels)) {
        return Ok(kept);
    }
    let made = SystemTime::now();
    let region = Region::whole(shape);
    let mut buffer = VoxelBuffer::default();
    let bytes = mask.bytes_of(0..1, region)?;
    let room = buffer.room(bytes).map_err(|problem| VolumeError::new(mask.path(), problem))?;
    mask.read_watched(0..1, region, room, stage)?;
    stage(Stage::Decode);
    let found = Voxels::of_bytes(header.voxel_type, room)
        .map_or(Ok(Foreground::default()), |labels| Foreground::of(labels, shape, MOST, SEED))
        .map_err(|error| VolumeError::new(mask.path(), VolumeProblem::Label(error)))?;
    if let Some(file) = file {
        file.write(&found, made);
    }
    Ok(found)
}

/// Where the places of one mask are kept.
struct ClassFile {
    path: PathBuf,
    /// How the numbers were read: a header that was corrected tells other voxels of the same files.
    reading: u64,
    /// The state of each data file.
    about: Vec<About>,
}

impl ClassFile {
    /// None for a volume without files.
    fn of(folder: &Path, header: &VolumeHeader) -> Option<ClassFile> {
        let DataPlace { files, share, encoding, before, big_endian, strides, channel_stride } =
            &header.place;
        let layout = (share, encoding, before, big_endian, strides, channel_stride);
        let reading = format!("{:?}", (header.voxel_type, header.shape(), layout));
        let about: Vec<_> =
            files.iter().map(|data| About::of(&data.path, data.stamp, data.start)).collect();
        let name = about.first()?.name();
        let path = folder.join(format!("{name:016x}.classes"));
        Some(ClassFile { path, reading: XxHash3_64::oneshot(reading.as_bytes()), about })
    }

    fn read(&self, voxels: u64) -> Option<Foreground> {
        let body = read_table(&self.path, MAGIC)?;
        let mut from = NumberReader(&body);
        let read_alike = from.number() == Some(self.reading);
        if !read_alike || !self.about.iter().all(|about| about.is(&mut from)) {
            return None;
        }
        let mut classes = Vec::new();
        for _ in 0..from.count(24)? {
            let label = i16::try_from(from.number()?.cast_signed()).ok()?;
            let count = from.number()?;
            let mut kept = Vec::new();
            for place in from.bytes()?.as_chunks::<8>().0 {
                kept.push(u64::from_le_bytes(*place));
            }
            if kept.iter().any(|place| *place >= voxels) {
                return None;
            }
            classes.push(ClassVoxels { label, count, kept });
        }
        from.0.is_empty().then(|| Foreground::of_classes(classes))
    }

    /// Keeps the places, if the folder lets it. `made` is when the mask was begun to be read.
    fn write(&self, found: &Foreground, made: SystemTime) {
        let mut to = Vec::new();
        put(&mut to, self.reading);
        self.about.iter().for_each(|about| about.put(&mut to, made));
        put(&mut to, found.classes().len() as u64);
        for class in found.classes() {
            put(&mut to, i64::from(class.label).cast_unsigned());
            put(&mut to, class.count);
            let places: Vec<u8> = class.kept.iter().flat_map(|place| place.to_le_bytes()).collect();
            put_bytes(&mut to, &places);
        }
        // Failing to keep them costs time at the next start and nothing else.
        let _ = write_table(&self.path, MAGIC, &to);
    }
}
