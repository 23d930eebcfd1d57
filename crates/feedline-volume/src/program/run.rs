//! Actions done to voxels.

use crate::act::{ChangeScratch, Scratch, change, move_image, move_mask};
use crate::{Action, ImageChannel, Label, Map, Move, Read, Region, RunError, Shape, Voxels};

/// Buffers that a worker keeps from volume to volume.
#[derive(Debug)]
pub struct Workbench {
    most: usize,
    images: Vec<Vec<f32>>,
    masks: Vec<Vec<Label>>,
    moving: Scratch,
    changing: ChangeScratch,
}

/// Voxels up to which a buffer is kept.
const KEPT: usize = 1 << 26;

/// Voxels between actions.
#[derive(Debug)]
pub(super) struct Intermediate {
    /// Which part of the volume they are.
    region: Region,
    /// The whole volume.
    pub(super) shape: Shape,
    /// Channel by channel.
    pub(super) image: Vec<f32>,
    pub(super) mask: Option<Vec<Label>>,
}

/// Where the last move writes.
pub(super) struct Room<'a> {
    pub(super) image: &'a mut [f32],
    pub(super) mask: Option<&'a mut [Label]>,
}

impl Default for Workbench {
    /// With buffers of any size that the system gives.
    fn default() -> Workbench {
        Workbench {
            most: isize::MAX as usize,
            images: Vec::new(),
            masks: Vec::new(),
            moving: Scratch::default(),
            changing: ChangeScratch::default(),
        }
    }
}

impl Workbench {
    /// Sets how many bytes a result, or what comes between two actions, may take: a file whose spacing is nonsense
    /// would ask for any number.
    pub fn set_most_bytes(&mut self, most: usize) {
        self.most = most;
    }

    /// Fails where a result would take more than it may.
    pub(super) fn check(&self, shape: Shape, bytes: usize) -> Result<(), RunError> {
        let most = self.most;
        if bytes <= most { Ok(()) } else { Err(RunError::TooLarge { bytes, shape, most }) }
    }

    /// Room for a region of a volume.
    pub(super) fn stage(
        &mut self,
        region: Region,
        shape: Shape,
        channels: usize,
        mask: bool,
    ) -> Result<Intermediate, RunError> {
        let voxels = region.voxels().saturating_mul(channels);
        self.check(region.shape, voxels.saturating_mul(size_of::<f32>()))?;
        let mut image = self.images.pop().unwrap_or_default();
        grow(&mut image, voxels)?;
        let mask = if mask {
            let mut mask = self.masks.pop().unwrap_or_default();
            grow(&mut mask, region.voxels())?;
            Some(mask)
        } else {
            None
        };
        Ok(Intermediate { region, shape, image, mask })
    }

    /// Takes room back, but not for ever what one huge volume needed.
    pub(super) fn keep(&mut self, stage: Intermediate) {
        if stage.image.capacity() <= KEPT {
            self.images.push(stage.image);
            self.masks.extend(stage.mask);
        }
    }
}

/// Gives a buffer its length; fails if the system has no such memory.
fn grow<T: Copy + Default>(buffer: &mut Vec<T>, length: usize) -> Result<(), RunError> {
    let bytes = length.saturating_mul(size_of::<T>());
    let more = length.saturating_sub(buffer.len());
    buffer.try_reserve(more).map_err(|_| RunError::NoMemory { bytes })?;
    buffer.resize(length, T::default());
    Ok(())
}

impl Intermediate {
    pub(super) fn room(&mut self) -> Room<'_> {
        Room { image: &mut self.image, mask: self.mask.as_deref_mut() }
    }

    /// Each channel's voxels.
    pub(super) fn slices(&self) -> Vec<&[f32]> {
        self.image.chunks_exact(self.region.voxels().max(1)).collect()
    }

    pub(super) fn channels(&self) -> Vec<ImageChannel<'_>> {
        self.slices().into_iter().map(|data| ImageChannel::plain(Voxels::F32(data))).collect()
    }

    /// As if it had been read.
    pub(super) fn read<'a>(&'a self, channels: &'a [ImageChannel<'a>]) -> Read<'a> {
        let mask = self.mask.as_deref().map(Voxels::I16);
        Read { region: self.region, image: channels, mask }
    }
}

/// What the last buffer holds: more than is needed in the end, where a change takes more.
pub(super) fn cover(actions: &[Action], regions: &[Region]) -> Region {
    let last = actions.iter().rposition(|action| matches!(action, Action::Move(_)));
    regions[last.map_or(0, |last| last + 1)]
}

/// Does the actions to a volume of this shape, given the regions needed before and after each. The room is for
/// [`cover`].
pub(super) fn run(
    read: &Read<'_>,
    shape: Shape,
    actions: &[Action],
    regions: &[Region],
    mut room: Room<'_>,
    bench: &mut Workbench,
) -> Result<(), RunError> {
    let last = actions.iter().rposition(|action| matches!(action, Action::Move(_)));
    let mut stage: Option<Intermediate> = None;
    let mut shape = shape;
    let mut in_room = false;
    if last.is_none() {
        let step = Move::new(shape, shape, Map::IDENTITY);
        moved(read, shape, &step, regions[0], &mut room, bench)?;
        in_room = true;
    }
    for (i, action) in actions.iter().enumerate() {
        match action {
            Action::Move(step) => {
                let before = stage.take();
                let channels = before.as_ref().map(Intermediate::channels);
                let from = match (&before, &channels) {
                    (Some(before), Some(channels)) => before.read(channels),
                    _ => *read,
                };
                if Some(i) == last {
                    moved(&from, shape, step, regions[i + 1], &mut room, bench)?;
                    in_room = true;
                } else {
                    let mut next = bench.stage(
                        regions[i + 1],
                        step.to,
                        read.image.len(),
                        room.mask.is_some(),
                    )?;
                    moved(&from, shape, step, regions[i + 1], &mut next.room(), bench)?;
                    stage = Some(next);
                }
                shape = step.to;
                drop(channels);
                if let Some(before) = before {
                    bench.keep(before);
                }
            }
            Action::Change { channel, change: how } => {
                if !in_room && stage.is_none() {
                    let mut first =
                        bench.stage(regions[i], shape, read.image.len(), room.mask.is_some())?;
                    let step = Move::new(shape, shape, Map::IDENTITY);
                    moved(read, shape, &step, regions[i], &mut first.room(), bench)?;
                    stage = Some(first);
                }
                let (image, cover) = match &mut stage {
                    Some(stage) => (&mut stage.image[..], stage.region),
                    None => (&mut *room.image, regions[last.map_or(0, |last| last + 1)]),
                };
                let voxels = cover.voxels();
                let data = &mut image[channel * voxels..(channel + 1) * voxels];
                change(how, data, cover, regions[i + 1], &mut bench.changing);
            }
        }
    }
    Ok(())
}

/// Makes a region of a new grid, of all channels and the mask.
fn moved(
    from: &Read<'_>,
    shape: Shape,
    step: &Move,
    to: Region,
    room: &mut Room<'_>,
    bench: &mut Workbench,
) -> Result<(), RunError> {
    let voxels = to.voxels();
    for (channel, out) in from.image.iter().zip(room.image.chunks_exact_mut(voxels.max(1))) {
        move_image(channel, from.region, shape, step, to, out, &mut bench.moving);
    }
    if let (Some(mask), Some(out)) = (from.mask, room.mask.as_deref_mut()) {
        move_mask(mask, from.region, shape, step, to, out, &mut bench.moving)?;
    }
    Ok(())
}
