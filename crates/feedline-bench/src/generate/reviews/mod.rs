//! Film reviews with a label, as IMDB's: a file each in `train/pos`, `train/neg`, `test/pos`, `test/neg`, or all of a split in one
//! file.
//!
//! The first half of the reviews is for training; positive and negative ones take turns. In folders and files alike the label of
//! a negative review is 0 and of a positive one 1, as folders sorted by name have it.

mod lexicon;
mod prose;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{DataSpec, cannot};
use crate::experiment::ExperimentError;
use prose::Review;

/// Reviews that a thread makes before it hands them over, where all go into one file.
const LOT: u64 = 256;

/// Lots that a thread may be ahead of the writer.
const LOTS_AHEAD: usize = 4;

/// Every folder of IMDB's has a review.
const FEWEST: u64 = 4;

/// How reviews are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewForm {
    /// A file for each, as IMDB's: `train/pos/17_9.txt` is the 17th and has nine stars.
    Folders,
    /// A line for each in `train.txt` and `test.txt`; the labels are in `train-labels.npy` and `test-labels.npy`.
    Lines,
    /// `train.csv` and `test.csv`: `text`, `label`, `stars`.
    Csv,
    /// `train.jsonl` and `test.jsonl`: `text`, `label` and `meta` with `stars` and `words`.
    Jsonl,
}

impl ReviewForm {
    /// What it adds to a folder's name.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Folders => "",
            Self::Lines => "-lines",
            Self::Csv => "-csv",
            Self::Jsonl => "-jsonl",
        }
    }

    /// Folders below that of the data set.
    pub(super) fn folders(self) -> &'static [&'static str] {
        match self {
            Self::Folders => &["train/pos", "train/neg", "test/pos", "test/neg"],
            _ => &[],
        }
    }
}

/// Where a review belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReviewPlace {
    split: &'static str,
    is_positive: bool,
    /// Its number among those of its split and label.
    number: u64,
}

impl ReviewPlace {
    fn of(index: u64, count: u64) -> Self {
        let train = train_count(count);
        let (split, within) =
            if index < train { ("train", index) } else { ("test", index - train) };
        Self { split, is_positive: within % 2 == 0, number: within / 2 }
    }
}

fn train_count(count: u64) -> u64 {
    count.div_ceil(2)
}

/// Refuses so few that a folder would be empty.
pub(super) fn check(count: u64) -> Result<(), ExperimentError> {
    if count >= FEWEST {
        return Ok(());
    }
    let problem = format!(
        "reviews are for training and testing, positive and negative: there must be at least {FEWEST}, got {count}"
    );
    Err(ExperimentError::Setting { problem })
}

/// The file and the bytes of one review.
pub(super) fn file(spec: &DataSpec, folder: &Path, index: u64) -> (PathBuf, Vec<u8>) {
    let ReviewPlace { split, is_positive, number } = ReviewPlace::of(index, spec.count);
    let review = Review::new(spec.seed, index, is_positive);
    let label = if is_positive { "pos" } else { "neg" };
    let name = format!("{number}_{}.txt", review.stars);
    (folder.join(split).join(label).join(name), review.text.into_bytes())
}

/// All reviews in one file for each split, made by as many threads as there are cores and written in order.
pub(super) fn write_splits(
    spec: &DataSpec,
    form: ReviewForm,
    folder: &Path,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<u64, ExperimentError> {
    let train = train_count(spec.count);
    let mut bytes = 0;
    for (split, range) in [("train", 0..train), ("test", train..spec.count)] {
        let first = range.start;
        bytes += write_split(spec, form, folder, split, range, &mut |done| progress(first + done))?;
    }
    Ok(bytes)
}

fn write_split(
    spec: &DataSpec,
    form: ReviewForm,
    folder: &Path,
    split: &str,
    range: Range<u64>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<u64, ExperimentError> {
    let ending = match form {
        ReviewForm::Csv => "csv",
        ReviewForm::Jsonl => "jsonl",
        ReviewForm::Folders | ReviewForm::Lines => "txt",
    };
    let path = folder.join(format!("{split}.{ending}"));
    let failed = |error| cannot("write", &path, error);
    let file = File::create(&path).map_err(|error| cannot("create", &path, error))?;
    let mut file = BufWriter::with_capacity(1 << 18, file);
    let mut bytes = 0;
    if form == ReviewForm::Csv {
        let head = b"text,label,stars\n";
        file.write_all(head).map_err(failed)?;
        bytes += head.len() as u64;
    }
    let starts: Vec<u64> = range.clone().step_by(LOT as usize).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(starts.len());
    let made: Result<u64, ExperimentError> = std::thread::scope(|scope| {
        // Each thread takes every n-th lot, so whoever reads from them in turn has all in order.
        let lots: Vec<Receiver<Vec<u8>>> = (0..threads)
            .map(|thread| {
                let (give, take) = sync_channel(LOTS_AHEAD);
                let (starts, end) = (&starts, range.end);
                scope.spawn(move || {
                    for start in starts.iter().skip(thread).step_by(threads) {
                        // Nobody listens any more after a failure or a stop.
                        if give.send(lot(spec, form, *start..end.min(start + LOT))).is_err() {
                            return;
                        }
                    }
                });
                take
            })
            .collect();
        let mut written = 0;
        for (place, start) in starts.iter().enumerate() {
            let Ok(text) = lots[place % threads].recv() else {
                let what = "a thread that makes reviews ended early".into();
                return Err(ExperimentError::Failed { what });
            };
            file.write_all(&text).map_err(failed)?;
            written += text.len() as u64;
            if !progress(range.end.min(start + LOT) - range.start) {
                return Err(ExperimentError::Interrupted);
            }
        }
        Ok(written)
    });
    bytes += made?;
    file.flush().map_err(failed)?;
    if form == ReviewForm::Lines {
        bytes += write_labels(spec, &folder.join(format!("{split}-labels.npy")), range)?;
    }
    Ok(bytes)
}

/// Some reviews as lines of a file.
fn lot(spec: &DataSpec, form: ReviewForm, range: Range<u64>) -> Vec<u8> {
    let mut lines = String::with_capacity((range.end - range.start) as usize * 1500);
    for index in range {
        let is_positive = ReviewPlace::of(index, spec.count).is_positive;
        let Review { text, stars, words } = Review::new(spec.seed, index, is_positive);
        let label = u8::from(is_positive);
        match form {
            ReviewForm::Folders | ReviewForm::Lines => lines.push_str(&text),
            ReviewForm::Csv => {
                let quoted = text.replace('"', "\"\"");
                lines.push_str(&format!("\"{quoted}\",{label},{stars}"));
            }
            ReviewForm::Jsonl => {
                let meta = json!({"stars": stars, "words": words});
                let row = json!({"text": text, "label": label, "meta": meta});
                lines.push_str(&row.to_string());
            }
        }
        lines.push('\n');
    }
    lines.into_bytes()
}

/// The labels of lines, as int64.
fn write_labels(spec: &DataSpec, path: &Path, range: Range<u64>) -> Result<u64, ExperimentError> {
    let mut bytes = super::npy_header("<i8", &[(range.end - range.start) as usize]);
    for index in range {
        let label = i64::from(ReviewPlace::of(index, spec.count).is_positive);
        bytes.extend_from_slice(&label.to_le_bytes());
    }
    std::fs::write(path, &bytes).map_err(|error| cannot("write", path, error))?;
    Ok(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::DataKind;
    use super::*;

    fn spec(form: ReviewForm, count: u64) -> DataSpec {
        DataSpec { kind: DataKind::Reviews(form), count, seed: 7, classes: 2 }
    }

    fn bytes_below(folder: &Path) -> u64 {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let sizes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
            true => bytes_below(&entry.path()),
            false => entry.metadata().unwrap().len(),
        });
        sizes.sum()
    }

    fn made(form: ReviewForm, count: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (mut last, spec) = (0, spec(form, count));
        let bytes = spec.make(folder.path(), |done| {
            last = last.max(done);
            true
        });
        let note = std::fs::metadata(folder.path().join("dataset.json")).unwrap().len();
        assert_eq!(bytes.unwrap() + note, bytes_below(folder.path()));
        assert_eq!(last, count);
        folder
    }

    fn text(folder: &tempfile::TempDir, name: &str) -> String {
        std::fs::read_to_string(folder.path().join(name)).unwrap()
    }

    #[test]
    fn folders_are_those_of_imdb_and_halves_are_equal() {
        let folder = made(ReviewForm::Folders, 12);
        for split in ["train", "test"] {
            for (label, stars) in [("pos", 7..=10), ("neg", 1..=4)] {
                let within = std::fs::read_dir(folder.path().join(split).join(label)).unwrap();
                let names: Vec<String> =
                    within.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
                assert_eq!(names.len(), 3, "{split}/{label}: {names:?}");
                for name in names {
                    let number: u32 =
                        name.trim_end_matches(".txt").split('_').nth(1).unwrap().parse().unwrap();
                    assert!(stars.contains(&number), "{name}");
                }
            }
        }
    }

    #[test]
    fn all_forms_say_the_same_in_the_same_order() {
        let count = 2 * LOT + 3;
        let lines = made(ReviewForm::Lines, count);
        let csv = made(ReviewForm::Csv, count);
        let jsonl = made(ReviewForm::Jsonl, count);
        for (split, size) in [("train", LOT + 2), ("test", LOT + 1)] {
            let plain: Vec<String> =
                text(&lines, &format!("{split}.txt")).lines().map(str::to_owned).collect();
            assert_eq!(plain.len() as u64, size);
            let labels = std::fs::read(lines.path().join(format!("{split}-labels.npy"))).unwrap();
            assert_eq!(labels.len() as u64, 128 + 8 * size);
            let rows: Vec<serde_json::Value> = text(&jsonl, &format!("{split}.jsonl"))
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let table = text(&csv, &format!("{split}.csv"));
            let mut table = table.lines();
            assert_eq!(table.next(), Some("text,label,stars"));
            for (place, (review, row)) in plain.iter().zip(&rows).enumerate() {
                assert_eq!(row["text"], *review);
                assert_eq!(row["label"], u8::from(labels[128 + 8 * place] == 1));
                let stars = row["meta"]["stars"].as_u64().unwrap();
                assert_eq!(stars > 5, row["label"] == 1);
                let line = format!("\"{}\",{},{stars}", review.replace('"', "\"\""), row["label"]);
                assert_eq!(table.next(), Some(line.as_str()));
            }
        }
    }

    #[test]
    fn a_file_is_the_review_that_a_line_is() {
        let (folders, lines) = (made(ReviewForm::Folders, 8), made(ReviewForm::Lines, 8));
        let first = text(&lines, "train.txt").lines().next().unwrap().to_owned();
        let within = std::fs::read_dir(folders.path().join("train/pos")).unwrap();
        let found = within.map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap());
        assert!(found.collect::<Vec<_>>().contains(&first));
    }

    #[test]
    fn too_few_are_refused_and_a_stop_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let error = spec(ReviewForm::Csv, 3).make(folder.path(), |_| true).unwrap_err();
        assert!(error.to_string().contains("at least 4, got 3"), "{error}");
        let stopped = spec(ReviewForm::Jsonl, 5000).make(folder.path(), |done| done < LOT);
        assert!(matches!(stopped, Err(ExperimentError::Interrupted)));
        assert!(!folder.path().join("dataset.json").exists());
    }
}
