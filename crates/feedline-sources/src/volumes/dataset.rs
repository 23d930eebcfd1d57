//! Volumes as a dataset of tensors: draw, read what is needed, and write straight into the batch.

use std::cell::Cell;
use std::sync::Arc;

use feedline_core::plan::Stream;
use feedline_core::{Cause, DType, Dataset, Field, Ragged, Sample, SampleIndex, SampleKey, Stage};
use feedline_volume::{
    Action, Draw, Dtype, Foreground, ImageChannel, MaskDtype, OperationError, Program, Read,
    Region, Voxels, Workbench,
};

use super::buffer::VoxelBuffer;
use super::classes::ClassPlaces;
use super::error::VolumeError;
use super::file::VolumeFile;
use super::set::{VolumeCase, VolumeSet};
use crate::escaped;

/// Volumes of a [`VolumeSet`], made into tensors by a [`Program`]. Fields are `image`, of shape (channels, z, y, x), and
/// `mask`, of shape (z, y, x), where the set has masks; see [`Program::dimensions`].
///
/// ```no_run
/// use std::ops::ControlFlow;
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use feedline_core::Loader;
/// use feedline_sources::volumes::{VolumeOptions, VolumeSet, Volumes, layout};
/// use feedline_volume::op::{CropPlace, RandomCrop, ZScore};
/// use feedline_volume::{Output, Program};
///
/// let paths = layout::nnunet(Path::new("nnUNet_raw/Dataset001"))?;
/// let set = VolumeSet::open(paths, &VolumeOptions::default(), &mut |_| ControlFlow::Continue(()))?;
/// let crop = RandomCrop::new([96, 96, 96], CropPlace::Anywhere, 1)?;
/// let program = Program::new(vec![Arc::new(crop), Arc::new(ZScore::new(false))], Output::default())?;
/// let loader = Loader::builder(Volumes::new(Arc::new(set), program)?).batch_size(2).shuffle(1).build()?;
/// for batch in loader.epoch() {
///     assert_eq!(batch?.get("mask").expect("the second field").shape(), [2, 96, 96, 96]);
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct Volumes {
    set: Arc<VolumeSet>,
    program: Program,
    /// Whether masks are delivered.
    masks: bool,
    fields: Vec<Field>,
    places: Arc<ClassPlaces>,
}

/// What a worker keeps from sample to sample.
#[derive(Default)]
struct PatchBuffers {
    images: Vec<VoxelBuffer>,
    mask: VoxelBuffer,
    bench: Workbench,
    /// Labels that are put into the batch when they are whole.
    mask_made: VoxelBuffer,
}

/// Bytes up to which a worker keeps each buffer: one huge volume must not cost memory for ever.
const KEPT: usize = 1 << 27;

thread_local! {
    /// One per worker thread, reused by whatever dataset it works for.
    static BUFFERS: Cell<Option<Box<PatchBuffers>>> = const { Cell::new(None) };
}

/// A sample's random stream, as operations draw from it.
struct VolumeDraw(Stream);

impl Draw for VolumeDraw {
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Volumes {
    /// All samples of a set. Fails if crops need to know where classes are and there are no masks.
    pub fn new(set: Arc<VolumeSet>, program: Program) -> Result<Volumes, OperationError> {
        if program.needs_foreground() && !set.has_masks() {
            let call = program.describe().into_iter().find(|call| call.contains("foreground="));
            let call = call.unwrap_or_else(|| program.describe().join(", "));
            return Err(OperationError::NoMask { call });
        }
        let masks = set.has_masks();
        let mut volumes =
            Volumes { set, program, masks, fields: Vec::new(), places: Arc::default() };
        volumes.fields = volumes.declared();
        Ok(volumes)
    }

    /// The set.
    #[must_use]
    pub fn set(&self) -> &Arc<VolumeSet> {
        &self.set
    }

    /// What is done to volumes.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Draws what is done to a sample: the region that is read, and the actions of each patch as far as they are drawn
    /// without the voxels. `key` is what it depends on.
    pub fn draw(
        &self,
        index: SampleIndex,
        key: SampleKey,
    ) -> Result<(Region, Vec<Vec<Action>>), Cause> {
        let (case, number) = self.case(index)?;
        let places = self.places(case, number, &mut |_| {})?;
        let mut draws = VolumeDraw(key.stream());
        let drawn =
            self.program.draw(case.geometry(), case.channels(), places.as_deref(), &mut draws)?;
        Ok((drawn.region(), drawn.actions()))
    }

    fn declared(&self) -> Vec<Field> {
        let output = self.program.output();
        let image = match output.image {
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::Bf16 => DType::Bf16,
        };
        let mask = match output.mask {
            MaskDtype::U8 => DType::U8,
            MaskDtype::I16 => DType::I16,
            MaskDtype::I32 => DType::I32,
            MaskDtype::I64 => DType::I64,
        };
        let mut fields = vec![field("image", image, self.program.dimensions(self.set.channels()))];
        if self.masks {
            fields.push(field("mask", mask, self.program.dimensions(0)));
        }
        fields
    }

    fn case(&self, index: SampleIndex) -> Result<(&VolumeCase, usize), Cause> {
        let number = usize::try_from(index.0).unwrap_or(usize::MAX);
        match self.set.case(number) {
            Some(Ok(case)) => Ok((case, number)),
            Some(Err(error)) => Err(Box::new(Arc::clone(error))),
            None => Err(format!("there is no sample {}", index.0).into()),
        }
    }

    /// Where the classes are, if that must be known.
    fn places(
        &self,
        case: &VolumeCase,
        number: usize,
        stage: &mut dyn FnMut(Stage),
    ) -> Result<Option<Arc<Foreground>>, VolumeError> {
        match case.mask() {
            Some(mask) if self.program.needs_foreground() => {
                self.places.of(number, mask, stage).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Writes every field.
    fn write(&self, sample: &mut Sample<'_>, memory: &mut PatchBuffers) -> Result<(), Cause> {
        let (case, number) = self.case(sample.index())?;
        sample.begin(Stage::Load);
        let places = self.places(case, number, &mut |stage| sample.begin(stage))?;
        let mut draws = VolumeDraw(sample.rng());
        let channels = case.channels();
        let mut drawn =
            self.program.draw(case.geometry(), channels, places.as_deref(), &mut draws)?;
        let region = drawn.region();

        let PatchBuffers { images, mask, bench, mask_made } = memory;
        images.resize_with(case.images().len().max(images.len()), VoxelBuffer::default);
        for (file, buffer) in case.images().iter().zip(images.iter_mut()) {
            fetch(file, region, buffer, sample)?;
        }
        let mask_file = case.mask().filter(|_| self.masks);
        if let Some(file) = mask_file {
            fetch(file, region, mask, sample)?;
        }

        sample.begin(Stage::Transform);
        let mut parts = Vec::with_capacity(channels);
        for (file, buffer) in case.images().iter().zip(images.iter()) {
            let header = file.header();
            let (slope, intercept) = (header.slope(), header.intercept());
            let all = voxels(file, region, header.channels(), buffer)?;
            for channel in 0..header.channels() {
                let one = region.voxels();
                let voxels = all.part(channel * one..(channel + 1) * one);
                parts.push(ImageChannel { voxels, slope, intercept });
            }
        }
        let labels = mask_file.map(|file| voxels(file, region, 1, mask)).transpose()?;
        let read = Read { region, image: &parts, mask: labels };
        let most = case.images().iter().map(VolumeFile::max_bytes).max().unwrap_or(0);
        bench.set_most_bytes(usize::try_from(most).unwrap_or(usize::MAX));
        let shape = drawn.shape(&read, bench)?;
        let output = self.program.output();
        let made = feedline_volume::count(shape).saturating_mul(self.program.patches());
        let mask_bytes = made.saturating_mul(output.mask.bytes());
        // The image is written in place, and the mask, which is smaller, when it is whole: a sample lends one field at
        // a time.
        let mask_room = match mask_file {
            Some(file) => {
                let room = mask_made.room(mask_bytes);
                Some(room.map_err(|problem| VolumeError::new(file.path(), problem))?)
            }
            None => None,
        };
        let dimensions = self.filled(self.program.dimensions(channels), shape);
        drawn.write(&read, bench, sample.view_elements(0, &dimensions)?, mask_room)?;
        if mask_file.is_some() {
            let dimensions = self.filled(self.program.dimensions(0), shape);
            sample.put_elements(1, &dimensions, mask_made.bytes(mask_bytes))?;
        }
        Ok(())
    }

    /// The dimensions of a result, with those that vary.
    fn filled(&self, dimensions: Vec<Option<usize>>, shape: [usize; 3]) -> Vec<usize> {
        let flat = self.program.extent().flat;
        let sides: Vec<usize> =
            (0..3).filter(|axis| flat != Some(*axis)).map(|axis| shape[axis]).collect();
        let first = dimensions.len() - sides.len();
        let known = |at: usize| at.checked_sub(first).map_or(1, |side| sides[side]);
        dimensions.iter().enumerate().map(|(at, side)| side.unwrap_or_else(|| known(at))).collect()
    }
}

fn field(name: &str, dtype: DType, dimensions: Vec<Option<usize>>) -> Field {
    match dimensions.iter().copied().collect::<Option<Vec<usize>>>() {
        Some(shape) => Field::fixed(name, dtype, shape),
        None => Field::ragged(name, dtype, dimensions, Ragged::PadToLongest { fill: 0.0 }),
    }
}

/// Reads a region of all channels of a file.
fn fetch(
    file: &VolumeFile,
    region: Region,
    buffer: &mut VoxelBuffer,
    sample: &mut Sample<'_>,
) -> Result<(), VolumeError> {
    let channels = 0..file.header().channels();
    let bytes = file.bytes_of(channels.clone(), region)?;
    let room = buffer.room(bytes).map_err(|problem| VolumeError::new(file.path(), problem))?;
    file.read_watched(channels, region, room, &mut |stage| sample.begin(stage))?;
    Ok(())
}

/// What was read of a file, as numbers of its type.
fn voxels<'a>(
    file: &VolumeFile,
    region: Region,
    channels: usize,
    buffer: &'a VoxelBuffer,
) -> Result<Voxels<'a>, Cause> {
    let kind = file.header().voxel_type();
    let bytes = buffer.bytes(region.voxels() * channels * kind.bytes());
    Voxels::of_bytes(kind, bytes).ok_or_else(|| "its voxels are not whole".into())
}

impl Dataset for Volumes {
    fn len(&self) -> u64 {
        self.set.len() as u64
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    /// Reads, too: which part of a volume is wanted is drawn from the sample's random numbers.
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        // After an error or a panic the memory is lost with it and made anew.
        let mut memory = BUFFERS.take().unwrap_or_default();
        self.write(sample, &mut memory)?;
        let PatchBuffers { images, mask, mask_made, .. } = &mut *memory;
        let all = images.iter_mut().chain([mask, mask_made]);
        all.for_each(|buffer| buffer.keep_at_most(KEPT));
        BUFFERS.set(Some(memory));
        Ok(())
    }

    /// Images without their masks.
    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        if fields != [0] || !self.masks {
            return None;
        }
        Some(Arc::new(Volumes {
            set: Arc::clone(&self.set),
            program: self.program.clone(),
            masks: false,
            fields: vec![self.fields[0].clone()],
            places: Arc::clone(&self.places),
        }))
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        let (case, _) = self.case(index).ok()?;
        Some(case.bytes())
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        let paths = self.set.paths(usize::try_from(index.0).ok()?)?;
        let first = paths.images.first()?;
        Some(escaped(first.as_os_str().as_encoded_bytes()).to_string())
    }
}
