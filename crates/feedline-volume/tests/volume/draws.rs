//! Random parameters have the distributions they should have.

use std::sync::Arc;

use feedline_volume::op::{CropPlace, NnunetAugment, Otherwise, RandomCrop};
use feedline_volume::{Action, Change};

use super::made::{Splitmix, Volume, program};

/// Whether `count` of `of` is within five deviations of a probability.
fn likely(count: usize, of: usize, p: f64) -> bool {
    let (count, of) = (count as f64, of as f64);
    (count - of * p).abs() <= 5.0 * (of * p * (1.0 - p)).sqrt()
}

#[test]
fn nnunet_draws_with_its_probabilities_and_ranges() {
    const DRAWS: usize = 20_000;
    let volume = Volume::new([24, 24, 24]);
    let program = program(vec![Arc::new(NnunetAugment::default())]);
    let mut random = Splitmix(1);
    let (mut turned, mut still, mut moved) = (0, 0, 0);
    let mut counts = [0usize; 7];
    for _ in 0..DRAWS {
        let drawn = program.draw(&volume.geometry(), 1, None, &mut random).unwrap();
        for action in &drawn.actions()[0] {
            match action {
                Action::Move(step) => {
                    moved += 1;
                    let scale = step.map.determinant().abs().cbrt();
                    assert!((0.699..1.401).contains(&scale), "{scale}");
                    let linear = step.map.linear.iter().flatten();
                    if linear.clone().all(|x| x.fract() == 0.0) {
                        still += 1;
                    } else {
                        turned += 1;
                    }
                }
                Action::Change { change, .. } => match change {
                    Change::Noise { std, mean, .. } => {
                        counts[0] += 1;
                        assert!((0.0..=0.1).contains(std) && *mean == 0.0);
                    }
                    Change::Blur { kernels, .. } => {
                        counts[1] += 1;
                        assert!(
                            kernels.iter().all(|k| [3, 5, 7].contains(&k.len())),
                            "{kernels:?}"
                        );
                    }
                    Change::Scale { factor, .. } => {
                        counts[2] += 1;
                        assert!((0.75..=1.25).contains(factor));
                    }
                    Change::Contrast { factor, preserve_range } => {
                        counts[3] += 1;
                        assert!((0.75..=1.25).contains(factor) && *preserve_range);
                    }
                    Change::LowResolution { shape, .. } => {
                        counts[4] += 1;
                        assert!(shape.iter().all(|side| (12..=24).contains(side)), "{shape:?}");
                    }
                    Change::Gamma { gamma, invert, retain_stats } => {
                        counts[if *invert { 5 } else { 6 }] += 1;
                        assert!((0.7..=1.5).contains(gamma) && *retain_stats);
                    }
                    other => panic!("nnU-Net does not do {other:?}"),
                },
                other => panic!("nnU-Net does not do {other:?}"),
            }
        }
    }
    assert!(likely(turned, DRAWS, 0.36), "turned or scaled: {turned}");
    assert!(likely(still, DRAWS, 0.64 * 7.0 / 8.0), "mirrored alone: {still}");
    assert_eq!(moved, turned + still);
    let wanted = [0.1, 0.2 * 0.5, 0.15, 0.15, 0.25 * 0.5, 0.1, 0.3];
    for (count, p) in counts.into_iter().zip(wanted) {
        assert!(likely(count, DRAWS, p), "{counts:?}");
    }
}

#[test]
fn thick_patches_are_turned_within_slices() {
    let volume = Volume::new([8, 40, 40]);
    let program = program(vec![Arc::new(NnunetAugment::default())]);
    let mut random = Splitmix(2);
    let mut beyond = 0;
    for _ in 0..2000 {
        let drawn = program.draw(&volume.geometry(), 1, None, &mut random).unwrap();
        for action in &drawn.actions()[0] {
            if let Action::Move(step) = action {
                let [[a, b, c], [d, ..], [e, ..]] = step.map.linear;
                assert_eq!((a.abs(), b, c, d, e), (1.0, 0.0, 0.0, 0.0, 0.0));
                // Turned by more than 30 degrees.
                let [_, [_, cosine, sine], _] = step.map.linear;
                beyond += usize::from(sine.abs() > cosine.abs());
            }
        }
    }
    assert!(beyond > 100, "{beyond}");
}

/// Of which label the middles of crops are.
fn middles(place: CropPlace, crops: usize) -> [usize; 4] {
    let mut volume = Volume::new([20, 30, 40]);
    volume.mask.fill(0);
    // Class 1 has 8 times as many voxels as class 3, all of them far from the edge.
    for z in 8..12 {
        for y in 10..14 {
            for x in 10..18 {
                volume.mask[(z * 30 + y) * 40 + x] = if x < 14 { 1 } else { 0 };
            }
        }
    }
    for z in 8..10 {
        for x in 20..24 {
            volume.mask[(z * 30 + 20) * 40 + x] = 3;
        }
    }
    let foreground = volume.foreground();
    let program = program(vec![Arc::new(RandomCrop::new([5; 3], place, 1).unwrap())]);
    let mut random = Splitmix(7);
    let mut counts = [0; 4];
    for _ in 0..crops {
        let drawn = program.draw(&volume.geometry(), 1, Some(&foreground), &mut random).unwrap();
        let [z, y, x] = drawn.region().start.map(|start| start + 2);
        counts[volume.mask[(z * 30 + y) * 40 + x] as usize] += 1;
    }
    counts
}

#[test]
fn a_share_of_crops_is_centred_on_the_foreground() {
    const CROPS: usize = 5000;
    let place = |share, classes, elsewhere| CropPlace::Foreground { share, classes, elsewhere };
    let counts = middles(place(0.4, None, Otherwise::Background), CROPS);
    assert!(likely(counts[1] + counts[3], CROPS, 0.4), "{counts:?}");
    assert!(likely(counts[3], CROPS, 0.4 / 9.0), "by voxels: {counts:?}");
    let by_class = Some(vec![(1, 1.0), (3, 3.0), (2, 5.0)]);
    let counts = middles(place(1.0, by_class, Otherwise::Background), CROPS);
    assert_eq!(counts[0], 0, "class 2 is not there and left out");
    assert!(likely(counts[3], CROPS, 0.75), "{counts:?}");
    let by_class = Some(vec![(1, 1.0), (3, 1.0)]);
    let counts = middles(place(0.33, by_class, Otherwise::Anywhere), CROPS);
    let inside = (16 * 26 * 36) as f64;
    assert!(likely(counts[3], CROPS, 0.165 + 0.67 * 8.0 / inside), "{counts:?}");
}

#[test]
fn crops_reach_every_place() {
    let volume = Volume::new([4, 3, 5]);
    let program =
        program(vec![Arc::new(RandomCrop::new([3, 3, 2], CropPlace::Anywhere, 1).unwrap())]);
    let mut random = Splitmix(4);
    let mut counts = [[0usize; 4]; 2];
    for _ in 0..8000 {
        let drawn = program.draw(&volume.geometry(), 1, None, &mut random).unwrap();
        let [z, y, x] = drawn.region().start;
        assert_eq!(y, 0);
        counts[z][x] += 1;
    }
    assert!(counts.iter().flatten().all(|count| likely(*count, 8000, 1.0 / 8.0)), "{counts:?}");
}
