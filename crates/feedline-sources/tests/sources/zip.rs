use std::sync::Arc;

use feedline_core::{DType, Dataset, SampleIndex};
use feedline_sources::npy::{Folder, Packed, Writer};
use feedline_sources::{SourceError, Zip};

use crate::common::{all, errors, file, folder};
use crate::numpy_files::{self as files, bytes};

fn packed(hex: &str, name: &str) -> Packed {
    let (_dir, path) = file(&bytes(hex));
    Packed::open(path, name).expect("NumPy wrote it")
}

#[test]
fn fields_of_all_sources_are_in_each_sample() {
    let two = packed(files::FORTRAN_BIG_ENDIAN_U32, "pair");
    let zip = Zip::of(two).and(packed(files::BIG_ENDIAN_F64, "x")).unwrap();
    let zip = zip.and(Arc::new(packed(files::VERSION_2, "label"))).unwrap();
    let batch = all(zip);
    assert_eq!(batch.get("pair").unwrap().as_slice::<u32>().unwrap(), [1, 2, 3, 4]);
    assert_eq!(batch.get("x").unwrap().as_slice::<f64>().unwrap(), [1.5, -2.0]);
    assert_eq!(batch.get("label").unwrap().as_slice::<i64>().unwrap(), [7, 8]);
}

#[test]
fn sources_that_load_and_sources_that_do_not_go_together_even_nested() {
    let dir = folder(&[]);
    for i in 0..20u32 {
        let mut writer =
            Writer::create(dir.path().join(format!("{i:02}.npy")), DType::U32, [3]).unwrap();
        writer.row(&[i; 3]).unwrap();
        writer.row(&[i + 100; 3]).unwrap();
        writer.finish().unwrap();
    }
    let labels = dir.path().join("labels");
    std::fs::create_dir(&labels).unwrap();
    let mut writer = Writer::create(labels.join("all.npy"), DType::U32, []).unwrap();
    for i in 0..20 {
        writer.row(&[i + 1000u32]).unwrap();
    }
    writer.finish().unwrap();
    let label = |name| Packed::open(labels.join("all.npy"), name).unwrap();
    let images = |name| Folder::open(dir.path(), name).unwrap();
    let inner = Zip::of(label("a")).and(images("b")).unwrap();
    let zip = Zip::of(images("c")).and(inner).unwrap().and(label("d")).unwrap();
    let size = std::fs::metadata(dir.path().join("00.npy")).unwrap().len();
    assert_eq!(zip.cost_hint(SampleIndex(0)), Some(2 * size));
    let origin = zip.origin(SampleIndex(4)).unwrap();
    assert!(origin.contains("04.npy + ") && origin.contains("all.npy[4]"), "{origin}");
    let batch = all(zip);
    for (i, index) in batch.indices().iter().enumerate() {
        let n = index.0 as u32;
        for image in ["b", "c"] {
            let image = batch.get(image).unwrap().as_slice::<u32>().unwrap();
            assert_eq!(image[6 * i..6 * i + 6], [n, n, n, n + 100, n + 100, n + 100]);
        }
        for label in ["a", "d"] {
            assert_eq!(batch.get(label).unwrap().as_slice::<u32>().unwrap()[i], n + 1000);
        }
    }
}

#[test]
fn one_broken_part_is_an_error_of_the_sample() {
    let good = bytes(files::F32);
    let dir = folder(&[("0.npy", &good), ("1.npy", &good[..100])]);
    let zip =
        Zip::of(packed(files::VERSION_2, "label")).and(Folder::open(dir.path(), "image").unwrap());
    let errors = errors(zip.unwrap());
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("1.npy"), "{}", errors[0]);
}

#[test]
fn sources_that_do_not_fit_are_refused() {
    let refused = Zip::of(packed(files::F32, "x")).and(packed(files::VERSION_2, "label"));
    let message = refused.unwrap_err().to_string();
    for part in ["`x`", "3", "`label`", "2"] {
        assert!(message.contains(part), "{message}");
    }
    let refused = Zip::of(packed(files::F16, "x")).and(packed(files::VERSION_2, "x"));
    assert!(matches!(refused, Err(SourceError::DuplicateField { name }) if name == "x"));
}
