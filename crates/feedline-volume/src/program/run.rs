//! Actions done to voxels.

use crate::act::{ChangeScratch, Scratch, change, move_image, move_mask};
use crate::{Action, ImageChannel, Label, Map, Move, Read, Region, RunError, Shape, Voxels};

/// Buffers that a worker keeps from volume to volume.
#[derive(Debug, Default)]
pub struct Workbench {
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

impl Workbench {
    /// Room for a region of a volume.
    pub(super) fn stage(
        &mut self,
        region: Region,
        shape: Shape,
        channels: usize,
        mask: bool,
    ) -> Intermediate {
        let mut image = self.images.pop().unwrap_or_default();
        image.resize(region.voxels() * channels, 0.0);
        let mask = mask.then(|| {
            let mut mask = self.masks.pop().unwrap_or_default();
            mask.resize(region.voxels(), 0);
            mask
        });
        Intermediate { region, shape, image, mask }
    }

    /// Takes room back, but not for ever what one huge volume needed.
    pub(super) fn keep(&mut self, stage: Intermediate) {
        if stage.image.capacity() <= KEPT {
            self.images.push(stage.image);
            self.masks.extend(stage.mask);
        }
    }
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
                    let mut next =
                        bench.stage(regions[i + 1], step.to, read.image.len(), room.mask.is_some());
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
                        bench.stage(regions[i], shape, read.image.len(), room.mask.is_some());
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
