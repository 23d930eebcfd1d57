//! Restart points of a gzip file at different distances: how much room they take, and how long a patch takes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use feedline_bench::{Contest, OrderedDigest, Outcome};
use feedline_sources::volumes::{VolumeCache, VolumeFile, VolumeOptions};
use feedline_volume::{Draw, Region};

use crate::bench::Bench;
use crate::scan::{Numbers, inside};

/// How far apart points are, in KiB.
const SPACINGS: [u64; 4] = [64, 128, 256, 1024];

pub(crate) fn points(bench: &mut Bench) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("no folder for the scan")?;
    let shape = if bench.size(1, 0) == 1 { [200, 512, 512] } else { [100, 256, 256] };
    let path = folder.path().join("scan.nrrd");
    write_scan(&path, shape)?;
    let scan_bytes = path.metadata()?.len();
    let [z, y, x] = shape;
    let title = format!(
        "patches of 96x96x96 out of int16 {x}x{y}x{z} in gzip by restart points so far apart, one thread"
    );
    let passes = bench.size(40, 2);
    let mut contest = Contest::new(bench.settings(&title, "patches", &[])?);
    for spacing in SPACINGS {
        let cache = folder.path().join(spacing.to_string());
        let options = VolumeOptions {
            cache: VolumeCache::Folder(cache.clone()),
            restart_spacing: spacing << 10,
            ..VolumeOptions::default()
        };
        let volume = VolumeFile::open(&path, &options)?;
        contest = contest.side(format!("{spacing} KiB"), move |clock| {
            let (mut numbers, mut voxels) = (Numbers(1), Vec::new());
            // The first time the whole file is inflated, and its points are kept.
            volume.read(0, patch(shape, &mut numbers), &mut voxels)?;
            clock.start()?;
            let mut digest = OrderedDigest::new();
            for _ in 0..passes {
                volume.read(0, patch(shape, &mut numbers), &mut voxels)?;
            }
            clock.stop()?;
            digest.update(&voxels);
            let kept: u64 = std::fs::read_dir(&cache)?
                .map(|entry| Ok(entry?.metadata()?.len()))
                .sum::<std::io::Result<u64>>()?;
            let share = kept as f64 / scan_bytes as f64;
            Ok(Outcome::items(passes).digest(digest.finish()).figure("kept_over_file", share))
        });
    }
    bench.hold(contest)?;
    Ok(())
}

fn patch(shape: [usize; 3], numbers: &mut Numbers) -> Region {
    let start = shape.map(|side| (numbers.unit() * (side - 96 + 1) as f64) as usize);
    Region { start, shape: [96; 3] }
}

/// A body with organs in noise and in air, as a CT has them.
fn write_scan(path: &Path, shape: [usize; 3]) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let [planes, rows, columns] = shape;
    write!(
        file,
        "NRRD0004\ntype: int16\ndimension: 3\nsizes: {columns} {rows} {planes}\nendian: little\nencoding: gzip\n\n"
    )?;
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::new(6));
    let mut noise = Numbers(7);
    let mut line = Vec::new();
    for z in 0..planes {
        for y in 0..rows {
            line.clear();
            for x in 0..columns {
                let organ = (0..3).rev().find(|ball| inside(*ball, [z, y, x], shape));
                let [v, u] = [y as f64 / rows as f64 - 0.5, x as f64 / columns as f64 - 0.5];
                let body = if v * v + u * u < 0.22 { 30 } else { -1000 };
                let organ = organ.map_or(0, |ball| [60, 110, 180][ball]);
                let value = body + organ + (noise.unit() * 48.0) as i16 - 24;
                line.extend_from_slice(&value.to_le_bytes());
            }
            packed.write_all(&line)?;
        }
    }
    packed.finish()?.flush()?;
    Ok(())
}
