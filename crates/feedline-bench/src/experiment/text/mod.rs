//! `text`: batch size, workers and page-locked memory on review sentiment, loading alone and while a model trains.
//!
//! Published for torch's DataLoader on IMDB: a batch of 128, one worker and `pin_memory` are best. Reviews are files in a folder per
//! label; a sample is its words, looked up in a vocabulary, cut or padded to one length. *Loading* takes all batches of an epoch and
//! does nothing with them; *training* is a real run of a small model on the processor, with the same batches for all.

mod view;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::data::{self, Cache, DataSet};
use super::loading::{LoadRequest, Loaders};
use super::settings::{self, ExperimentSettings, SettingsTable, in_range, whole, wholes};
use super::{Design, Experiment, ExperimentError, Session};
use crate::generate::{DataKind, ReviewForm};
use crate::results::{Axis, Check, Measurement, Point};

pub(super) use view::view;

/// Samples whose stretches are kept for the timeline.
const TRACED: u32 = 192;

/// Who can take part: others have no way for text here.
const KNOWN: [&str; 3] = ["torch", "datasets", "feedline"];

/// What is timed.
const TASKS: [&str; 2] = ["loading", "training"];

/// Models that can be trained.
const MODELS: [&str; 2] = ["bag", "gru"];

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextSettings {
    contestants: Vec<String>,
    #[serde(deserialize_with = "wholes")]
    batch_sizes: Vec<u32>,
    #[serde(deserialize_with = "wholes")]
    workers: Vec<u32>,
    /// Whether batches are in page-locked memory: `off`, `on`.
    pin_memory: Vec<String>,
    /// `loading`, `training`.
    tasks: Vec<String>,
    /// `bag`: the mean of the words' embeddings and a linear layer; `gru`: a recurrent layer between them.
    model: String,
    /// Epochs of a training run.
    #[serde(deserialize_with = "whole")]
    epochs: u32,
    /// Batches ahead for each worker.
    #[serde(deserialize_with = "whole")]
    prefetch: u32,
    /// Reviews of an epoch, at most.
    #[serde(deserialize_with = "whole")]
    reviews: u32,
    /// Words of a review that are kept; shorter ones are padded.
    #[serde(deserialize_with = "whole")]
    length: u32,
    /// Words that are told apart.
    #[serde(deserialize_with = "whole")]
    vocabulary: u32,
    /// `warm` or `cold`.
    cache: Cache,
    seed: u64,
    #[serde(deserialize_with = "whole")]
    rounds: u32,
}

impl ExperimentSettings for TextSettings {
    fn full() -> Self {
        Self {
            contestants: KNOWN.map(str::to_owned).to_vec(),
            batch_sizes: vec![16, 32, 64, 128, 256, 512],
            workers: vec![0, 1, 2, 4],
            pin_memory: vec!["off".into(), "on".into()],
            tasks: TASKS.map(str::to_owned).to_vec(),
            model: "bag".into(),
            epochs: 1,
            prefetch: 2,
            reviews: 25_000,
            length: 256,
            vocabulary: 20_000,
            cache: Cache::Warm,
            seed: 0,
            rounds: 3,
        }
    }

    fn quick() -> Self {
        Self {
            batch_sizes: vec![32, 128],
            workers: vec![0, 1, 2],
            reviews: 1024,
            vocabulary: 5000,
            rounds: 1,
            ..Self::full()
        }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        among("contestants", &self.contestants, &KNOWN)?;
        among("pin_memory", &self.pin_memory, &["off", "on"])?;
        among("tasks", &self.tasks, &TASKS)?;
        among("model", std::slice::from_ref(&self.model), &MODELS)?;
        in_range("batch_sizes", &self.batch_sizes, 1..=65_536)?;
        in_range("workers", &self.workers, 0..=256)?;
        in_range("epochs", &[self.epochs], 1..=1000)?;
        in_range("prefetch", &[self.prefetch], 1..=64)?;
        in_range("reviews", &[self.reviews], 2..=10_000_000)?;
        in_range("length", &[self.length], 1..=1_000_000)?;
        in_range("vocabulary", &[self.vocabulary], 3..=10_000_000)?;
        in_range("rounds", &[self.rounds], 1..=1000)
    }
}

/// Refuses what is not known.
fn among(name: &str, values: &[String], known: &[&str]) -> Result<(), ExperimentError> {
    let refuse = |problem| Err(ExperimentError::Setting { problem });
    if values.is_empty() {
        return refuse(format!("setting `{name}` is empty; give at least one value"));
    }
    match values.iter().find(|it| !known.contains(&it.as_str())) {
        Some(other) => {
            refuse(format!("setting `{name}` must be of {}, got `{other}`", known.join(", ")))
        }
        None => Ok(()),
    }
}

struct Study {
    settings: TextSettings,
    are_demanded: bool,
    loaders: Loaders,
    set: Option<DataSet>,
    /// Reviews of an epoch.
    reviews: u32,
    /// Where what is made of the reviews is kept.
    kept: std::path::PathBuf,
    notes: Vec<String>,
}

pub(super) fn build(
    given: &SettingsTable,
    quick: bool,
) -> Result<Box<dyn Experiment>, ExperimentError> {
    let settings: TextSettings = settings::read(given, quick)?;
    let are_demanded = given.contains_key("contestants");
    Ok(Box::new(Study {
        reviews: settings.reviews,
        settings,
        are_demanded,
        loaders: Loaders::default(),
        set: None,
        kept: std::path::PathBuf::new(),
        notes: Vec::new(),
    }))
}

impl Study {
    fn workload(&self) -> Value {
        let TextSettings { length, vocabulary, seed, .. } = &self.settings;
        let folder = self.set.as_ref().map(|set| set.folder.join("train"));
        json!({
            "kind": "reviews",
            "folder": folder,
            "reviews": self.reviews,
            "length": length,
            "vocabulary": vocabulary,
            "seed": seed,
            "kept": self.kept,
        })
    }

    fn job(&self, point: &Point) -> LoadRequest {
        let count = |axis| point.number(axis).unwrap_or_default() as u32;
        let batch_size = count("batch");
        let is_training = point.text("task") == "training";
        let epochs = if is_training { self.settings.epochs } else { 1 };
        LoadRequest {
            contestant: point.text("contestants"),
            workload: self.workload(),
            workers: count("workers"),
            prefetch: self.settings.prefetch,
            batch_size,
            batches: (self.reviews.saturating_mul(epochs) / batch_size.max(1)).max(1),
            step_s: 0.0,
            trace: TRACED,
            pin_memory: point.text("pin_memory") == "on",
            model: is_training.then(|| self.settings.model.clone()),
        }
    }
}

impl Experiment for Study {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError> {
        self.loaders = Loaders::start(&self.settings.contestants, self.are_demanded, session)?;
        let TextSettings { reviews, seed, .. } = self.settings;
        // As many for testing are made with those for training.
        let kind = DataKind::Reviews(ReviewForm::Folders);
        let set = data::find(kind, reviews.saturating_mul(2), seed, session)?;
        let Some(set) = set else {
            let folder = session.data.clone().unwrap_or_default();
            return Err(ExperimentError::NoData { folder, what: "reviews (train/pos, train/neg)" });
        };
        let train = set.folder.join("train");
        self.settings.cache.prepare(&train);
        let texts = data::files(&train)
            .into_iter()
            .filter(|it| it.extension().is_some_and(|it| it == "txt"));
        let there = u32::try_from(texts.count()).unwrap_or(u32::MAX);
        if there == 0 {
            return Err(ExperimentError::NoData { folder: train, what: "reviews (.txt files)" });
        }
        self.reviews = reviews.min(there);
        self.kept = session.cache.join("text");
        if set.is_made {
            self.notes.push(format!("{there} reviews for training made from seed {seed}"));
        }
        self.set = Some(set);
        if self.settings.pin_memory.iter().any(|it| it == "on")
            && let Some(why) = self.loaders.pinning()?
        {
            self.notes.push(format!("{}{why}", view::NO_PINNING));
        }
        Ok(())
    }

    fn plan(&self) -> Design {
        let mut points = Vec::new();
        for task in &self.settings.tasks {
            for batch in &self.settings.batch_sizes {
                for workers in &self.settings.workers {
                    for pin in &self.settings.pin_memory {
                        for contestant in &self.loaders.names {
                            let point = Point::new()
                                .with("contestants", contestant.as_str())
                                .with("task", task.as_str())
                                .with("batch", *batch)
                                .with("workers", *workers)
                                .with("pin_memory", pin.as_str());
                            points.push(point.into());
                        }
                    }
                }
            }
        }
        let mut notes = self.loaders.notes.clone();
        notes.extend(self.notes.iter().cloned());
        let TextSettings { length, vocabulary, .. } = self.settings;
        Design {
            title: "Batch size, workers and page-locked memory on review sentiment".into(),
            question: format!(
                "How long do {} reviews take to load, as {length} words each out of a vocabulary of {vocabulary}, and \
                 how long does a small model take to train on them?",
                self.reviews
            ),
            axes: vec![
                Axis::new("task", "task"),
                Axis::new("contestants", "loader"),
                Axis::new("pin_memory", "pin_memory"),
                Axis::new("batch", "batch"),
                Axis::new("workers", "workers"),
            ],
            sides: "contestants",
            unit: "reviews".into(),
            rounds: self.settings.rounds,
            page_cache: self.settings.cache.words().into(),
            settings: json!(self.settings),
            points,
            versions: self.loaders.versions.clone(),
            notes,
        }
    }

    fn check(
        &mut self,
        session: &mut Session<'_>,
        is_known: &dyn Fn(&str, &str) -> bool,
    ) -> Result<Vec<Check>, ExperimentError> {
        let job = |contestant: &String| {
            let point = Point::new()
                .with("contestants", contestant.as_str())
                .with("batch", self.reviews.min(64))
                .with("workers", 2u32);
            let job = self.job(&point);
            LoadRequest { batches: job.batches.min(4), ..job }
        };
        let jobs: Vec<LoadRequest> = self.loaders.names.iter().map(job).collect();
        self.loaders.compare_outputs("reviews", None, &jobs, session, is_known)
    }

    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        session: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        let mut job = self.job(point);
        job.trace = if round == 1 { TRACED } else { 0 };
        if let Some(set) = &self.set {
            self.settings.cache.before_run(&set.folder.join("train"));
        }
        self.loaders.measure(point, round, &job, session)
    }
}
