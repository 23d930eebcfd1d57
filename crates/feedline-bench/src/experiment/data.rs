//! Where an experiment's data comes from: a folder that the user names, or data made once and kept.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ExperimentError, Session, SessionEvent};
use crate::generate::{DataKind, DataSpec};

const PICTURES: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// A data set on disk.
#[derive(Clone, Debug)]
pub(crate) struct DataSet {
    pub(crate) folder: PathBuf,
    /// Whether it was made, and so is the same on every machine.
    pub(crate) is_made: bool,
}

/// The data set of a kind. `None` if the user named a folder that holds none of that kind.
pub(crate) fn find(
    kind: DataKind,
    count: u32,
    seed: u64,
    session: &mut Session<'_>,
) -> Result<Option<DataSet>, ExperimentError> {
    let Some(given) = session.data.clone() else {
        let spec = DataSpec { kind, count: count.into(), seed, classes: 10 };
        let folder = session.cache.join(spec.folder_name());
        let what = match kind {
            DataKind::Images => "making pictures",
            DataKind::Preprocessed => "making preprocessed samples",
            DataKind::Reviews(_) => "making reviews",
        };
        spec.make(&folder, |done| {
            session.tell(SessionEvent::Prepares { what, done, of: count.into() });
            !session.is_interrupted()
        })?;
        return Ok(Some(DataSet { folder, is_made: true }));
    };
    let name = match kind {
        DataKind::Images => "images",
        DataKind::Preprocessed => "preprocessed",
        DataKind::Reviews(_) => "reviews",
    };
    let places = [given.join(name), given];
    let found = places.into_iter().find(|folder| holds(folder, kind));
    Ok(found.map(|folder| DataSet { folder, is_made: false }))
}

/// Says that a folder which the user named is of no use.
pub(crate) fn nothing_in(session: &Session<'_>) -> ExperimentError {
    let folder = session.data.clone().unwrap_or_default();
    ExperimentError::NoData { folder, what: "class folders of pictures and no .npy files" }
}

fn holds(folder: &Path, kind: DataKind) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        match kind {
            DataKind::Preprocessed => has_ending(&path, &["npy"]),
            // IMDB's layout: a folder per label in the one for training.
            DataKind::Reviews(_) => path.ends_with("train") && path.join("pos").is_dir(),
            DataKind::Images => {
                path.is_dir()
                    && fs::read_dir(&path).is_ok_and(|mut inner| {
                        inner.any(|it| it.is_ok_and(|it| has_ending(&it.path(), &PICTURES)))
                    })
            }
        }
    })
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().map(|it| it.to_string_lossy().to_lowercase());
    ending.is_some_and(|it| endings.contains(&it.as_str()))
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(it) if it.is_dir() => found.extend(files(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

/// Whether files come from the page cache or from storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cache {
    /// Every file is read once before the first run.
    Warm,
    /// Files are dropped from the cache before every run.
    Cold,
}

impl Cache {
    /// What was done, in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Warm => "warm; every file was read once before",
            Self::Cold => {
                "cold; before every run the files were dropped from the cache (posix_fadvise), directories not"
            }
        }
    }

    /// Makes a data set ready for all runs.
    pub(crate) fn prepare(self, folder: &Path) {
        self.prepare_files(&files(folder));
    }

    /// Makes it ready for the next run.
    pub(crate) fn before_run(self, folder: &Path) {
        self.files_before_run(&files(folder));
    }

    /// Makes files ready for all runs.
    pub(crate) fn prepare_files(self, files: &[PathBuf]) {
        if self == Self::Warm {
            files.iter().for_each(|path| warm(path));
        }
    }

    /// Makes files ready for the next run.
    pub(crate) fn files_before_run(self, files: &[PathBuf]) {
        if self == Self::Cold {
            chill(files);
        }
    }
}

/// Reads a file once, so that the next reader finds it in the page cache.
pub(crate) fn warm(path: &Path) {
    // A file that cannot be read now fails where it matters.
    let _ =
        fs::File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
}

/// Takes files out of the page cache, as far as the system lets us: pages that are clean and that
/// nobody has mapped. Emptying the whole cache (`/proc/sys/vm/drop_caches`) would need rights that most
/// users lack, and slow down everybody else on the machine.
pub(crate) fn chill(paths: &[PathBuf]) {
    #[cfg(target_os = "linux")]
    for path in paths {
        let Ok(file) = fs::File::open(path) else { continue };
        let _ = file.sync_data();
        let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        let _ = nix::fcntl::posix_fadvise(&file, 0, 0, advice);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = paths;
}
