//! Everything random of one volume, drawn.

use feedline_ops::Draw;

use crate::op::{Operation, Scene};
use crate::{Action, Fast, Label, Move, OperationError, Read, Region, RunError, Shape};

use super::run::{Intermediate, Room, Workbench, run};
use super::{MOST_VOXELS, Program, fuse, needs};

/// What is done to one volume.
#[derive(Debug)]
pub struct Drawn<'a> {
    program: &'a Program,
    /// The volume as it is in its file.
    shape: Shape,
    channels: usize,
    region: Region,
    course: PartlyDrawn<'a>,
    /// What the first shared actions have made, where the others had to wait for it.
    made: Option<Intermediate>,
}

/// Actions, as far as they could be drawn.
#[derive(Debug)]
struct PartlyDrawn<'a> {
    /// What is done once, for all patches.
    shared: Vec<Action>,
    /// What is done for each patch then; none while something waits.
    patches: Vec<Vec<Action>>,
    waiting: Option<Waiting<'a>>,
}

/// Operations that cannot be drawn before voxels are seen.
#[derive(Debug)]
struct Waiting<'a> {
    /// Which operation looks.
    operation: usize,
    scene: Scene<'a>,
    /// What the others draw from.
    seed: u64,
}

impl<'a> Drawn<'a> {
    pub(super) fn new(
        program: &'a Program,
        scene: Scene<'a>,
        draw: &mut dyn Draw,
    ) -> Result<Drawn<'a>, OperationError> {
        let (shape, channels) = (scene.shape(), scene.channels);
        let course = course(program, 0, scene, draw)?;
        let region = course.needs(shape).0;
        Ok(Drawn { program, shape, channels, region, course, made: None })
    }

    /// Which voxels of the file must be read, of the image and the mask.
    #[must_use]
    pub fn region(&self) -> Region {
        self.region
    }

    /// The actions of each patch, as far as they could be drawn.
    #[must_use]
    pub fn actions(&self) -> Vec<Vec<Action>> {
        let all = |patch: &Vec<Action>| self.course.shared.iter().chain(patch).cloned().collect();
        self.course.patches.iter().map(all).collect()
    }

    /// The shape of each patch. Where it depends on the voxels, they are looked at now. Fails if all patches together
    /// would take more than [`Workbench::set_most_bytes`] allows.
    pub fn shape(&mut self, read: &Read<'_>, bench: &mut Workbench) -> Result<Shape, RunError> {
        self.look(read, bench)?;
        let patches = &self.course.patches;
        let shape = patches.first().map_or([0; 3], |actions| after(actions, self.start()));
        let voxel = self.channels * self.program.output.image.bytes();
        let bytes = crate::count(shape).saturating_mul(voxel).saturating_mul(patches.len());
        bench.check(shape, bytes)?;
        Ok(shape)
    }

    /// Writes all patches of the image, and of the mask if there is room for it. The room is as large as
    /// [`Program::dimensions`] and [`Drawn::shape`] say.
    pub fn write(
        &mut self,
        read: &Read<'_>,
        bench: &mut Workbench,
        image: &mut [u8],
        mut mask: Option<&mut [u8]>,
    ) -> Result<(), RunError> {
        let shape = self.shape(read, bench)?;
        let (voxels, output) = (crate::count(shape), self.program.output);
        let patches = self.course.patches.len();
        let image_bytes = voxels * self.channels * output.image.bytes();
        let mask_bytes = voxels * output.mask.bytes();
        has_room("the image", image.len(), image_bytes * patches)?;
        if let Some(mask) = &mask {
            has_room("the mask", mask.len(), mask_bytes * patches)?;
        }
        let made = match (self.made.take(), self.course.shared.is_empty()) {
            (Some(made), _) => Some(made),
            (None, true) => None,
            (None, false) => Some(self.share(read, bench, mask.is_some())?),
        };
        let channels = made.as_ref().map(Intermediate::channels);
        let (read, from) = match (&made, &channels) {
            (Some(made), Some(channels)) => (made.read(channels), made.shape),
            _ => (*read, self.shape),
        };
        for (i, actions) in self.course.patches.iter().enumerate() {
            let image = &mut image[i * image_bytes..(i + 1) * image_bytes];
            let mask = mask.as_mut().map(|mask| &mut mask[i * mask_bytes..(i + 1) * mask_bytes]);
            write_patch(&read, from, actions, output, self.channels, bench, image, mask)?;
        }
        if let Some(made) = made {
            bench.keep(made);
        }
        Ok(())
    }

    /// Draws what had to wait for voxels.
    fn look(&mut self, read: &Read<'_>, bench: &mut Workbench) -> Result<(), RunError> {
        self.check(read)?;
        let Some(waiting) = self.course.waiting.take() else { return Ok(()) };
        let made = self.share(read, bench, read.mask.is_some())?;
        let operation = &self.program.operations[waiting.operation];
        let kept = operation.look(&made.slices(), made.shape)?;
        let mut scene = waiting.scene;
        let crop = Action::Move(Move::crop(made.shape, kept.start, kept.shape));
        scene.after(&crop);
        let mut random = Fast::new(waiting.seed);
        let mut rest = course(self.program, waiting.operation + 1, scene, &mut random)?;
        rest.begin_with(crop);
        self.course = rest;
        if self.course.shared.is_empty() {
            self.made = Some(made);
            return Ok(());
        }
        // What patches share after the look is done now as well.
        let channels = made.channels();
        let shared = made.read(&channels);
        let next =
            self.course.share(&shared, made.shape, self.channels, bench, made.mask.is_some())?;
        drop(channels);
        self.course.shared.clear();
        self.made = Some(next);
        bench.keep(made);
        Ok(())
    }

    fn share(
        &self,
        read: &Read<'_>,
        bench: &mut Workbench,
        mask: bool,
    ) -> Result<Intermediate, RunError> {
        self.course.share(read, self.shape, self.channels, bench, mask)
    }

    /// The shape that the patches are made of.
    fn start(&self) -> Shape {
        match &self.made {
            Some(made) => made.shape,
            None => after(&self.course.shared, self.shape),
        }
    }

    fn check(&self, read: &Read<'_>) -> Result<(), RunError> {
        if read.image.len() != self.channels {
            let (got, wanted) = (read.image.len(), self.channels);
            return Err(RunError::Channels { got, wanted });
        }
        let (region, wanted) = (read.region, read.region.voxels());
        if !region.contains(&self.region) || !Region::whole(self.shape).contains(&region) {
            return Err(RunError::Region { got: region, wanted: self.region });
        }
        let channels = read.image.iter().enumerate();
        let channels = channels.map(|(i, channel)| (format!("channel {i}"), channel.voxels.len()));
        let mask = read.mask.map(|mask| ("the mask".to_string(), mask.len()));
        for (what, got) in channels.chain(mask) {
            if got != wanted {
                return Err(RunError::Lengths { what, got, wanted, region });
            }
        }
        Ok(())
    }
}

impl PartlyDrawn<'_> {
    /// What is needed of the file, and of what is shared.
    fn needs(&self, shape: Shape) -> (Region, Region) {
        let middle = after(&self.shared, shape);
        let of_patches = self.patches.iter().map(|actions| {
            let result = Region::whole(after(actions, middle));
            needs::regions(actions, middle, result)[0]
        });
        let all = of_patches.reduce(|a, b| a.joined(&b)).unwrap_or(Region::whole(middle));
        (needs::regions(&self.shared, shape, all)[0], all)
    }

    /// Does what is shared.
    fn share(
        &self,
        read: &Read<'_>,
        shape: Shape,
        channels: usize,
        bench: &mut Workbench,
        mask: bool,
    ) -> Result<Intermediate, RunError> {
        let (_, last) = self.needs(shape);
        let regions = needs::regions(&self.shared, shape, last);
        let cover = super::run::cover(&self.shared, &regions);
        let mut stage = bench.stage(cover, after(&self.shared, shape), channels, mask)?;
        run(read, shape, &self.shared, &regions, stage.room(), bench)?;
        Ok(stage)
    }

    /// Puts an action before all others.
    fn begin_with(&mut self, action: Action) {
        let chains: Vec<&mut Vec<Action>> = if self.shared.is_empty() {
            self.patches.iter_mut().collect()
        } else {
            vec![&mut self.shared]
        };
        for chain in chains {
            let mut longer = vec![action.clone()];
            std::mem::take(chain).into_iter().for_each(|next| fuse::push(&mut longer, next));
            *chain = longer;
        }
    }
}

/// Draws the operations from number `first` on.
fn course<'a>(
    program: &'a Program,
    first: usize,
    mut scene: Scene<'a>,
    draw: &mut dyn Draw,
) -> Result<PartlyDrawn<'a>, OperationError> {
    let operations = &program.operations;
    let mut shared = Vec::new();
    for (i, operation) in operations.iter().enumerate().skip(first) {
        if operation.looks() {
            let waiting = Waiting { operation: i, scene, seed: draw.next_u64() };
            return Ok(PartlyDrawn { shared, patches: Vec::new(), waiting: Some(waiting) });
        }
        if operation.patches() > 1 {
            let mut patches = Vec::new();
            for _ in 0..operation.patches() {
                let (mut scene, mut actions) = (scene.clone(), Vec::new());
                for operation in &operations[i..] {
                    add(&**operation, &mut scene, draw, &mut actions)?;
                }
                patches.push(actions);
            }
            let mut course = PartlyDrawn { shared: Vec::new(), patches, waiting: None };
            match &shared[..] {
                // One move is a part of each patch's own, so that the patches are read and not what lies between.
                [Action::Move(_)] => course.begin_with(shared.remove(0)),
                _ => course.shared = shared,
            }
            return Ok(course);
        }
        add(&**operation, &mut scene, draw, &mut shared)?;
    }
    Ok(PartlyDrawn { shared: Vec::new(), patches: vec![shared], waiting: None })
}

/// Draws one operation.
fn add(
    operation: &dyn Operation,
    scene: &mut Scene<'_>,
    draw: &mut dyn Draw,
    actions: &mut Vec<Action>,
) -> Result<(), OperationError> {
    let mut drawn = Vec::new();
    operation.draw(scene, draw, &mut drawn)?;
    for action in drawn {
        let before = scene.shape();
        scene.after(&action);
        let shape = scene.shape();
        if crate::count(shape) > MOST_VOXELS {
            let (call, limit) = (operation.to_string(), MOST_VOXELS);
            return Err(OperationError::TooLarge { call, before, shape, limit });
        }
        fuse::push(actions, action);
    }
    scene.flat = scene.flat.or(operation.flattens());
    Ok(())
}

/// The shape after some actions.
fn after(actions: &[Action], shape: Shape) -> Shape {
    actions.iter().fold(shape, |shape, action| match action {
        Action::Move(step) => step.to,
        Action::Change { .. } => shape,
    })
}

fn has_room(what: &'static str, got: usize, wanted: usize) -> Result<(), RunError> {
    if got == wanted { Ok(()) } else { Err(RunError::Room { what, got, wanted }) }
}

/// Makes one patch and writes it as its number types.
#[allow(clippy::too_many_arguments)]
fn write_patch(
    read: &Read<'_>,
    from: Shape,
    actions: &[Action],
    output: crate::Output,
    channels: usize,
    bench: &mut Workbench,
    image: &mut [u8],
    mut mask: Option<&mut [u8]>,
) -> Result<(), RunError> {
    let whole = Region::whole(after(actions, from));
    let regions = needs::regions(actions, from, whole);
    // Straight into the result, where it has the type that is computed with.
    let straight_image =
        output.image == crate::Dtype::F32 && bytemuck::try_cast_slice_mut::<u8, f32>(image).is_ok();
    let straight_mask = output.mask == crate::MaskDtype::I16
        && mask
            .as_deref_mut()
            .is_none_or(|mask| bytemuck::try_cast_slice_mut::<u8, Label>(mask).is_ok());
    let mut spare = bench.stage(
        whole,
        whole.shape,
        if straight_image { 0 } else { channels },
        !straight_mask && mask.is_some(),
    )?;
    {
        let room = Room {
            image: if straight_image { bytemuck::cast_slice_mut(image) } else { &mut spare.image },
            mask: match (&mut mask, spare.mask.as_mut()) {
                (None, _) => None,
                (Some(_), Some(spare)) => Some(&mut spare[..]),
                (Some(mask), None) => bytemuck::try_cast_slice_mut::<u8, Label>(mask).ok(),
            },
        };
        run(read, from, actions, &regions, room, bench)?;
    }
    if !straight_image {
        output.image.write(&spare.image, image);
    }
    if let (Some(mask), Some(labels)) = (mask, &spare.mask) {
        output.mask.write(labels, mask).map_err(|label| RunError::MaskType { label })?;
    }
    bench.keep(spare);
    Ok(())
}
