//! Encoded pictures as a dataset.

use std::ffi::OsString;
use std::sync::Arc;

use feedline_core::{Cause, Dataset, Error, Loader, OnError, SampleIndex};
use feedline_ops::image::op::{RandomHorizontalFlip, RandomResizedCrop};
use feedline_ops::image::{Dtype, Layout, Program, ProgramOptions, Step};
use feedline_sources::{Encoded, MixKind, Mixing, Pictures, Reading, RowTable, Rows};

/// Bitmaps of growing size, each with a text; every seventh picture is broken.
struct Bitmaps {
    count: u64,
    parts: Vec<String>,
    classes: Vec<OsString>,
}

impl Bitmaps {
    fn new(count: u64) -> Arc<Bitmaps> {
        let parts = ["bmp", "txt"].map(String::from).to_vec();
        Arc::new(Bitmaps { count, parts, classes: ["even", "odd"].map(OsString::from).to_vec() })
    }
}

fn bitmap(index: u64) -> Vec<u8> {
    let (width, height) = (20 + index as usize, 30 - index as usize % 9);
    let stride = (width * 3).next_multiple_of(4);
    let mut file = b"BM".to_vec();
    file.extend(((26 + stride * height) as u32).to_le_bytes());
    file.extend([0, 0, 0, 0, 26, 0, 0, 0, 12, 0, 0, 0]);
    file.extend([width as u8, 0, height as u8, 0, 1, 0, 24, 0]);
    file.extend((0..stride * height).map(|i| (i as u64 * (index + 3)) as u8));
    file
}

impl Encoded for Bitmaps {
    fn len(&self) -> u64 {
        self.count
    }
    fn parts(&self) -> &[String] {
        &self.parts
    }
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        raw.extend(if index.0 % 7 == 6 { b"broken".to_vec() } else { bitmap(index.0) });
        Ok(())
    }
    fn part<'a>(&'a self, _: SampleIndex, raw: &'a [u8], part: usize) -> Result<&'a [u8], Cause> {
        Ok(if part == 0 { raw } else { b"words" })
    }
    fn label(&self, index: SampleIndex) -> Option<i64> {
        Some((index.0 % 2) as i64)
    }
    fn classes(&self) -> Option<&[OsString]> {
        Some(&self.classes)
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        Some(format!("bitmap {}", index.0))
    }
}

fn program() -> Program {
    let steps = [
        Step::Operation(Arc::new(RandomResizedCrop::square(16).unwrap())),
        Step::Operation(Arc::new(RandomHorizontalFlip::new(0.5).unwrap())),
        Step::ToDtype { dtype: Dtype::F32, scale: true },
    ];
    Program::compile(steps, ProgramOptions::default()).unwrap()
}

#[test]
fn every_number_of_workers_makes_the_same_bytes() {
    let run = |workers| {
        let pictures = Pictures::new(Bitmaps::new(30), program()).unwrap();
        let pictures = pictures.views(vec![program(), program()]).unwrap();
        let loader = Loader::builder(pictures)
            .batch_size(8)
            .shuffle(3)
            .workers(workers)
            .on_error(OnError::Replace)
            .build()
            .unwrap();
        let mut all = Vec::new();
        for batch in (0..2).flat_map(|_| loader.epoch().collect::<Vec<_>>()) {
            let batch = batch.unwrap();
            let names: Vec<_> = batch.arrays().iter().map(|array| array.name()).collect();
            assert_eq!(names, ["image_0", "image_1", "label"]);
            let views = [0, 1].map(|i| batch.arrays()[i].as_bytes().to_vec());
            assert_ne!(views[0], views[1], "views draw their own parameters");
            all.push((batch.indices().to_vec(), views));
        }
        // Workers may be in the third epoch already.
        let broken = loader.errors().iter().filter(|error| error.epoch < 2).count();
        assert_eq!(broken, 8, "four broken ones in each epoch");
        all
    };
    let alone = run(0);
    assert_eq!(alone, run(1));
    assert_eq!(alone, run(3));
}

#[test]
fn an_error_names_the_picture_and_the_reason() {
    let loader = Loader::builder(Pictures::new(Bitmaps::new(7), program()).unwrap())
        .batch_size(7)
        .workers(1)
        .build()
        .unwrap();
    let error = loader.epoch().next().unwrap().unwrap_err();
    let Error::Sample(error) = error else { panic!("{error}") };
    assert_eq!(error.origin.as_deref(), Some("bitmap 6"));
    assert!(error.to_string().contains("not a picture in a known format"), "{error}");
}

#[test]
fn parts_and_tables_become_fields() {
    let boxes = RowTable::new(4, vec![0.0, 0.0, 10.0, 10.0], vec![0, 1, 1, 1]).unwrap();
    let pictures = Pictures::new(Bitmaps::new(3), program())
        .unwrap()
        .boxes(Arc::new(boxes), Rows::Packed)
        .unwrap()
        .other("txt", Reading::Text)
        .unwrap();
    let names: Vec<_> = pictures.fields().iter().map(|f| f.name().to_string()).collect();
    assert_eq!(names, ["image", "label", "boxes", "txt"]);
    let error = Pictures::new(Bitmaps::new(3), program()).unwrap().mask_part("png").unwrap_err();
    assert_eq!(error.to_string(), "samples have no part `png`; they have bmp, txt");
    let few = RowTable::new(4, vec![], vec![0, 0]).unwrap();
    let error =
        Pictures::new(Bitmaps::new(3), program()).unwrap().boxes(Arc::new(few), Rows::Packed);
    assert!(error.unwrap_err().to_string().contains("boxes has 1 entries for 3 pictures"));
    let loader = Loader::builder(pictures).batch_size(3).workers(0).build().unwrap();
    let batch = loader.epoch().next().unwrap().unwrap();
    assert_eq!(batch.get("boxes_offsets").unwrap().as_slice::<i64>().unwrap(), [0, 1, 1, 1]);
    assert_eq!(batch.get("label").unwrap().as_slice::<i64>().unwrap(), [0, 1, 0]);
    assert_eq!(batch.get("txt").unwrap().as_bytes(), b"wordswordswords");
}

#[test]
fn mixing_changes_the_assembled_batch() {
    let mixing = |classes| {
        Mixing::new(vec![(MixKind::MixUp, 1.0)], classes, (vec![0], Layout::Chw), 1).unwrap()
    };
    let loader = |mixing: Option<Mixing>| {
        let pictures = Pictures::new(Bitmaps::new(6), program()).unwrap();
        let mut builder = Loader::builder(pictures).batch_size(6).seed(4).workers(2);
        if let Some(mixing) = mixing {
            builder = builder.alter(mixing);
        }
        builder.build().unwrap()
    };
    let plain = loader(None).epoch().next().unwrap().unwrap();
    let mixed = loader(Some(mixing(2))).epoch().next().unwrap().unwrap();
    let weights = mixed.arrays()[1].as_slice::<f32>().unwrap();
    let part = weights[0];
    for row in 0..6 {
        assert!((weights[2 * row + row % 2] - part).abs() < 1e-6);
        let before = (row + 5) % 6;
        let plain = plain.arrays()[0].as_slice::<f32>().unwrap();
        let mixed = mixed.arrays()[0].as_slice::<f32>().unwrap();
        let size = 3 * 16 * 16;
        for i in 0..size {
            let expected = plain[row * size + i] * part + plain[before * size + i] * (1.0 - part);
            assert!((mixed[row * size + i] - expected).abs() < 1e-5);
        }
    }
    let error = loader(Some(mixing(1))).epoch().next().unwrap().unwrap_err();
    assert!(error.to_string().contains("label 1 is none of 1 classes"), "{error}");
}
