//! A made scan with a mask, in memory.

use feedline_volume::{
    Draw, Geometry, ImageChannel, Label, Program, Read, Region, Voxels, Workbench,
};

/// Voxels, and where they are.
pub(crate) struct Scan {
    geometry: Geometry,
    image: Vec<f32>,
    mask: Vec<Label>,
}

impl Scan {
    /// Organs as balls of three labels in noise.
    pub(crate) fn new(shape: [usize; 3], spacing: [f64; 3]) -> anyhow::Result<Scan> {
        let geometry = Geometry::with_spacing(shape, spacing)?;
        let [planes, rows, columns] = shape;
        let (mut image, mut mask) = (Vec::new(), Vec::new());
        let mut noise = Numbers(7);
        for z in 0..planes {
            for y in 0..rows {
                for x in 0..columns {
                    let label = (0..3).rev().find(|ball| inside(*ball, [z, y, x], shape));
                    let label = label.map_or(0, |ball| ball as Label + 1);
                    image.push(f32::from(label) * 0.8 + (noise.unit() - 0.5) as f32);
                    mask.push(label);
                }
            }
        }
        Ok(Scan { geometry, image, mask })
    }

    /// Makes what a program makes of the whole scan, drawn from this seed.
    pub(crate) fn run(
        &self,
        program: &Program,
        seed: u64,
        bench: &mut Workbench,
        made: &mut Made,
    ) -> anyhow::Result<()> {
        let mut drawn = program.draw(&self.geometry, 1, None, &mut Numbers(seed))?;
        let image = [ImageChannel::plain(Voxels::F32(&self.image))];
        let region = Region::whole(self.geometry.shape());
        let read = Read { region, image: &image, mask: Some(Voxels::I16(&self.mask)) };
        let voxels = feedline_volume::count(drawn.shape(&read, bench)?);
        made.image.resize(voxels, 0.0);
        made.mask.resize(voxels, 0);
        let mask = bytemuck::cast_slice_mut(&mut made.mask);
        drawn.write(&read, bench, bytemuck::cast_slice_mut(&mut made.image), Some(mask))?;
        Ok(())
    }
}

/// Whether a voxel is in one of the three balls.
pub(crate) fn inside(ball: usize, at: [usize; 3], shape: [usize; 3]) -> bool {
    let middle = [[0.35, 0.4, 0.45], [0.6, 0.55, 0.4], [0.5, 0.5, 0.7]][ball];
    let distance = |axis: usize| at[axis] as f64 / shape[axis] as f64 - middle[axis];
    (0..3).map(|axis| distance(axis).powi(2)).sum::<f64>() < [0.07, 0.03, 0.01][ball]
}

/// What a program made.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) image: Vec<f32>,
    pub(crate) mask: Vec<Label>,
}

/// Random numbers (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Draw for Numbers {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
