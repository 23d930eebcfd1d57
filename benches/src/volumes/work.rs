//! Chains of operations against nothing but copying the patch.
//!
//! The sides make different things, so what is compared is what they have in common: after the timed passes each
//! makes the same crop, which must be equal bit by bit.

use std::sync::Arc;

use anyhow::Context;
use feedline_bench::{Contest, OrderedDigest, Outcome};
use feedline_volume::op::{
    CenterCrop, NnunetAugment, Operation, RandomAffine, RandomBlur, RandomLowResolution,
    RandomNoise, RandomTone, Resample,
};
use feedline_volume::{Labels, Output, Program, Workbench};

use crate::bench::Bench;
use crate::scan::{Made, Scan};

/// What is done to a patch, by name.
const PATCHES: [&str; 8] =
    ["crop", "rotated", "noise", "blur", "contrast", "low resolution", "gamma", "nnunet_augment"];

/// What is done to a whole scan, by name.
const SPACING: [&str; 2] = ["as it is", "resampled"];

/// All sides.
pub(crate) fn names() -> Vec<&'static str> {
    PATCHES.into_iter().chain(SPACING).collect()
}

pub(crate) fn patches(bench: &mut Bench) -> anyhow::Result<()> {
    let scan = Scan::new([192; 3], [1.0; 3])?;
    let title =
        "a 128x128x128 patch of float32 with its mask: operations against a copy, one thread";
    hold(bench, title, "patches", &PATCHES, &scan, 20)
}

pub(crate) fn spacing(bench: &mut Bench) -> anyhow::Result<()> {
    let scan = whole_scan()?;
    let title =
        "150x256x256 voxels of 1.5x0.8x0.8 mm resampled to 1 mm, float32 and mask, one thread";
    hold(bench, title, "scans", &SPACING, &scan, 5)
}

fn whole_scan() -> anyhow::Result<Scan> {
    Scan::new([150, 256, 256], [1.5, 0.8, 0.8])
}

fn hold(
    bench: &mut Bench,
    title: &str,
    unit: &str,
    sides: &[&'static str],
    scan: &Scan,
    passes: u64,
) -> anyhow::Result<()> {
    let passes = bench.size(passes, 1);
    let crop = Program::new(vec![Arc::new(CenterCrop::new([32; 3])?)], Output::default())?;
    let mut contest = Contest::new(bench.settings(title, unit, &[])?);
    for side in sides.iter().copied() {
        let (program, crop) = (program(side)?, &crop);
        contest = contest.side(side, move |clock| {
            let (mut kept, mut made) = (Workbench::default(), Made::default());
            scan.run(&program, 0, &mut kept, &mut made)?;
            clock.start()?;
            for pass in 0..passes {
                scan.run(&program, pass, &mut kept, &mut made)?;
            }
            clock.stop()?;
            scan.run(crop, 0, &mut kept, &mut made)?;
            let mut digest = OrderedDigest::new();
            digest.update(bytemuck::cast_slice(&made.image));
            digest.update(bytemuck::cast_slice(&made.mask));
            Ok(Outcome::items(passes).digest(digest.finish()))
        });
    }
    bench.hold(contest)?;
    Ok(())
}

/// One side alone.
pub(crate) fn spin(side: &str, passes: u64) -> anyhow::Result<()> {
    let whole = SPACING.contains(&side);
    let scan = if whole { whole_scan()? } else { Scan::new([192; 3], [1.0; 3])? };
    let (program, mut kept, mut made) = (program(side)?, Workbench::default(), Made::default());
    for pass in 0..passes {
        scan.run(&program, pass, &mut kept, &mut made)?;
    }
    Ok(())
}

/// The chain of a side: for patches a crop from the middle, then one thing with certainty.
fn program(side: &str) -> anyhow::Result<Program> {
    let mut chain: Vec<Arc<dyn Operation>> = Vec::new();
    if !SPACING.contains(&side) {
        chain.push(Arc::new(CenterCrop::new([128; 3])?));
    }
    let next: Option<Arc<dyn Operation>> = match side {
        "crop" | "as it is" => None,
        "rotated" => {
            let (degrees, still) = ([(-30.0, 30.0); 3], [(0.0, 0.0); 3]);
            let turned = RandomAffine::new(1.0, degrees, [(0.7, 1.4); 3], true, still)?;
            Some(Arc::new(turned.labels(Labels::MostWeight)))
        }
        "noise" => Some(Arc::new(RandomNoise::new(1.0, 0.0, (0.1, 0.1))?)),
        "blur" => Some(Arc::new(RandomBlur::new(1.0, (0.5, 1.0))?)),
        "contrast" => Some(Arc::new(RandomTone::contrast(1.0, (0.75, 1.25), true)?)),
        "low resolution" => Some(Arc::new(RandomLowResolution::new(1.0, (0.5, 1.0))?)),
        "gamma" => Some(Arc::new(RandomTone::gamma(1.0, (0.7, 1.5), false, true)?)),
        "nnunet_augment" => Some(Arc::new(NnunetAugment::default())),
        "resampled" => Some(Arc::new(Resample::new([Some(1.0); 3])?)),
        other => return Err(anyhow::anyhow!("no side named {other}")),
    };
    chain.extend(next);
    Program::new(chain, Output::default()).context("a chain that can be")
}
