//! `grid`: batch size, workers, inference time and data set together.
//!
//! The consumer sleeps for each batch as long as inference would take. Points whose batches do not fit
//! into memory are listed with what they would need.
//!
//! Every run follows one of the same setting that is not timed and does not sleep. Files and memory are then at hand: what a
//! machine takes for memory that nobody used before differs by an order of magnitude from run to run, where a hypervisor has to
//! find it. The first of them also says how many batches a fast point needs to last for a while.

mod view;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::data::{self, Cache, DataSet};
use super::loading::{LoadRequest, Loaders};
use super::settings::{self, ExperimentSettings, SettingsTable, amount, in_range, whole, wholes};
use super::{Design, Experiment, ExperimentError, PlannedPoint, Session, memory};
use crate::generate::DataKind;
use crate::kernel;
use crate::results::{Axis, Check, Measurement, Point};
use crate::units;

pub(super) use view::view;

/// Samples whose stretches are kept for the timeline.
const TRACED: u32 = 192;

/// Bytes of a sample: float32 (3, 224, 224).
pub(super) const SAMPLE_BYTES: u64 = 3 * 224 * 224 * 4;

/// How far decoded and resized pictures may be apart on average, in normalised units: two decoders and
/// resizers that both round are about 0.01 apart, a wrong crop or channel order is near 1.
pub(super) const PICTURES_APART: f64 = 0.03;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GridSettings {
    contestants: Vec<String>,
    #[serde(deserialize_with = "wholes")]
    batch_sizes: Vec<u32>,
    #[serde(deserialize_with = "wholes")]
    workers: Vec<u32>,
    /// Seconds of inference for each batch.
    sleep_s: Vec<f64>,
    /// `images`, `preprocessed`.
    data: Vec<String>,
    /// Batches at each point, but at least one for each worker.
    #[serde(deserialize_with = "whole")]
    batches: u32,
    /// Seconds that a run lasts at least: a point that is faster gets more batches.
    least_s: f64,
    /// Batches ahead for each worker.
    #[serde(deserialize_with = "whole")]
    prefetch: u32,
    /// Samples to make, where they are made.
    #[serde(deserialize_with = "whole")]
    samples: u32,
    /// `warm` or `cold`.
    cache: Cache,
    seed: u64,
    #[serde(deserialize_with = "whole")]
    rounds: u32,
}

impl ExperimentSettings for GridSettings {
    fn full() -> Self {
        Self {
            contestants: vec!["torch".into(), "feedline".into()],
            batch_sizes: vec![32, 128, 256, 512, 1024],
            workers: vec![1, 2, 4, 8, 32, 48, 64],
            sleep_s: vec![0.0, 2.0],
            data: vec!["images".into(), "preprocessed".into()],
            batches: 12,
            least_s: 0.5,
            prefetch: 2,
            samples: 2048,
            cache: Cache::Warm,
            seed: 0,
            rounds: 1,
        }
    }

    fn quick() -> Self {
        Self {
            batch_sizes: vec![16, 64],
            workers: vec![1, 2, 4],
            sleep_s: vec![0.0, 0.1],
            batches: 6,
            least_s: 0.0,
            samples: 256,
            ..Self::full()
        }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        in_range("batch_sizes", &self.batch_sizes, 1..=65_536)?;
        in_range("workers", &self.workers, 0..=256)?;
        amount("sleep_s", &self.sleep_s, 3600.0)?;
        in_range("batches", &[self.batches], 1..=MOST_BATCHES)?;
        amount("least_s", &[self.least_s], 3600.0)?;
        in_range("prefetch", &[self.prefetch], 1..=64)?;
        in_range("samples", &[self.samples], 1..=10_000_000)?;
        in_range("rounds", &[self.rounds], 1..=1000)?;
        if self.data.is_empty() || self.sleep_s.is_empty() {
            let problem = "settings `data` and `sleep_s` need at least one value each".into();
            return Err(ExperimentError::Setting { problem });
        }
        self.data.iter().try_for_each(|name| kind_of(name).map(drop))
    }
}

/// The kind of data that a name stands for.
pub(super) fn kind_of(name: &str) -> Result<DataKind, ExperimentError> {
    match name {
        "images" => Ok(DataKind::Images),
        "preprocessed" => Ok(DataKind::Preprocessed),
        other => Err(ExperimentError::Setting {
            problem: format!("there is no data set `{other}`; there are: images, preprocessed"),
        }),
    }
}

/// More batches than a run has.
const MOST_BATCHES: u32 = 100_000;

struct Study {
    settings: GridSettings,
    /// How many batches each point has, once it is known.
    lengths: Vec<(Point, u32)>,
    are_demanded: bool,
    loaders: Loaders,
    sets: Vec<(String, DataSet)>,
    notes: Vec<String>,
}

pub(super) fn build(
    given: &SettingsTable,
    quick: bool,
) -> Result<Box<dyn Experiment>, ExperimentError> {
    let settings: GridSettings = settings::read(given, quick)?;
    let are_demanded = given.contains_key("contestants");
    let loaders = Loaders::default();
    Ok(Box::new(Study {
        settings,
        lengths: Vec::new(),
        are_demanded,
        loaders,
        sets: Vec::new(),
        notes: Vec::new(),
    }))
}

impl Study {
    fn job(&self, point: &Point) -> Option<LoadRequest> {
        let count = |axis| point.number(axis).unwrap_or_default() as u32;
        let name = point.text("data");
        let (_, set) = self.sets.iter().find(|(it, _)| *it == name)?;
        let workers = count("workers");
        Some(LoadRequest {
            contestant: point.text("contestants"),
            workload: json!({"kind": name, "folder": set.folder}),
            workers,
            prefetch: self.settings.prefetch,
            batch_size: count("batch"),
            batches: self.batches(workers),
            step_s: point.number("sleep").unwrap_or_default(),
            trace: TRACED,
            pin_memory: false,
            model: None,
        })
    }

    fn batches(&self, workers: u32) -> u32 {
        self.settings.batches.max(workers + 2)
    }

    /// Runs a job without measuring it, and gives it as many batches as it needs to last for a while.
    fn warmed(
        &mut self,
        point: &Point,
        job: LoadRequest,
        session: &Session<'_>,
    ) -> Result<LoadRequest, ExperimentError> {
        let warm = LoadRequest { step_s: 0.0, trace: 0, ..job.clone() };
        let seconds = self.loaders.warm_up(&warm, session)?;
        let known = self.lengths.iter().find(|(it, _)| it == point).map(|(_, batches)| *batches);
        let batches = known.unwrap_or_else(|| {
            let each = seconds / f64::from(job.batches) + job.step_s;
            let wanted = if each > 0.0 { (self.settings.least_s / each).ceil() } else { 0.0 };
            let batches = (wanted as u32).clamp(job.batches, MOST_BATCHES.max(job.batches));
            self.lengths.push((point.clone(), batches));
            batches
        });
        Ok(LoadRequest { batches, ..job })
    }
}

impl Experiment for Study {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError> {
        self.loaders = Loaders::start(&self.settings.contestants, self.are_demanded, session)?;
        for name in &self.settings.data {
            let found =
                data::find(kind_of(name)?, self.settings.samples, self.settings.seed, session)?;
            match found {
                Some(set) => {
                    self.settings.cache.prepare(&set.folder);
                    self.sets.push((name.clone(), set));
                }
                None => self.notes.push(format!("--data holds no {name}: left out")),
            }
        }
        if self.sets.is_empty() { Err(data::nothing_in(session)) } else { Ok(()) }
    }

    fn plan(&self) -> Design {
        let available = kernel::available_bytes();
        let mut points = Vec::new();
        for (data, _) in &self.sets {
            for sleep in &self.settings.sleep_s {
                for batch in &self.settings.batch_sizes {
                    for workers in &self.settings.workers {
                        for contestant in &self.loaders.names {
                            let point = Point::new()
                                .with("contestants", contestant.as_str())
                                .with("data", data.as_str())
                                .with("sleep", *sleep)
                                .with("batch", *batch)
                                .with("workers", *workers);
                            let needed = memory::needed(&memory::Need {
                                contestant,
                                workers: (*workers).into(),
                                prefetch: self.settings.prefetch.into(),
                                batches: self.batches(*workers).into(),
                                batch_bytes: u64::from(*batch) * SAMPLE_BYTES,
                                making_bytes: 0,
                            });
                            let obstacle = available.filter(|it| needed > it / 10 * 9).map(|it| {
                                let there = units::bytes(it as f64);
                                (format!("more memory than there is ({there} available)"), needed)
                            });
                            points.push(PlannedPoint { point, obstacle });
                        }
                    }
                }
            }
        }
        let mut notes = self.loaders.notes.clone();
        notes.extend(self.notes.iter().cloned());
        notes.extend(self.sets.iter().filter(|(_, set)| set.is_made).map(|(name, _)| {
            format!(
                "{name}: {} samples made from seed {}",
                self.settings.samples, self.settings.seed
            )
        }));
        Design {
            title: "Batch size, workers, inference time and data set".into(),
            question: "Which settings feed a model, and how long does it wait for its first, second, third \
                       batch?"
                .into(),
            axes: vec![
                Axis::new("data", "data"),
                Axis::new("sleep", "sleep (s)"),
                Axis::new("contestants", "loader"),
                Axis::new("batch", "batch"),
                Axis::new("workers", "workers"),
            ],
            sides: "contestants",
            unit: "samples".into(),
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
        let mut checks = Vec::new();
        for (name, _) in self.sets.clone() {
            let job = |contestant: &String| {
                let point = Point::new()
                    .with("contestants", contestant.as_str())
                    .with("data", name.as_str())
                    .with("batch", 8u32)
                    .with("workers", 2u32);
                self.job(&point).map(|job| LoadRequest { batches: 2, ..job })
            };
            let jobs: Vec<LoadRequest> = self.loaders.names.iter().filter_map(job).collect();
            let tolerance = (name == "images").then_some(PICTURES_APART);
            let loaders = &mut self.loaders;
            checks.extend(loaders.compare_outputs(&name, tolerance, &jobs, session, is_known)?);
        }
        Ok(checks)
    }

    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        session: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        let job = self.job(point).ok_or_else(|| data::nothing_in(session))?;
        let mut job = self.warmed(point, job, session)?;
        job.trace = if round == 1 { TRACED } else { 0 };
        let name = point.text("data");
        if let Some((_, set)) = self.sets.iter().find(|(it, _)| *it == name) {
            self.settings.cache.before_run(&set.folder);
        }
        self.loaders.measure(point, round, &job, session)
    }
}
