//! What makes no sense is refused, by name.

use std::sync::Arc;

use feedline_volume::op::{
    CenterCrop, CropForeground, CropPlace, Flip, Operation, Otherwise, Pad, RandomAffine,
    RandomBlur, RandomCrop, RandomFlip, RandomLowResolution, RandomNoise, RandomRot90, RandomSlice,
    RandomTone, Reorient, Resample, ScalePercentiles, Window, ZScore,
};
use feedline_volume::{Geometry, OperationError, Output, Program};

use super::made::{Splitmix, Volume, program};

fn refused<T>(made: Result<T, OperationError>, argument: &str) {
    match made {
        Err(error) => assert!(error.to_string().contains(argument), "{error}"),
        Ok(_) => panic!("{argument} was taken"),
    }
}

#[test]
fn hostile_numbers_are_refused() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    refused(CenterCrop::new([0, 1, 1]), "size");
    refused(CenterCrop::new([usize::MAX, 1, 1]), "size");
    refused(RandomCrop::new([1; 3], CropPlace::Anywhere, 0), "patches");
    refused(RandomCrop::new([1; 3], CropPlace::Anywhere, 1 << 40), "patches");
    for share in [-0.1, 1.1, nan] {
        let place = CropPlace::Foreground { share, classes: None, elsewhere: Otherwise::Anywhere };
        refused(RandomCrop::new([1; 3], place, 1), "foreground");
    }
    for weights in [vec![], vec![(1, nan)], vec![(1, -1.0)], vec![(1, 0.0)]] {
        let classes = Some(weights);
        let place = CropPlace::Foreground { share: 1.0, classes, elsewhere: Otherwise::Anywhere };
        refused(RandomSlice::new(0, place, 1), "classes");
    }
    refused(RandomSlice::new(3, CropPlace::Anywhere, 1), "axis");
    refused(Flip::new(&[3]), "axes");
    refused(Flip::new(&[1, 1]), "axes");
    refused(RandomFlip::new(nan, &[0]), "p must be");
    refused(RandomRot90::new(0.5, (1, 4), (0, 1)), "max_k");
    refused(RandomRot90::new(0.5, (1, 3), (1, 1)), "axes");
    refused(Reorient::new("RAX"), "axcodes");
    for spacing in [0.0, -1.0, nan, inf] {
        refused(Resample::new([Some(1.0), Some(spacing), None]), "spacing");
    }
    let one = [(1.0, 1.0); 3];
    let none = [(0.0, 0.0); 3];
    refused(RandomAffine::new(0.5, [(0.0, nan); 3], one, true, none), "degrees");
    refused(RandomAffine::new(0.5, none, [(0.0, 1.0); 3], true, none), "scale");
    refused(RandomAffine::new(0.5, none, one, true, [(-inf, inf); 3]), "translate");
    refused(Window::new((1.0, 1.0), (0.0, 1.0), true), "width");
    refused(Window::new((0.0, nan), (0.0, 1.0), true), "width");
    refused(ZScore::of(0.0, 0.0), "std");
    refused(ZScore::of(inf, 1.0), "mean");
    refused(ScalePercentiles::new(-1.0, 99.0, (0.0, 1.0), true), "lower");
    refused(ScalePercentiles::new(99.0, 1.0, (0.0, 1.0), true), "lower");
    refused(RandomNoise::new(0.5, 0.0, (-1.0, 1.0)), "std");
    refused(RandomBlur::new(0.5, (0.0, 1e9)), "sigma");
    refused(RandomTone::gamma(0.5, (0.0, 1.0), false, false), "gamma");
    refused(RandomTone::brightness(2.0, (0.0, 1.0)), "p must be");
    refused(RandomLowResolution::new(0.5, (0.0, 1.0)), "zoom");
    refused(CropForeground::new(nan, 0), "threshold");
    refused(Pad::new([0; 3], None), "size");
}

#[test]
fn chains_that_cannot_be_are_refused() {
    let crop = |side: usize| -> Arc<dyn Operation> {
        Arc::new(RandomCrop::new([side; 3], CropPlace::Anywhere, 2).unwrap())
    };
    refused(Program::new(vec![crop(4), crop(2)], Output::default()), "random_crop(2");
    let one = |side: usize| -> Arc<dyn Operation> { Arc::new(CenterCrop::new([side; 3]).unwrap()) };
    refused(Program::new(vec![one(4), one(5)], Output::default()), "center_crop(5)");
    let slice =
        || -> Arc<dyn Operation> { Arc::new(RandomSlice::new(0, CropPlace::Anywhere, 1).unwrap()) };
    refused(Program::new(vec![slice(), slice()], Output::default()), "random_slice");
    let looking = || -> Arc<dyn Operation> { Arc::new(CropForeground::new(0.0, 0).unwrap()) };
    refused(Program::new(vec![looking(), looking()], Output::default()), "crop_foreground");
    refused(Program::new(vec![crop(4), looking()], Output::default()), "crop_foreground");
}

#[test]
fn volumes_that_do_not_fit_are_refused() {
    let volume = Volume::new([6, 6, 6]);
    let large = program(vec![Arc::new(CenterCrop::new([4, 7, 4]).unwrap())]);
    refused(large.draw(&volume.geometry(), 1, None, &mut Splitmix(1)), "pad([4, 7, 4])");
    let place =
        CropPlace::Foreground { share: 0.5, classes: None, elsewhere: Otherwise::Background };
    let by_class = program(vec![Arc::new(RandomCrop::new([2; 3], place, 1).unwrap())]);
    refused(by_class.draw(&volume.geometry(), 1, None, &mut Splitmix(1)), "mask");
    let fine = program(vec![Arc::new(Resample::new([Some(1e-9); 3]).unwrap())]);
    refused(fine.draw(&volume.geometry(), 1, None, &mut Splitmix(1)), "make fewer");
    let nothing = program(vec![Arc::new(CropForeground::new(1e9, 0).unwrap())]);
    let mut drawn = nothing.draw(&volume.geometry(), 1, None, &mut Splitmix(1)).unwrap();
    let region = drawn.region();
    let error = volume.run(&mut drawn, region, 1).unwrap_err();
    assert!(error.to_string().contains("no voxel above"), "{error}");
}

#[test]
fn extreme_spacings_neither_panic_nor_hang() {
    let volume = Volume::new([6, 5, 4]);
    for spacing in [1e-300, 1e-12, 1e12, 1e300] {
        let geometry = Geometry::with_spacing(volume.shape, [spacing, 1.0, 1.0]);
        let Ok(geometry) = geometry else { continue };
        let one = program(vec![Arc::new(Resample::new([Some(1.0); 3]).unwrap())]);
        if let Ok(mut drawn) = one.draw(&geometry, 1, None, &mut Splitmix(1)) {
            let region = drawn.region();
            volume.run(&mut drawn, region, 1).unwrap();
        }
    }
}
