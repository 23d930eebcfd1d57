//! Loading everything a source has.

use std::path::PathBuf;

use feedline_core::{Batch, Dataset, Loader};
use tempfile::TempDir;

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).expect("temporary file");
    }
    dir
}

/// A file of these bytes, in a folder that lives as long as the first.
pub(crate) fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = folder(&[("array.npy", bytes)]);
    let path = dir.path().join("array.npy");
    (dir, path)
}

/// All samples in one batch, made by two workers.
pub(crate) fn all(dataset: impl Dataset) -> Batch {
    let n = dataset.len();
    let loader = Loader::builder(dataset).batch_size(n).workers(2).build().expect("a loader");
    loader.epoch().next().expect("one batch").expect("no sample fails")
}

/// What is wrong with each sample that is, as the user reads it.
pub(crate) fn errors(dataset: impl Dataset) -> Vec<String> {
    let loader = Loader::builder(dataset).batch_size(1).workers(1).build().expect("a loader");
    let errors = loader.epoch().filter_map(|batch| batch.err());
    errors.map(|error| error.to_string()).collect()
}
