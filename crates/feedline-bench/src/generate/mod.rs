//! Data to measure with: photograph-like pictures, preprocessed samples, reviews and CT-like volumes, the same for
//! the same seed.
//!
//! A data set is a folder with a note of what it is (`dataset.json`), written last: one that was
//! interrupted is made again, one that is there is used as it is.

mod all_cores;
mod picture;
mod random;
mod reviews;
mod volumes;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::experiment::ExperimentError;
use picture::SyntheticPicture;
pub(crate) use random::SplitMix;
pub use reviews::ReviewForm;
pub use volumes::{PhantomFormat, PhantomLayout, PhantomSpec};

/// JPEG quality at which pictures of this kind have about 117 KB, as those of the published study.
const QUALITY: u8 = 97;

/// Side of a preprocessed sample.
const SIDE: usize = 224;

/// Mean and standard deviation of ImageNet's channels, as everybody normalises by.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// JPEG files of about 500 x 375 pixels and 117 KB, in class folders.
    Images,
    /// One `.npy` file of float32 (3, 224, 224) for each sample.
    Preprocessed,
    /// Film reviews of about 230 words that are positive or negative, as IMDB's.
    Reviews(ReviewForm),
}

/// A data set to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSpec {
    /// What is made.
    pub kind: DataKind,
    /// How many samples.
    pub count: u64,
    /// The same seed gives the same bytes.
    pub seed: u64,
    /// Classes that pictures are spread over.
    pub classes: u64,
}

impl DataSpec {
    /// The folder's name below a cache of data sets.
    pub fn folder_name(&self) -> String {
        let kind = match self.kind {
            DataKind::Images => "images",
            DataKind::Preprocessed => "preprocessed",
            DataKind::Reviews(form) => {
                return format!("reviews{}-{}-seed{}", form.suffix(), self.count, self.seed);
            }
        };
        format!("{kind}-{}-seed{}", self.count, self.seed)
    }

    /// Makes the data set unless it is there, and returns its size in bytes. `progress` is told how many
    /// samples are done and answers whether to go on.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written, or `progress` said to stop.
    pub fn make(
        &self,
        folder: &Path,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<u64, ExperimentError> {
        let note = folder.join("dataset.json");
        if let Some(bytes) = self.bytes_there(&note) {
            return Ok(bytes);
        }
        if let DataKind::Reviews(_) = self.kind {
            reviews::check(self.count)?;
        }
        // A class without a picture would be refused by most readers.
        let classes = match self.kind {
            DataKind::Images => self.classes.clamp(1, self.count.max(1)),
            DataKind::Preprocessed | DataKind::Reviews(_) => 0,
        };
        let folders = (0..classes).map(|class| folder.join(class_name(class)));
        let labels = match self.kind {
            DataKind::Reviews(form) => form.folders(),
            _ => &[],
        };
        let labels = labels.iter().map(|label| folder.join(label));
        for path in folders.chain(labels).chain([folder.to_owned()]) {
            fs::create_dir_all(&path).map_err(|e| cannot("create the folder", &path, e))?;
        }
        let bytes = match self.kind {
            DataKind::Reviews(form) if form != ReviewForm::Folders => {
                reviews::write_splits(self, form, folder, &mut progress)?
            }
            _ => {
                let make = |index| self.make_one(folder, index);
                all_cores::make_each(self.count, make, &mut progress)?
            }
        };
        let text = serde_json::json!({"spec": self, "bytes": bytes}).to_string();
        fs::write(&note, text + "\n").map_err(|e| cannot("write", &note, e))?;
        Ok(bytes)
    }

    fn bytes_there(&self, note: &Path) -> Option<u64> {
        #[derive(Deserialize)]
        struct DatasetNote {
            spec: DataSpec,
            bytes: u64,
        }
        let note: DatasetNote = serde_json::from_slice(&fs::read(note).ok()?).ok()?;
        (note.spec == *self).then_some(note.bytes)
    }

    fn make_one(&self, folder: &Path, index: u64) -> Result<u64, ExperimentError> {
        let picture = || SyntheticPicture::new(self.seed, index);
        let (path, bytes) = match self.kind {
            DataKind::Images => (self.picture_path(folder, index), jpeg(&picture())?),
            DataKind::Preprocessed => {
                (folder.join(format!("sample_{index:06}.npy")), preprocessed(&picture()))
            }
            DataKind::Reviews(_) => reviews::file(self, folder, index),
        };
        let mut file = fs::File::create(&path).map_err(|e| cannot("create", &path, e))?;
        file.write_all(&bytes).map_err(|e| cannot("write", &path, e))?;
        Ok(bytes.len() as u64)
    }

    fn picture_path(&self, folder: &Path, index: u64) -> PathBuf {
        let class = class_name(index % self.classes.max(1));
        folder.join(class).join(format!("picture_{index:06}.jpg"))
    }
}

fn class_name(class: u64) -> String {
    format!("class_{class:02}")
}

fn jpeg(picture: &SyntheticPicture) -> Result<Vec<u8>, ExperimentError> {
    let mut bytes = Vec::with_capacity(1 << 17);
    let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, QUALITY);
    encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
    encoder
        .encode(&picture.pixels, picture.width, picture.height, jpeg_encoder::ColorType::Rgb)
        .map_err(|error| ExperimentError::Failed {
            what: format!("cannot encode a picture: {error}"),
        })?;
    Ok(bytes)
}

/// The middle of a picture, normalised, channels first, as a `.npy` file.
fn preprocessed(picture: &SyntheticPicture) -> Vec<u8> {
    let (width, height) = (usize::from(picture.width), usize::from(picture.height));
    let (left, top) = ((width - SIDE) / 2, (height - SIDE) / 2);
    let mut bytes = npy_header("<f4", &[3, SIDE, SIDE]);
    for channel in 0..3 {
        for y in 0..SIDE {
            for x in 0..SIDE {
                let pixel = picture.pixels[((top + y) * width + left + x) * 3 + channel];
                let value = (f32::from(pixel) / 255.0 - MEAN[channel]) / DEVIATION[channel];
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
    }
    bytes
}

/// The header of an array: magic, version 1.0, length, a Python literal padded to 64 bytes.
fn npy_header(descr: &str, shape: &[usize]) -> Vec<u8> {
    // Exactly as NumPy writes it: some readers understand no other form of the same literal.
    let shape = match shape {
        [single] => format!("{single},"),
        sides => sides.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut literal =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let padded = (10 + literal.len() + 1).next_multiple_of(64) - 10;
    literal.push_str(&" ".repeat(padded - literal.len() - 1));
    literal.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(literal.len() as u16).to_le_bytes());
    bytes.extend_from_slice(literal.as_bytes());
    bytes
}

fn cannot(action: &'static str, path: &Path, source: std::io::Error) -> ExperimentError {
    ExperimentError::File { action, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: DataKind, count: u64) -> DataSpec {
        DataSpec { kind, count, seed: 7, classes: 3 }
    }

    fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => found.extend(files(&entry.path())),
                false => found.push((entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
        found.sort();
        found
    }

    #[test]
    fn of_several_files_that_cannot_be_written_the_first_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for index in [3, 4, 5, 6] {
            fs::create_dir(folder.path().join(format!("sample_{index:06}.npy"))).unwrap();
        }
        for _ in 0..10 {
            let failed = spec(DataKind::Preprocessed, 9).make(folder.path(), |_| true);
            let message = failed.unwrap_err().to_string();
            assert!(message.contains("sample_000003.npy"), "{message}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
        let make = |seed| {
            let folder = tempfile::tempdir().unwrap();
            let spec = DataSpec { seed, ..spec(DataKind::Images, 4) };
            spec.make(folder.path(), |_| true).unwrap();
            files(folder.path()).into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>()
        };
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }

    #[test]
    fn pictures_have_about_the_published_size() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = spec(DataKind::Images, 24).make(folder.path(), |_| true).unwrap();
        let mean = bytes as f64 / 24.0;
        assert!((100e3..135e3).contains(&mean), "{mean} bytes");
        let class = folder.path().join("class_01/picture_000001.jpg");
        assert!(fs::read(class).unwrap().starts_with(&[0xff, 0xd8, 0xff]));
    }

    #[test]
    fn what_is_there_is_not_made_again_and_what_is_unfinished_is() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(DataKind::Preprocessed, 3);
        let stopped = spec.make(folder.path(), |done| done < 2);
        assert!(matches!(stopped, Err(ExperimentError::Interrupted)));
        let mut made = 0;
        spec.make(folder.path(), |done| {
            made = done;
            true
        })
        .unwrap();
        assert_eq!(made, 3);
        spec.make(folder.path(), |_| panic!("it is there")).unwrap();
        let size = fs::metadata(folder.path().join("sample_000000.npy")).unwrap().len();
        assert_eq!(size, 128 + 3 * 224 * 224 * 4);
    }

    #[test]
    fn a_folder_that_cannot_be_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = spec(DataKind::Images, 1).make(&file.join("x"), |_| true).unwrap_err();
        assert!(error.to_string().starts_with("cannot create the folder"), "{error}");
    }
}
