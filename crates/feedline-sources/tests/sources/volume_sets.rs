use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use feedline_core::{Batch, Dataset, Loader, SampleIndex, SampleKey};
use feedline_sources::SourceError;
use feedline_sources::volumes::{VolumePaths, VolumeSet, Volumes};
use feedline_volume::op::{
    CenterCrop, CropForeground, CropPlace, Operation, Otherwise, RandomCrop,
};
use feedline_volume::{Output, Program, Region, VoxelType};

use crate::common::{all, errors};
use crate::volume_files::{Folders, NiftiFile, bytes, counted, cut, gzip};

const SIDES: [usize; 3] = [12, 10, 8];
const SHAPE: [usize; 3] = [8, 10, 12];

/// A file of int16 with these numbers, in gzip or not by its name.
fn file(folders: &Folders, name: &str, sides: [usize; 3], numbers: &[f64]) -> PathBuf {
    let header = NiftiFile::new(&sides.map(|side| side as i64), 4);
    let raw = header.with(&bytes(numbers, VoxelType::I16, false));
    folders.write(name, &if name.ends_with("gz") { gzip(&raw) } else { raw })
}

fn image(sample: usize, channel: usize) -> Vec<f64> {
    counted(960).into_iter().map(|x| x + 1000.0 * sample as f64 + 200.0 * channel as f64).collect()
}

/// Two labels: 1 in one voxel, 2 in a box, and background.
fn labels(sample: usize) -> Vec<f64> {
    let mut labels = vec![0.0; 960];
    labels[(5 * 10 + 3) * 12 + 2 + sample] = 1.0;
    for (z, y) in [(1, 7), (1, 8), (2, 7), (2, 8)] {
        labels[(z * 10 + y) * 12 + 5..][..4].fill(2.0);
    }
    labels
}

/// Three samples of two channels and a mask.
fn samples(folders: &Folders) -> Vec<VolumePaths> {
    let one = |sample: usize| {
        let name = |what: &str| format!("{sample}_{what}");
        VolumePaths {
            name: sample.to_string(),
            images: vec![
                file(folders, &name("a.nii.gz"), SIDES, &image(sample, 0)),
                file(folders, &name("b.nii"), SIDES, &image(sample, 1)),
            ],
            mask: Some(file(folders, &name("m.nii.gz"), SIDES, &labels(sample))),
        }
    };
    (0..3).map(one).collect()
}

fn open(folders: &Folders, paths: Vec<VolumePaths>) -> Result<VolumeSet, SourceError> {
    VolumeSet::open(paths, &folders.options(), &mut |_| ControlFlow::Continue(()))
}

fn volumes(set: VolumeSet, operations: Vec<Arc<dyn Operation>>) -> Volumes {
    let program = Program::new(operations, Output::default()).unwrap();
    Volumes::new(Arc::new(set), program).unwrap()
}

fn numbers(batch: &Batch) -> (Vec<f64>, Vec<f64>) {
    let floats = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect();
    let labels = |x: &[i16]| x.iter().map(|x| f64::from(*x)).collect();
    let image = batch.get("image").unwrap().as_slice::<f32>().unwrap();
    let mask = batch.get("mask").unwrap().as_slice::<i16>().unwrap();
    (floats(image), labels(mask))
}

#[test]
fn patches_are_parts_of_image_and_mask() {
    let folders = Folders::new();
    let crop = Arc::new(CenterCrop::new([4, 6, 6]).unwrap());
    let region = Region { start: [2, 2, 3], shape: [4, 6, 6] };
    // The first time, by restart points, and by kept headers.
    for round in 0..3 {
        let set = open(&folders, samples(&folders)).unwrap();
        assert_eq!((set.len(), set.channels(), set.has_masks()), (3, 2, true));
        let batch = all(volumes(set, vec![crop.clone()]));
        assert_eq!(batch.get("image").unwrap().shape(), [3, 2, 4, 6, 6]);
        assert_eq!(batch.get("mask").unwrap().shape(), [3, 4, 6, 6]);
        let (got, masks) = numbers(&batch);
        let wanted = |content: &dyn Fn(usize) -> Vec<f64>| -> Vec<f64> {
            (0..3).flat_map(|sample| cut(&content(sample), SHAPE, region)).collect()
        };
        assert_eq!(got, wanted(&|s| [image(s, 0), image(s, 1)].concat()), "round {round}");
        assert_eq!(masks, wanted(&labels), "round {round}");
    }
}

#[test]
fn results_of_varying_shape_are_padded() {
    let folders = Folders::new();
    let small = vec![1.0; 4 * 5 * 6];
    let paths = vec![
        VolumePaths {
            name: "large".into(),
            images: vec![file(&folders, "l.nii", SIDES, &image(0, 0))],
            mask: Some(file(&folders, "lm.nii", SIDES, &labels(0))),
        },
        VolumePaths {
            name: "small".into(),
            images: vec![file(&folders, "s.nii", [4, 5, 6], &small)],
            mask: Some(file(&folders, "sm.nii", [4, 5, 6], &small)),
        },
    ];
    let batch = all(volumes(open(&folders, paths.clone()).unwrap(), Vec::new()));
    assert_eq!(batch.get("image").unwrap().shape(), [2, 1, 8, 10, 12]);
    assert_eq!(batch.get("mask").unwrap().shape(), [2, 8, 10, 12]);
    let (got, masks) = numbers(&batch);
    assert_eq!(got[..960], image(0, 0));
    assert_eq!(masks[..960], labels(0));
    assert_eq!((got[960], got[960 + 3], got[960 + 4]), (1.0, 1.0, 0.0));
    assert_eq!(got.iter().skip(960).sum::<f64>(), 120.0);
    let crop: Arc<dyn Operation> = Arc::new(CropForeground::new(0.5, 0).unwrap());
    let cropped = volumes(open(&folders, paths).unwrap(), vec![crop]);
    assert_eq!(all(cropped).get("image").unwrap().shape()[1..], [1, 8, 10, 12]);
}

#[test]
fn crops_by_class_have_their_class_at_the_middle() {
    let folders = Folders::new();
    let place = CropPlace::Foreground {
        share: 1.0,
        classes: Some(vec![(1, 1.0)]),
        elsewhere: Otherwise::Background,
    };
    let crop = || -> Arc<dyn Operation> {
        Arc::new(RandomCrop::new([3, 3, 3], place.clone(), 2).unwrap())
    };
    for round in 0..2 {
        let set = open(&folders, samples(&folders)).unwrap();
        let batch = all(volumes(set, vec![crop()]));
        assert_eq!(batch.get("mask").unwrap().shape(), [3, 2, 3, 3, 3]);
        let (_, masks) = numbers(&batch);
        for patch in masks.chunks(27) {
            assert_eq!(patch[13], 1.0, "round {round}");
        }
        assert_eq!(folders.kept("classes").len(), 3);
    }
    // Damaged places are found again.
    for path in folders.kept("classes") {
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let (_, masks) =
        numbers(&all(volumes(open(&folders, samples(&folders)).unwrap(), vec![crop()])));
    assert!(masks.chunks(27).all(|patch| patch[13] == 1.0));
    let paths = samples(&folders).into_iter().map(|s| VolumePaths { mask: None, ..s }).collect();
    let set = Arc::new(open(&folders, paths).unwrap());
    let program = Program::new(vec![crop()], Output::default()).unwrap();
    let error = Volumes::new(set, program).unwrap_err().to_string();
    assert!(error.contains("needs a mask"), "{error}");
}

#[test]
fn patches_depend_on_seed_epoch_and_sample_alone() {
    let folders = Folders::new();
    let crop: Arc<dyn Operation> =
        Arc::new(RandomCrop::new([4, 4, 4], CropPlace::Anywhere, 1).unwrap());
    let made = |workers: usize, io: usize| {
        let data = volumes(open(&folders, samples(&folders)).unwrap(), vec![crop.clone()]);
        let builder = Loader::builder(data).batch_size(3).shuffle(5).workers(workers);
        let loader = if io > 0 { builder.io_workers(io) } else { builder }.build().unwrap();
        let epoch = |_| numbers(&loader.epoch().next().unwrap().unwrap());
        (0..3).map(epoch).collect::<Vec<_>>()
    };
    let first = made(0, 0);
    assert_ne!(first[0], first[1]);
    assert_eq!(first, made(2, 0));
    assert_eq!(first, made(1, 1));
    let data = volumes(open(&folders, samples(&folders)).unwrap(), vec![crop.clone()]);
    let key = SampleKey::new(5, 0, SampleIndex(1));
    let (region, actions) = data.draw(SampleIndex(1), key).unwrap();
    assert_eq!((region.shape, actions.len()), ([4, 4, 4], 1));
}

#[test]
fn a_sample_that_cannot_be_is_an_error_and_the_others_are_not() {
    let folders = Folders::new();
    let mut paths = samples(&folders);
    let more = |name: &str| VolumePaths {
        name: name.into(),
        images: paths[0].images.clone(),
        mask: paths[0].mask.clone(),
    };
    let mut odd: Vec<VolumePaths> =
        ["shape", "place", "mask", "channels", "gone", "labels", "scaled", "many"].map(more).into();
    odd[0].images[1] = file(&folders, "shape.nii", [12, 10, 7], &counted(840));
    let mut moved = NiftiFile::new(&[12, 10, 8], 4);
    moved.pixdim[1] = 0.6;
    odd[1].images[1] = folders.write("place.nii", &moved.with(&[0; 1920]));
    odd[2].mask = Some(file(&folders, "mask.nii", [12, 10, 7], &counted(840)));
    odd[3].images.pop();
    odd[4].images[0] = folders.path("gone.nii");
    let halves = NiftiFile::new(&[12, 10, 8], 16);
    let half = bytes(&[0.5; 960], VoxelType::F32, false);
    odd[5].mask = Some(folders.write("labels.nii", &halves.with(&half)));
    let scaled = NiftiFile { slope: 2.0, ..NiftiFile::new(&[12, 10, 8], 4) };
    odd[6].mask = Some(folders.write("scaled.nii", &scaled.with(&[0; 1920])));
    let many = NiftiFile::new(&[12, 10, 8, 2], 2);
    odd[7].mask = Some(folders.write("many.nii", &many.with(&[0; 1920])));
    paths.extend(odd);
    let set = open(&folders, paths).unwrap();
    assert_eq!(set.len(), 11);
    let messages = errors(volumes(set, Vec::new()));
    for (message, (name, what)) in messages.iter().zip([
        ("shape.nii", "has [7, 10, 12] voxels and"),
        ("place.nii", "mm from those of"),
        ("mask.nii", "has [7, 10, 12] voxels and"),
        ("0_a.nii.gz", "the sample has 1 channels and the first one has 2"),
        ("gone.nii", "cannot open it"),
        ("0_a.nii.gz", "the mask has the value 0.5"),
        ("scaled.nii", "scaled by 2 and 0"),
        ("many.nii", "it has 2 channels, and a mask has one"),
    ]) {
        assert!(message.contains(name) && message.contains(what), "{what}: {message}");
    }
    assert_eq!(messages.len(), 8, "{messages:?}");
}

#[test]
fn a_set_needs_one_volume_that_can_be_read_and_masks_for_all_or_none() {
    let folders = Folders::new();
    folders.write("a.nii", b"nothing");
    folders.write("b.nii", b"nothing");
    let one = |name: &str| VolumePaths {
        name: name.into(),
        images: vec![folders.path(&format!("{name}.nii"))],
        mask: None,
    };
    let error = open(&folders, vec![one("a"), one("b")]).unwrap_err().to_string();
    assert!(error.contains("a.nii`: it begins as no"), "{error}");
    assert!(open(&folders, Vec::new()).is_err());
    let mut paths = samples(&folders);
    paths[2].mask = None;
    let error = open(&folders, paths).unwrap_err().to_string();
    assert!(error.contains("`2` has a mask and others have none"), "{error}");
    let mut paths = samples(&folders);
    paths[1].images.clear();
    let error = open(&folders, paths).unwrap_err().to_string();
    assert!(error.contains("`1` has no image"), "{error}");
    let stopped =
        VolumeSet::open(samples(&folders), &folders.options(), &mut |_| ControlFlow::Break(()));
    // So few are read before anybody is asked, or not.
    assert!(matches!(stopped, Ok(_) | Err(SourceError::Interrupted)));
}

#[test]
fn headers_are_kept_until_a_file_changes() {
    let folders = Folders::new();
    let paths = samples(&folders);
    let first = open(&folders, paths.clone()).unwrap();
    assert_eq!(folders.kept("headers").len(), 1);
    let table = folders.kept("headers").remove(0);
    let written = std::fs::metadata(&table).unwrap().modified().unwrap();
    let shapes = |set: &VolumeSet| -> Vec<_> {
        (0..set.len()).map(|i| set.case(i).unwrap().unwrap().geometry().shape()).collect()
    };
    let again = open(&folders, paths.clone()).unwrap();
    assert_eq!(shapes(&first), shapes(&again));
    let header =
        |set: &VolumeSet, i: usize| set.case(i).unwrap().unwrap().images()[0].header().clone();
    assert_eq!(header(&first, 1).geometry(), header(&again, 1).geometry());
    assert_eq!(
        std::fs::metadata(&table).unwrap().modified().unwrap(),
        written,
        "not written again"
    );
    // Another shape for all files of a sample.
    for path in paths[1].images.iter().chain(&paths[1].mask) {
        let name = path.file_name().unwrap().to_str().unwrap();
        file(&folders, name, [6, 5, 4], &counted(120));
    }
    let changed = open(&folders, paths.clone()).unwrap();
    assert_eq!(shapes(&changed)[1], [4, 5, 6]);
    // A damaged table.
    let whole = std::fs::read(&table).unwrap();
    for at in (0..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        std::fs::write(&table, damaged).unwrap();
        assert_eq!(shapes(&open(&folders, paths.clone()).unwrap()), shapes(&changed), "byte {at}");
    }
}

#[test]
fn images_alone_are_made_without_masks() {
    let folders = Folders::new();
    let crop: Arc<dyn Operation> = Arc::new(CenterCrop::new([2, 2, 2]).unwrap());
    let data = volumes(open(&folders, samples(&folders)).unwrap(), vec![crop]);
    assert!(data.cost_hint(SampleIndex(0)).is_some_and(|cost| cost == 3 * 1920));
    assert!(data.origin(SampleIndex(1)).unwrap().ends_with("1_a.nii.gz"));
    for sample in 0..3 {
        std::fs::remove_file(folders.path(&format!("{sample}_m.nii.gz"))).unwrap();
    }
    let whole = numbers_of_image(&*data.only(&[0]).expect("fewer fields cost less"));
    assert_eq!(whole.len(), 3 * 2 * 8);
    assert!(data.only(&[1]).is_none());
    assert_eq!(errors(data).len(), 3);
}

fn numbers_of_image(data: &dyn Dataset) -> Vec<f32> {
    assert_eq!(data.fields().len(), 1);
    let mut scratch = feedline_core::Scratch::new(data.fields()).unwrap();
    let mut out = Vec::new();
    for index in 0..data.len() {
        let key = SampleKey::new(0, 0, SampleIndex(index));
        let view = scratch.read(data, SampleIndex(index), key).unwrap();
        out.extend(
            view.bytes(0).chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())),
        );
    }
    out
}
