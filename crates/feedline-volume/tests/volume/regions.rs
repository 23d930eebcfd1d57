//! A region is enough, and small.

use std::sync::Arc;

use feedline_volume::op::{
    CenterCrop, CropForeground, CropPlace, Flip, NnunetAugment, Operation, Otherwise, Pad,
    RandomAffine, RandomBlur, RandomCrop, RandomFlip, RandomLowResolution, RandomNoise,
    RandomRot90, RandomSlice, RandomTone, Reorient, Resample, ScalePercentiles, Window, ZScore,
};
use feedline_volume::{Action, Fill, Region};

use super::made::{Splitmix, Volume, program};

type Operations = Vec<Arc<dyn Operation>>;

/// Chains with every operation, each in places where it matters what was before.
fn chains() -> Vec<Operations> {
    let crop = |side: usize| Arc::new(RandomCrop::new([side; 3], CropPlace::Anywhere, 1).unwrap());
    let place =
        CropPlace::Foreground { share: 0.7, classes: None, elsewhere: Otherwise::Background };
    let affine = |p: f64| {
        let (degrees, shift) = ([(-40.0, 40.0); 3], [(-3.0, 3.0); 3]);
        Arc::new(RandomAffine::new(p, degrees, [(0.8, 1.3); 3], false, shift).unwrap())
    };
    let spacing = Resample::new([Some(1.1), Some(1.1), Some(1.3)]).unwrap();
    let pad = Pad::new([40, 30, 20], Some(Fill { image: -3.0, mask: 2 })).unwrap();
    let turn = RandomRot90::new(1.0, (1, 3), (0, 2)).unwrap();
    vec![
        vec![crop(9)],
        vec![Arc::new(CenterCrop::new([9, 8, 7]).unwrap()), Arc::new(Flip::new(&[0, 2]).unwrap())],
        vec![Arc::new(RandomFlip::new(0.5, &[0, 1, 2]).unwrap()), crop(6), Arc::new(turn)],
        vec![Arc::new(Reorient::new("LPI").unwrap()), Arc::new(spacing.clone()), crop(11)],
        vec![Arc::new(Reorient::new("ASR").unwrap()), crop(8), affine(1.0)],
        vec![Arc::new(spacing.clone()), crop(11), affine(1.0), Arc::new(ZScore::new(true))],
        vec![Arc::new(pad.clone()), crop(18), affine(1.0)],
        vec![
            affine(0.5),
            Arc::new(pad),
            Arc::new(Window::new((-100.0, 400.0), (0.0, 1.0), true).unwrap()),
        ],
        vec![Arc::new(ZScore::new(false)), crop(9), affine(0.5)],
        vec![Arc::new(ScalePercentiles::new(1.0, 99.0, (0.0, 1.0), true).unwrap()), crop(9)],
        vec![Arc::new(RandomBlur::new(1.0, (0.4, 1.2)).unwrap()), crop(7)],
        vec![crop(12), Arc::new(RandomLowResolution::new(1.0, (0.4, 0.9)).unwrap()), crop(6)],
        vec![
            crop(10),
            Arc::new(RandomTone::gamma(1.0, (0.5, 2.0), true, true).unwrap()),
            Arc::new(RandomTone::contrast(1.0, (0.5, 2.0), true).unwrap()),
            Arc::new(RandomTone::brightness(1.0, (0.5, 2.0)).unwrap()),
            Arc::new(RandomNoise::new(1.0, 0.0, (0.1, 0.1)).unwrap()),
        ],
        vec![
            Arc::new(RandomCrop::new([10; 3], place.clone(), 1).unwrap()),
            Arc::new(NnunetAugment::default()),
        ],
        vec![Arc::new(RandomSlice::new(1, place, 1).unwrap()), Arc::new(NnunetAugment::default())],
        vec![
            Arc::new(CropForeground::new(650.0, 1).unwrap()),
            affine(1.0),
            Arc::new(ZScore::new(false)),
        ],
    ]
}

#[test]
fn a_region_is_enough() {
    let volume = Volume::new([17, 23, 19]);
    let (geometry, foreground) = (volume.geometry(), volume.foreground());
    for (number, operations) in chains().into_iter().enumerate() {
        let program = program(operations);
        for seed in 0..40 {
            let mut random = Splitmix(seed);
            let mut drawn = program.draw(&geometry, 1, Some(&foreground), &mut random).unwrap();
            let region = drawn.region();
            assert!(Region::whole(volume.shape).contains(&region), "{number}");
            let of_region = volume.run(&mut drawn, region, 1).unwrap();
            let mut random = Splitmix(seed);
            let mut drawn = program.draw(&geometry, 1, Some(&foreground), &mut random).unwrap();
            let of_all = volume.run(&mut drawn, Region::whole(volume.shape), 1).unwrap();
            assert_eq!(of_region.1, of_all.1, "chain {number}, seed {seed}: masks");
            let noise = program.describe().iter().any(|call| call.contains("noise"));
            for (a, b) in of_region.0.iter().zip(&of_all.0).filter(|_| !noise) {
                let close = (a - b).abs() <= 2e-3 * (1.0 + a.abs());
                assert!(close, "chain {number}, seed {seed}: {a} {b}");
            }
        }
    }
}

#[test]
fn moves_that_follow_each_other_are_one_and_its_region_is_small() {
    let volume = Volume::new([40, 60, 50]);
    let operations: Operations = vec![
        Arc::new(Reorient::new("LPS").unwrap()),
        Arc::new(Resample::new([Some(1.0); 3]).unwrap()),
        Arc::new(RandomCrop::new([16; 3], CropPlace::Anywhere, 1).unwrap()),
        Arc::new(
            RandomAffine::new(1.0, [(10.0, 10.0); 3], [(1.0, 1.0); 3], true, [(0.0, 0.0); 3])
                .unwrap(),
        ),
        Arc::new(RandomFlip::new(1.0, &[0, 1, 2]).unwrap()),
    ];
    let program = program(operations);
    let drawn = program.draw(&volume.geometry(), 1, None, &mut Splitmix(3)).unwrap();
    let actions = drawn.actions();
    assert!(matches!(actions[0][..], [Action::Move(_)]), "{actions:?}");
    // 16 voxels of 1 mm, turned by 10 degrees about each axis, need at most 16 * 1.4 mm and an edge.
    let most = [2.5, 0.8, 0.7].map(|spacing| (16.0 * 1.4 / spacing + 3.0) as usize);
    let region = drawn.region();
    assert!(region.shape.iter().zip(most).all(|(side, most)| *side <= most), "{region:?} {most:?}");
}

#[test]
fn patches_are_several_crops_of_one_read() {
    let volume = Volume::new([17, 23, 19]);
    for before in [None, Some(ZScore::new(false))] {
        let mut operations: Operations = before.into_iter().map(|z| Arc::new(z) as _).collect();
        operations.push(Arc::new(RandomCrop::new([5, 6, 7], CropPlace::Anywhere, 3).unwrap()));
        operations.push(Arc::new(RandomFlip::new(0.5, &[1]).unwrap()));
        let program = program(operations);
        assert_eq!(program.dimensions(1), [3, 1, 5, 6, 7].map(Some));
        let mut drawn = program.draw(&volume.geometry(), 1, None, &mut Splitmix(5)).unwrap();
        let region = drawn.region();
        let (image, _) = volume.run(&mut drawn, region, 3).unwrap();
        let patches: Vec<_> = image.chunks(5 * 6 * 7).collect();
        assert!(patches[0] != patches[1] && patches[1] != patches[2]);
    }
}
