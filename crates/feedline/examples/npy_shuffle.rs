//! Loads a packed `.npy` file in shuffled order and tells how fast that was.
//!
//!     cargo run --release --example npy_shuffle [workers] [rows]
#![allow(clippy::print_stdout, reason = "a program talks to its user")]

use std::time::Instant;

use feedline::sources::npy::{Packed, Writer};
use feedline::{DType, Loader, Progress};

const SHAPE: [usize; 3] = [3, 224, 224];
const EPOCHS: u64 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let (workers, rows) = (number(2)?, number(1000)?);

    let dir = tempfile::tempdir()?;
    let path = dir.path().join("images.npy");
    let mut writer = Writer::create(&path, DType::F32, SHAPE)?;
    for i in 0..rows {
        writer.row(&vec![i as f32; SHAPE.iter().product()])?;
    }
    writer.finish()?;

    let loader = Loader::builder(Packed::open(&path, "image")?)
        .batch_size(32)
        .shuffle(42)
        .workers(workers)
        .epochs(EPOCHS)
        .build()?;
    for epoch in 0..EPOCHS {
        let (started, mut bytes) = (Instant::now(), 0);
        for batch in Progress::of(&loader) {
            let batch = batch?;
            bytes += batch.byte_len();
            // Every row must be the one that the plan asked for.
            let images = batch.get("image").ok_or("named above")?.as_slice::<f32>()?;
            let firsts = images.chunks(SHAPE.iter().product()).map(|image| image[0] as u64);
            assert!(firsts.eq(batch.indices().iter().map(|index| index.0)));
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "epoch {epoch}: {:.0} images/s, {:.2} GB/s",
            rows as f64 / seconds,
            bytes as f64 / seconds / 1e9
        );
    }
    println!("{}", loader.stats().explain());
    Ok(())
}
