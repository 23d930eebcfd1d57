//! A picture with the statistics of a photograph.
//!
//! Photographs have most of their power in coarse structure: amplitude falls with about 1 / frequency.
//! Here that is a sum of smooth noise, each octave twice as fine and a little more than half as strong, for
//! brightness and, weaker and coarser, for colour; a gradient of light from above; a few objects with edges,
//! shading and a texture of their own; and the grain of a sensor. How much fine texture there is differs
//! from picture to picture, so that file sizes spread as those of photographs do.

use super::random::SplitMix;

/// An RGB picture.
#[derive(Debug)]
pub(super) struct SyntheticPicture {
    pub(super) width: u16,
    pub(super) height: u16,
    /// Rows of red, green and blue.
    pub(super) pixels: Vec<u8>,
}

/// An ellipse with a colour, a light side and a texture.
struct Thing {
    center: (f32, f32),
    radii: (f32, f32),
    turn: (f32, f32),
    colour: [f32; 3],
    texture: f32,
}

impl SyntheticPicture {
    /// The picture of an index.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        let mut random = SplitMix::new(seed, index);
        let (width, height) = match random.below(10) {
            0..=5 => (500, 375),
            6 | 7 => (375, 500),
            8 => (500, 333),
            _ => (500, 400),
        };
        let detail = random.between(1.4, 3.0);
        let brightness = Noise::new(&mut random, width, height, 8, 0.7, detail);
        let warmth = Noise::new(&mut random, width, height, 4, 0.5, 1.0);
        let tint = Noise::new(&mut random, width, height, 4, 0.5, 1.0);
        let count = 12 + random.below(48);
        let things: Vec<Thing> =
            (0..count).map(|_| Thing::new(&mut random, width, height)).collect();
        let base = muted(&mut random, 0.25, 0.7);
        let fall = random.between(-0.3, 0.3);
        let grain = random.between(0.012, 0.03);
        let mut pixels = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            let light = fall * (0.5 - y as f32 / height as f32);
            for x in 0..width {
                let place = y * width + x;
                let noise = brightness.values[place];
                let (warm, green) = (warmth.values[place] * 0.25, tint.values[place] * 0.18);
                let mut colour = [
                    base[0] + light + noise * 0.5 + warm,
                    base[1] + light + noise * 0.5 + green,
                    base[2] + light + noise * 0.5 - warm,
                ];
                for thing in &things {
                    thing.paint(&mut colour, (x as f32, y as f32), noise);
                }
                let speckle = (random.unit() + random.unit() - 1.0) * grain * 2.0;
                pixels.extend(colour.map(|it| ((it + speckle).clamp(0.0, 1.0) * 255.0) as u8));
            }
        }
        Self { width: width as u16, height: height as u16, pixels }
    }
}

impl Thing {
    fn new(random: &mut SplitMix, width: usize, height: usize) -> Self {
        let (width, height) = (width as f32, height as f32);
        let angle = random.between(0.0, std::f32::consts::TAU);
        // Many small things and few large ones, as in the world.
        let size = 0.012 + 0.22 * random.unit().powi(3);
        Self {
            center: (random.between(0.0, width), random.between(0.2 * height, height)),
            radii: (
                size * width * random.between(0.5, 1.5),
                size * height * random.between(0.5, 1.5),
            ),
            turn: (angle.cos(), angle.sin()),
            colour: muted(random, 0.05, 0.9),
            texture: random.between(0.1, 0.9),
        }
    }

    /// Covers the colour where the thing is, with an edge about two pixels wide.
    fn paint(&self, colour: &mut [f32; 3], (x, y): (f32, f32), noise: f32) {
        let (dx, dy) = (x - self.center.0, y - self.center.1);
        let along = (dx * self.turn.0 + dy * self.turn.1) / self.radii.0;
        let across = (dy * self.turn.0 - dx * self.turn.1) / self.radii.1;
        let distance = along * along + across * across;
        if distance > 1.1 {
            return;
        }
        let soft = 2.0 / self.radii.0.min(self.radii.1);
        let cover = ((1.0 - distance) / soft + 0.5).clamp(0.0, 1.0);
        let shade = 0.75 + 0.35 * (1.0 - distance.min(1.0)) - 0.25 * across;
        for (value, own) in colour.iter_mut().zip(self.colour) {
            let painted = own * shade + noise * self.texture;
            *value += (painted - *value) * cover;
        }
    }
}

/// A colour between two levels of gray, not far from gray: few things are as bright as paint.
fn muted(random: &mut SplitMix, low: f32, high: f32) -> [f32; 3] {
    let gray = random.between(low, high);
    [0, 1, 2].map(|_| gray + random.between(-0.16, 0.16))
}

/// Smooth noise around zero.
struct Noise {
    values: Vec<f32>,
}

impl Noise {
    /// Octaves from the whole picture down; `fall` is how much weaker each is than the one before, `detail`
    /// how strong the finest are.
    fn new(
        random: &mut SplitMix,
        width: usize,
        height: usize,
        octaves: u32,
        fall: f32,
        detail: f32,
    ) -> Self {
        let mut values = vec![0.0; width * height];
        let mut strength = 0.8;
        for octave in 0..octaves {
            let cells = 3usize << octave;
            let power = if octave >= 4 { strength * detail } else { strength };
            add_octave(&mut values, random, (width, height), cells, power);
            strength *= fall;
        }
        Self { values }
    }
}

/// Adds noise with `cells` random values along the longer side, smoothly joined.
fn add_octave(
    values: &mut [f32],
    random: &mut SplitMix,
    (width, height): (usize, usize),
    cells: usize,
    power: f32,
) {
    let size = width.max(height) as f32 / cells as f32;
    let columns = (width as f32 / size) as usize + 2;
    let rows = (height as f32 / size) as usize + 2;
    let knots: Vec<f32> = (0..columns * rows).map(|_| (random.unit() - 0.5) * power).collect();
    let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
    let across: Vec<(usize, f32)> =
        (0..width).map(|x| x as f32 / size).map(|x| (x as usize, smooth(x.fract()))).collect();
    for (y, row) in values.chunks_exact_mut(width).enumerate() {
        let at = y as f32 / size;
        let (cell, down) = (at as usize, smooth(at.fract()));
        let (upper, lower) = (&knots[cell * columns..], &knots[(cell + 1) * columns..]);
        for (value, (column, share)) in row.iter_mut().zip(&across) {
            let above = upper[*column] + (upper[column + 1] - upper[*column]) * share;
            let below = lower[*column] + (lower[column + 1] - lower[*column]) * share;
            *value += above + (below - above) * down;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbours in a photograph are alike, and fine differences are small against coarse ones; in noise
    /// neither holds.
    #[test]
    fn pictures_are_no_noise() {
        for index in 0..6 {
            let picture = SyntheticPicture::new(1, index);
            let (width, height) = (usize::from(picture.width), usize::from(picture.height));
            let gray = |x: usize, y: usize| {
                let at = (y * width + x) * 3;
                picture.pixels[at..at + 3].iter().map(|it| f64::from(*it)).sum::<f64>() / 3.0
            };
            let difference = |step: usize| {
                let mut sum = 0.0;
                let mut count = 0.0;
                for y in (0..height).step_by(3) {
                    for x in (0..width - step).step_by(3) {
                        sum += (gray(x, y) - gray(x + step, y)).abs();
                        count += 1.0;
                    }
                }
                sum / count
            };
            let (near, far) = (difference(1), difference(64));
            assert!(far > 2.0 * near, "picture {index}: {near} next to each other, {far} apart");
            assert!(near > 0.5, "picture {index} is too smooth: {near}");
        }
    }
}
