//! A dataset of one's own, in a format of one's own: a network learns to tell two spirals apart.
//!
//! Points are records of twelve bytes in a file. The loader's threads read, decode and jitter them while
//! the network trains. What it has learned is drawn as an SVG file.
//!
//!     cargo run --release --example spirals [picture.svg]
#![allow(clippy::print_stdout, reason = "a program talks to its user")]

mod drawing;
mod network;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use feedline::{Cause, DType, Dataset, Field, Loader, Sample, SampleIndex, Stage};
use network::Network;

/// A point and its spiral, 0 or 1.
type Point = ([f32; 2], f32);

/// Bytes of a record: x, y and the spiral's number as little-endian `f32`.
const RECORD: usize = 12;

/// A file of records.
struct Records {
    file: File,
    path: PathBuf,
    count: u64,
}

impl Records {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let count = file.metadata()?.len() / RECORD as u64;
        Ok(Self { file, path: path.into(), count })
    }
}

impl Dataset for Records {
    fn len(&self) -> u64 {
        self.count
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("point", DType::F32, [2]), Field::fixed("spiral", DType::F32, [])]
    }

    /// Reads the sample's bytes. Nothing here is shared between threads but the file, and reading at an
    /// offset does not move it.
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        raw.resize(RECORD, 0);
        Ok(self.file.read_exact_at(raw, index.0 * RECORD as u64)?)
    }

    /// Decodes them, and moves the point a little: the same way for one seed, epoch and sample, whichever
    /// thread does it.
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let (numbers, _) = raw.as_chunks::<4>();
        let [x, y, spiral] = numbers else {
            return Err(format!("a record has {RECORD} bytes, got {}", raw.len()).into());
        };
        let mut point = [x, y].map(|bytes| f32::from_le_bytes(*bytes));
        sample.begin(Stage::Transform);
        let mut rng = sample.rng();
        for axis in &mut point {
            *axis += (rng.unit_f64() as f32 - 0.5) * 0.04;
        }
        sample.put("point", &point)?;
        Ok(sample.put("spiral", &[f32::from_le_bytes(*spiral)])?)
    }

    /// What an error message about a sample says.
    fn origin(&self, index: SampleIndex) -> Option<String> {
        Some(format!("record {} of {}", index.0, self.path.display()))
    }
}

/// Points of two spirals in turns, from the middle outwards.
fn points(count: usize) -> Vec<Point> {
    let point = |i: usize| {
        let (along, spiral) = (i as f32 / count as f32, (i % 2) as f32);
        let angle = along * 10.0 + spiral * std::f32::consts::PI;
        let radius = 0.05 + 0.9 * along;
        ([radius * angle.cos(), radius * angle.sin()], spiral)
    };
    (0..count).map(point).collect()
}

/// Trains on `count` points; returns the share that the network names rightly, and writes the picture.
fn run(count: usize, epochs: u64, picture: &Path) -> Result<f32, Box<dyn std::error::Error>> {
    let points = points(count);
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("spirals.bin");
    let numbers = points.iter().flat_map(|([x, y], spiral)| [*x, *y, *spiral]);
    fs::write(&path, numbers.flat_map(f32::to_le_bytes).collect::<Vec<u8>>())?;

    let loader = Loader::builder(Records::open(&path)?)
        .batch_size(50)
        .shuffle(42)
        .workers(2)
        .epochs(epochs)
        .build()?;
    let mut network = Network::new();
    for epoch in 0..epochs {
        let mut loss = 0.0;
        for batch in loader.epoch() {
            let batch = batch?;
            let points = batch.get("point").ok_or("declared above")?.as_slice::<f32>()?;
            let spirals = batch.get("spiral").ok_or("declared above")?.as_slice::<f32>()?;
            loss = network.train(points.as_chunks().0, spirals);
        }
        if (epoch + 1) % (epochs / 5).max(1) == 0 {
            println!("epoch {}: loss {loss:.4}", epoch + 1);
        }
    }
    let is_right = |(point, spiral): &&Point| (network.guess(*point) > 0.5) == (*spiral > 0.5);
    let accuracy = points.iter().filter(is_right).count() as f32 / count as f32;
    println!("{:.1} % of {count} points are told apart", accuracy * 100.0);
    println!("{}", loader.stats().explain());
    if let Some(folder) = picture.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(picture, drawing::svg(&network, &points))?;
    println!("picture: {}", picture.display());
    Ok(accuracy)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let picture = std::env::args_os().nth(1);
    let picture = picture.unwrap_or_else(|| "target/examples/spirals.svg".into());
    run(2000, 200, Path::new(&picture))?;
    Ok(())
}

#[test]
fn a_network_learns_from_a_dataset_of_ones_own() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let picture = dir.path().join("spirals.svg");
    assert!(run(1000, 60, &picture)? > 0.75, "far from chance");
    assert!(fs::read_to_string(picture)?.ends_with("</svg>\n"));
    Ok(())
}
