use feedline_core::{Dataset, Loader, OnError, SampleIndex};
use feedline_sources::npy::Folder;

use crate::common::{all, errors, folder};
use crate::numpy_files::{self as files, bytes};

#[test]
fn files_come_in_the_order_of_their_names_bytes() {
    let file = bytes(files::VERSION_3);
    let dir = folder(&[("b.npy", &file), ("a10.npy", &file), ("a9.npy", &file), ("B.npy", &file)]);
    let source = Folder::open(dir.path(), "x").unwrap();
    let names: Vec<String> = (0..source.len())
        .map(|i| source.path(SampleIndex(i)).unwrap())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_string())
        .collect();
    assert_eq!(names, ["B.npy", "a10.npy", "a9.npy", "b.npy"]);
    assert_eq!(source.path(SampleIndex(4)), None);
}

#[test]
fn only_npy_files_are_samples() {
    let file = bytes(files::F32);
    let dir =
        folder(&[("1.npy", &file), ("notes.txt", b"x"), (".2.npy", b"x"), ("3.npy.part", b"x")]);
    std::fs::create_dir(dir.path().join("4.npy")).unwrap();
    let source = Folder::open(dir.path(), "x").unwrap();
    assert_eq!(source.len(), 1);
    assert_eq!(source.cost_hint(SampleIndex(0)), Some(file.len() as u64));
    assert!(source.origin(SampleIndex(0)).unwrap().ends_with("1.npy"));
}

#[test]
fn each_file_is_one_sample_whatever_its_layout() {
    let c = b"\x93NUMPY\x01\x00\x3a\x00{'descr': '<u4', 'fortran_order': False, 'shape': (2, 2)}\n";
    let mut row_major = c.to_vec();
    row_major.extend([1u32, 2, 3, 4].iter().flat_map(|v| v.to_le_bytes()));
    let dir = folder(&[("0.npy", &bytes(files::FORTRAN_BIG_ENDIAN_U32)), ("1.npy", &row_major)]);
    let batch = all(Folder::open(dir.path(), "x").unwrap());
    let array = batch.get("x").unwrap();
    assert_eq!(array.shape(), [2, 2, 2]);
    assert_eq!(array.as_slice::<u32>().unwrap(), [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn single_numbers_make_a_batch_of_one_axis() {
    let file = bytes(files::ZERO_D);
    let dir = folder(&[("0.npy", &file), ("1.npy", &file)]);
    let batch = all(Folder::open(dir.path(), "x").unwrap());
    assert_eq!(batch.arrays()[0].shape(), [2]);
    assert_eq!(batch.arrays()[0].as_slice::<f64>().unwrap(), [2.5, 2.5]);
}

#[test]
fn a_file_that_differs_is_an_error_of_its_sample_that_names_both() {
    let dir = folder(&[
        ("0.npy", &bytes(files::F32)),
        ("1.npy", &bytes(files::F16)),
        ("2.npy", &bytes(files::F32)),
    ]);
    let errors = errors(Folder::open(dir.path(), "x").unwrap());
    assert_eq!(errors.len(), 1);
    for part in ["0.npy", "1.npy", "float32", "float16", "[3, 2]", "[2]"] {
        assert!(errors[0].contains(part), "{part}: {}", errors[0]);
    }
}

#[test]
fn broken_files_are_errors_of_their_samples_and_the_others_go_on() {
    let good = bytes(files::F32);
    let dir = folder(&[
        ("0.npy", &good),
        ("1.npy", &good[..good.len() - 1]),
        ("2.npy", b""),
        ("3.npy", &bytes(files::OBJECT)),
        ("4.npy", &good[..60]),
        ("5.npy", &good),
    ]);
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", dir.path().join("6.npy")).unwrap();
    let loader = Loader::builder(Folder::open(dir.path(), "x").unwrap())
        .batch_size(10)
        .on_error(OnError::Skip)
        .build()
        .unwrap();
    let batch = loader.epoch().next().unwrap().unwrap();
    assert_eq!(batch.indices(), [SampleIndex(0), SampleIndex(5)]);
    let listed: String = loader.errors().iter().map(|e| format!("{e}\n")).collect();
    let needs = [good.len().to_string(), (good.len() - 1).to_string()];
    for part in ["1.npy", "2.npy", "empty", "3.npy", "dtype=object", "4.npy", &needs[0], &needs[1]]
    {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!cfg!(unix) || listed.contains("6.npy"));
}

#[test]
fn bytes_after_the_data_are_ignored_and_not_even_read_when_many() {
    let mut long = bytes(files::F32);
    long.resize(3 << 20, 7);
    let dir = folder(&[("0.npy", &bytes(files::F32)), ("1.npy", &long)]);
    let source = Folder::open(dir.path(), "x").unwrap();
    let mut raw = Vec::new();
    source.load(SampleIndex(1), &mut raw).unwrap();
    assert!(raw.len() < 100_000, "{}", raw.len());
    let batch = all(source);
    let array = batch.arrays()[0].as_slice::<f32>().unwrap();
    assert_eq!(array[..6], array[6..]);
}

#[test]
fn a_folder_without_samples_is_named() {
    let dir = folder(&[("notes.txt", b"x")]);
    let message = Folder::open(dir.path(), "x").unwrap_err().to_string();
    assert!(message.contains(&dir.path().display().to_string()), "{message}");
    let message = Folder::open(dir.path().join("none"), "x").unwrap_err().to_string();
    assert!(message.contains("cannot list"), "{message}");
}
