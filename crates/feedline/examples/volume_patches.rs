//! Random patches of medical volumes: two made-up CT volumes with masks, of which only what a patch needs is read.
//!
//!     cargo run --release --example volume_patches
#![allow(clippy::print_stdout, reason = "a program talks to its user")]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use feedline::Loader;
use feedline::sources::volumes::{VolumeCache, VolumeOptions, VolumeSet, Volumes, layout};
use feedline::volume::op::{CropPlace, Otherwise, RandomCrop, Window};
use feedline::volume::{Output, Program};

/// A volume of 24 x 32 x 40 voxels: a ball in air. The mask tells where it is.
fn write(folder: &Path, name: &str, mask: bool) -> std::io::Result<()> {
    let [z, y, x] = [24i32, 32, 40];
    let mut file = format!(
        "NRRD0004\ntype: short\ndimension: 3\nsizes: {x} {y} {z}\nendian: little\nencoding: raw\n\
         space: left-posterior-superior\nspace directions: (0.8,0,0) (0,0.8,0) (0,0,2.5)\nspace origin: (0,0,0)\n\n"
    )
    .into_bytes();
    for voxel in 0..x * y * z {
        let [i, j, k] = [voxel % x, voxel / x % y, voxel / x / y];
        let inside = (i - 20).pow(2) + (j - 16).pow(2) + 9 * (k - 12).pow(2) < 100;
        let value: i16 = match (mask, inside) {
            (true, _) => inside.into(),
            (false, true) => 60,
            (false, false) => -1000,
        };
        file.extend_from_slice(&value.to_le_bytes());
    }
    std::fs::write(folder.join(name), file)
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let folder = tempfile::tempdir()?;
    let (images, masks) = (folder.path().join("images"), folder.path().join("masks"));
    std::fs::create_dir(&images)?;
    std::fs::create_dir(&masks)?;
    for case in ["one", "two"] {
        write(&images, &format!("{case}.nrrd"), false)?;
        write(&masks, &format!("{case}_seg.nrrd"), true)?;
    }

    let cache = VolumeCache::Folder(folder.path().join("cache"));
    let options = VolumeOptions { cache, ..VolumeOptions::default() };
    let paths = layout::folders(&images, Some(&masks))?;
    let set = VolumeSet::open(paths, &options, &mut |_| ControlFlow::Continue(()))?;
    for index in 0..set.len() {
        let case = set.case(index).ok_or("there are two")?.map_err(Arc::clone)?;
        println!("{:?} voxels of {:?} mm", case.geometry().shape(), case.geometry().spacing());
    }

    // Every patch is centred on a voxel of the ball.
    let place =
        CropPlace::Foreground { share: 1.0, classes: None, elsewhere: Otherwise::Background };
    let program = Program::new(
        vec![
            Arc::new(RandomCrop::new([12, 16, 16], place, 1)?),
            Arc::new(Window::new((-160.0, 240.0), (0.0, 1.0), true)?),
        ],
        Output::default(),
    )?;
    let volumes = Volumes::new(Arc::new(set), program)?;
    let loader = Loader::builder(volumes).batch_size(2).shuffle(1).workers(2).build()?;
    for batch in loader.epoch() {
        let batch = batch?;
        let mask = batch.get("mask").ok_or("the second field")?;
        let inside = mask.as_slice::<i16>()?.iter().filter(|label| **label == 1).count();
        println!("a batch of {:?}, {inside} voxels of them in the ball", mask.shape());
        assert!(inside > 0);
    }
    Ok(())
}

#[test]
fn every_batch_has_voxels_of_the_ball() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    main()
}
