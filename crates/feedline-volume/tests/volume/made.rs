//! Volumes to test with, and programs run on them.

use std::sync::Arc;

use feedline_volume::op::Operation;
use feedline_volume::{
    Draw, Drawn, Foreground, Geometry, ImageChannel, Label, Output, Program, Read, Region,
    RunError, Shape, Voxels, Workbench, count,
};

/// SplitMix64: small, and good enough to test with.
pub(crate) struct Splitmix(pub(crate) u64);

impl Draw for Splitmix {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

pub(crate) fn program(operations: Vec<Arc<dyn Operation>>) -> Program {
    Program::new(operations, Output::default()).expect("a chain that can be")
}

/// A volume with blobs of a few labels.
pub(crate) struct Volume {
    pub(crate) shape: Shape,
    pub(crate) image: Vec<i16>,
    pub(crate) mask: Vec<u8>,
}

impl Volume {
    pub(crate) fn new(shape: Shape) -> Volume {
        let [_, rows, columns] = shape;
        let place = |i: usize| [i / (rows * columns), i / columns % rows, i % columns];
        let image = |i: usize| {
            let [z, y, x] = place(i).map(|x| x as f64);
            (500.0 * (0.31 * z).sin() + 300.0 * (0.17 * y + 0.05 * x).cos() + 7.0 * x) as i16
        };
        let mask = |i: usize| {
            let [z, y, x] = place(i);
            (((z / 5) + (y / 7) * 2 + (x / 6)) % 4) as u8
        };
        let voxels = 0..count(shape);
        Volume {
            shape,
            image: voxels.clone().map(image).collect(),
            mask: voxels.map(mask).collect(),
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        Geometry::with_spacing(self.shape, [2.5, 0.8, 0.7]).expect("a geometry")
    }

    pub(crate) fn foreground(&self) -> Foreground {
        Foreground::of(Voxels::U8(&self.mask), self.shape, 500, 1).expect("labels")
    }

    /// What a reader of files gives for a region.
    fn cut<T: Copy>(&self, voxels: &[T], region: Region) -> Vec<T> {
        let [_, rows, columns] = self.shape;
        let mut out = Vec::new();
        for z in region.start[0]..region.end()[0] {
            for y in region.start[1]..region.end()[1] {
                let line = (z * rows + y) * columns;
                out.extend_from_slice(&voxels[line + region.start[2]..line + region.end()[2]]);
            }
        }
        out
    }

    /// The result of what was drawn, given the voxels of a region.
    pub(crate) fn run(
        &self,
        drawn: &mut Drawn<'_>,
        region: Region,
        patches: usize,
    ) -> Result<(Vec<f32>, Vec<Label>), RunError> {
        let (image, mask) = (self.cut(&self.image, region), self.cut(&self.mask, region));
        let channels = [ImageChannel::plain(Voxels::I16(&image))];
        let read = Read { region, image: &channels, mask: Some(Voxels::U8(&mask)) };
        let mut bench = Workbench::default();
        let shape = drawn.shape(&read, &mut bench)?;
        let mut image = vec![0f32; count(shape) * patches];
        let mut mask = vec![0 as Label; count(shape) * patches];
        drawn.write(
            &read,
            &mut bench,
            bytemuck::cast_slice_mut(&mut image),
            Some(bytemuck::cast_slice_mut(&mut mask)),
        )?;
        Ok((image, mask))
    }
}
