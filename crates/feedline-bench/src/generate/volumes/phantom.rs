//! A body as computed tomography shows it, and where its organs are.
//!
//! Numbers are Hounsfield units: air -1000, fat -100, muscle 45, bone several hundred. A body is an ellipse with
//! a layer of fat and a spine; organs are ellipsoids with dents (harmonics of the second degree) whose edges blend
//! over a voxel or two, as partial volumes do; tissue varies slowly by some units, and every voxel has the
//! scanner's noise. Nothing but sums and products decides a voxel, so that machines agree on every byte.

use super::super::random::SplitMix;

/// What the numbers of a mask stand for; 0 is background.
pub(super) const LABELS: [&str; 4] = ["liver", "spleen", "kidney", "tumour"];

/// Points of the lattice between which tissue varies slowly, along each axis.
const LATTICE: usize = 12;

/// A body of one case. Places are from -1 to 1 along x (to the left), y (to the back) and z (to the head).
#[derive(Debug)]
pub(super) struct Phantom {
    /// Voxels along x, y, z.
    size: [usize; 3],
    /// Half axes of the body.
    girth: [f32; 2],
    /// Share of the half axes that is fat.
    fat: f32,
    organs: Vec<Blob>,
    /// Hounsfield units by which tissue varies.
    lattice: Vec<f32>,
    noise: f32,
    random: SplitMix,
}

/// An ellipsoid with dents.
#[derive(Debug)]
struct Blob {
    /// 0 for what is no organ.
    label: u8,
    units: f32,
    center: [f32; 3],
    radii: [f32; 3],
    dents: [f32; 5],
}

/// One plane across z: rows of x.
#[derive(Debug, Default)]
pub(super) struct Plane {
    pub(super) units: Vec<i16>,
    pub(super) labels: Vec<u8>,
    /// Before noise.
    tissue: Vec<f32>,
}

impl Phantom {
    /// The body of an index.
    pub(super) fn new(size: [usize; 3], seed: u64, index: u64) -> Self {
        let mut random = SplitMix::new(seed, index);
        let girth = [random.between(0.78, 0.9), random.between(0.6, 0.74)];
        let fat = random.between(0.06, 0.14);
        let mut organ = |label, units, center: [f32; 3], radii: [f32; 3]| {
            let shift = |it: f32, random: &mut SplitMix| it + random.between(-0.05, 0.05);
            let stretch = |it: f32, random: &mut SplitMix| it * random.between(0.85, 1.15);
            Blob {
                label,
                units: units + random.between(-12.0, 12.0),
                center: center.map(|it| shift(it, &mut random)),
                radii: radii.map(|it| stretch(it, &mut random)),
                dents: std::array::from_fn(|_| random.between(-0.2, 0.2)),
            }
        };
        let spine = Blob { dents: [0.0; 5], ..organ(0, 420.0, [0.0, 0.42, 0.0], [0.1, 0.1, 4.0]) };
        let liver = organ(1, 105.0, [-0.36, -0.08, 0.2], [0.34, 0.36, 0.46]);
        let spleen = organ(2, 120.0, [0.5, 0.14, 0.26], [0.14, 0.2, 0.28]);
        let kidneys =
            [-1.0, 1.0].map(|side| organ(3, 170.0, [side * 0.28, 0.3, -0.3], [0.1, 0.12, 0.3]));
        let [x, y, z] = liver.center;
        let tumour = organ(4, 40.0, [x, y, z], [0.1, 0.1, 0.14]);
        let organs = [spine, liver, spleen].into_iter().chain(kidneys).chain([tumour]).collect();
        let lattice = (0..LATTICE.pow(3)).map(|_| random.between(-14.0, 14.0)).collect();
        let noise = random.between(9.0, 16.0);
        Self { size, girth, fat, organs, lattice, noise, random }
    }

    /// Draws the next plane; planes come in the order of z.
    pub(super) fn draw(&mut self, z: usize, plane: &mut Plane) {
        let [width, height, depth] = self.size;
        let voxels = width * height;
        plane.tissue.clear();
        plane.labels.clear();
        plane.labels.resize(voxels, 0);
        let w = place(z, depth);
        self.body(w, plane);
        for blob in &self.organs {
            blob.paint(w, self.size, plane);
        }
        self.vary(w, plane);
        plane.units.clear();
        for tissue in &plane.tissue {
            // Four uniform numbers make a bell that ends at 3.5 deviations.
            let bits = self.random.bits();
            let sum: u32 = (0..4).map(|part| (bits >> (16 * part)) as u32 & 0xffff).sum();
            let bell = (sum as f32 / 65_535.0 - 2.0) * 1.732;
            // Air is quieter: less of the beam was lost in it.
            let noise = if *tissue < -900.0 { self.noise * 0.5 } else { self.noise };
            plane.units.push((tissue + bell * noise).round().clamp(-1024.0, 3071.0) as i16);
        }
    }

    /// Air, skin, fat and muscle.
    fn body(&self, w: f32, plane: &mut Plane) {
        let [width, height, _] = self.size;
        // A little slimmer towards head and feet.
        let slim = 1.0 - 0.12 * w * w;
        let [a, b] = self.girth.map(|it| it * slim);
        let edge = 2.0 / width.min(height) as f32;
        for y in 0..height {
            let v = place(y, height) / b;
            for x in 0..width {
                let u = place(x, width) / a;
                let r = (u * u + v * v).sqrt();
                let inside = step((1.0 - r) / edge);
                let lean = step((1.0 - self.fat - r) / edge);
                plane.tissue.push(-1000.0 + inside * 900.0 + lean * 145.0);
            }
        }
    }

    /// Adds what varies slowly, where there is tissue.
    fn vary(&self, w: f32, plane: &mut Plane) {
        let [width, height, _] = self.size;
        let (layer, up) = cell(w);
        let at = |x: usize, y: usize, z: usize| self.lattice[(z * LATTICE + y) * LATTICE + x];
        let mut flat = [[0.0; LATTICE]; LATTICE];
        for (y, row) in flat.iter_mut().enumerate() {
            for (x, value) in row.iter_mut().enumerate() {
                *value = mix(at(x, y, layer), at(x, y, layer + 1), up);
            }
        }
        for y in 0..height {
            let (top, down) = cell(place(y, height));
            for x in 0..width {
                let tissue = &mut plane.tissue[y * width + x];
                if *tissue > -500.0 {
                    let (left, along) = cell(place(x, width));
                    let upper = mix(flat[top][left], flat[top][left + 1], along);
                    let lower = mix(flat[top + 1][left], flat[top + 1][left + 1], along);
                    *tissue += mix(upper, lower, down);
                }
            }
        }
    }
}

impl Blob {
    /// Draws where the plane cuts it.
    fn paint(&self, w: f32, size: [usize; 3], plane: &mut Plane) {
        let [width, height, _] = size;
        // Dents make it larger by less than this.
        let reach = 1.6;
        let c = (w - self.center[2]) / self.radii[2];
        if c.abs() > reach {
            return;
        }
        let span = |axis: usize, count: usize| {
            let (middle, radius) = (self.center[axis], self.radii[axis] * reach);
            let index =
                |it: f32| ((it + 1.0) / 2.0 * count as f32).clamp(0.0, count as f32) as usize;
            index(middle - radius)..index((middle + radius).max(-1.0)).saturating_add(1).min(count)
        };
        let smallest = self.radii[0].min(self.radii[1]);
        let edge = 3.0 / (width.min(height) as f32 * smallest);
        for y in span(1, height) {
            let b = (place(y, height) - self.center[1]) / self.radii[1];
            for x in span(0, width) {
                let a = (place(x, width) - self.center[0]) / self.radii[0];
                let square = a * a + b * b + c * c;
                if square > reach * reach {
                    continue;
                }
                let dents = self.dents[0] * a * b
                    + self.dents[1] * b * c
                    + self.dents[2] * a * c
                    + self.dents[3] * (a * a - b * b)
                    + self.dents[4] * (b * b - c * c);
                let r = square.sqrt() * (1.0 + dents / square.max(1e-6));
                let at = y * width + x;
                let weight = step((1.0 - r) / edge + 0.5);
                plane.tissue[at] = mix(plane.tissue[at], self.units, weight);
                if weight > 0.5 {
                    plane.labels[at] = self.label;
                }
            }
        }
    }
}

/// The middle of a voxel, from -1 to 1.
fn place(index: usize, count: usize) -> f32 {
    (index as f32 + 0.5) / count as f32 * 2.0 - 1.0
}

/// Which cell of the lattice a place is in, and how far.
fn cell(place: f32) -> (usize, f32) {
    let along = (place + 1.0) / 2.0 * (LATTICE - 1) as f32;
    let index = (along as usize).min(LATTICE - 2);
    (index, along - index as f32)
}

fn mix(from: f32, to: f32, share: f32) -> f32 {
    from + (to - from) * share
}

/// From 0 to 1, without corners.
fn step(it: f32) -> f32 {
    let it = it.clamp(0.0, 1.0);
    it * it * (3.0 - 2.0 * it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(size: [usize; 3], seed: u64) -> (Vec<i16>, Vec<u8>) {
        let mut phantom = Phantom::new(size, seed, 0);
        let mut plane = Plane::default();
        let (mut units, mut labels) = (Vec::new(), Vec::new());
        for z in 0..size[2] {
            phantom.draw(z, &mut plane);
            units.extend_from_slice(&plane.units);
            labels.extend_from_slice(&plane.labels);
        }
        (units, labels)
    }

    fn mean(units: &[i16], of: impl Fn(usize) -> bool) -> f64 {
        let of: Vec<f64> =
            (0..units.len()).filter(|at| of(*at)).map(|at| units[at].into()).collect();
        of.iter().sum::<f64>() / of.len() as f64
    }

    #[test]
    fn tissues_have_their_hounsfield_units() {
        for seed in 0..8 {
            let (units, labels) = drawn([64, 64, 32], seed);
            assert_eq!(units.len(), 64 * 64 * 32);
            // The corner is air, the middle of an organ is what is written beside it above.
            let air = mean(&units[..64 * 4], |_| true);
            assert!((-1010.0..-990.0).contains(&air), "{air}");
            for (label, low, high) in [(1, 80.0, 130.0), (2, 90.0, 150.0), (3, 130.0, 190.0)] {
                let found = mean(&units, |at| labels[at] == label);
                assert!((low..high).contains(&found), "label {label}: {found}");
            }
        }
    }

    #[test]
    fn every_case_has_every_label_and_mostly_background() {
        for seed in 0..32 {
            for size in [[32, 32, 16], [96, 80, 40]] {
                let (_, labels) = drawn(size, seed);
                let share = |label| {
                    labels.iter().filter(|it| **it == label).count() as f64 / labels.len() as f64
                };
                for label in 1..=LABELS.len() as u8 {
                    assert!(share(label) > 0.0, "seed {seed}, {size:?}: no {}", label);
                }
                assert!(share(0) > 0.8, "{}", share(0));
            }
        }
    }

    #[test]
    fn the_smallest_volume_is_drawn() {
        let (units, labels) = drawn([1, 1, 1], 3);
        assert_eq!((units.len(), labels.len()), (1, 1));
    }
}
