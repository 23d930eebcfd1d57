//! `compare`: feedline against its peers on one workload, outputs checked.

mod view;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::data::{self, Cache, DataSet};
use super::grid::{PICTURES_APART, kind_of};
use super::loading::{LoadRequest, Loaders};
use super::settings::{self, ExperimentSettings, SettingsTable, amount, in_range, whole, wholes};
use super::{Design, Experiment, ExperimentError, Session};
use crate::results::{Axis, Check, Measurement, Point};

pub(super) use view::view;

/// Samples whose stretches are kept for the timeline.
const TRACED: u32 = 320;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    contestants: Vec<String>,
    /// `images`, `preprocessed` or `delay`.
    workload: String,
    #[serde(deserialize_with = "wholes")]
    workers: Vec<u32>,
    #[serde(deserialize_with = "whole")]
    prefetch: u32,
    #[serde(deserialize_with = "whole")]
    batch_size: u32,
    #[serde(deserialize_with = "whole")]
    batches: u32,
    /// Milliseconds that an item waits, for `delay`.
    delay_ms: f64,
    /// Samples to make, where they are made.
    #[serde(deserialize_with = "whole")]
    samples: u32,
    /// `warm` or `cold`.
    cache: Cache,
    seed: u64,
    #[serde(deserialize_with = "whole")]
    rounds: u32,
}

impl ExperimentSettings for Compare {
    fn full() -> Self {
        let all = [
            "torch",
            "torchdata",
            "feedline",
            "feedline.torch",
            "spdl",
            "grain",
            "tf.data",
            "dali",
        ];
        Self {
            contestants: all.map(str::to_owned).to_vec(),
            workload: "images".into(),
            workers: vec![2],
            prefetch: 2,
            batch_size: 64,
            batches: 32,
            delay_ms: 10.0,
            samples: 2048,
            cache: Cache::Warm,
            seed: 0,
            rounds: 7,
        }
    }

    fn quick() -> Self {
        Self { batch_size: 32, batches: 10, samples: 256, ..Self::full() }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        if self.workload != "delay" {
            kind_of(&self.workload).map_err(|_| ExperimentError::Setting {
                problem: format!(
                    "there is no workload `{}`; there are: images, preprocessed, delay",
                    self.workload
                ),
            })?;
        }
        in_range("workers", &self.workers, 0..=256)?;
        in_range("prefetch", &[self.prefetch], 1..=64)?;
        in_range("batch_size", &[self.batch_size], 1..=65_536)?;
        in_range("batches", &[self.batches], 1..=1_000_000)?;
        amount("delay_ms", &[self.delay_ms], 10_000.0)?;
        in_range("samples", &[self.samples], 1..=10_000_000)?;
        in_range("rounds", &[self.rounds], 1..=1000)
    }
}

struct Study {
    settings: Compare,
    are_demanded: bool,
    loaders: Loaders,
    set: Option<DataSet>,
}

pub(super) fn build(
    given: &SettingsTable,
    quick: bool,
) -> Result<Box<dyn Experiment>, ExperimentError> {
    let settings: Compare = settings::read(given, quick)?;
    let are_demanded = given.contains_key("contestants");
    Ok(Box::new(Study { settings, are_demanded, loaders: Loaders::default(), set: None }))
}

impl Study {
    fn workload(&self) -> Value {
        match &self.set {
            Some(set) => json!({"kind": self.settings.workload, "folder": set.folder}),
            None => json!({
                "kind": "delay",
                "delay_s": self.settings.delay_ms / 1e3,
                "shape": [3, 224, 224],
            }),
        }
    }

    fn job(&self, contestant: &str, workers: u32) -> LoadRequest {
        let Compare { prefetch, batch_size, batches, .. } = self.settings;
        let (contestant, workload) = (contestant.into(), self.workload());
        LoadRequest {
            contestant,
            workload,
            workers,
            prefetch,
            batch_size,
            batches,
            step_s: 0.0,
            trace: TRACED,
            pin_memory: false,
            model: None,
        }
    }
}

impl Experiment for Study {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError> {
        self.loaders = Loaders::start(&self.settings.contestants, self.are_demanded, session)?;
        if self.settings.workload != "delay" {
            let kind = kind_of(&self.settings.workload)?;
            let set = data::find(kind, self.settings.samples, self.settings.seed, session)?;
            let set = set.ok_or_else(|| data::nothing_in(session))?;
            self.settings.cache.prepare(&set.folder);
            self.set = Some(set);
        }
        Ok(())
    }

    fn plan(&self) -> Design {
        let Compare { workload, batch_size, batches, rounds, .. } = &self.settings;
        let mut points = Vec::new();
        for workers in &self.settings.workers {
            for contestant in &self.loaders.names {
                let point = Point::new().with("contestants", contestant.as_str());
                points.push(point.with("workers", *workers).into());
            }
        }
        let what = match workload.as_str() {
            "images" => "JPEG files, resized to 256, cut to 224 and normalised",
            "preprocessed" => "one .npy file of float32 (3, 224, 224) for each sample",
            _ => "float32 (3, 224, 224) whose making waits",
        };
        let page_cache = match self.set {
            Some(_) => self.settings.cache.words(),
            None => "no files are read",
        };
        Design {
            title: "feedline and its peers".into(),
            question: format!(
                "Who loads {batches} batches of {batch_size} fastest? Samples are {what}."
            ),
            axes: vec![Axis::new("contestants", "loader"), Axis::new("workers", "workers")],
            sides: "contestants",
            unit: "samples".into(),
            rounds: *rounds,
            page_cache: page_cache.into(),
            settings: json!(self.settings),
            points,
            versions: self.loaders.versions.clone(),
            notes: self.loaders.notes.clone(),
        }
    }

    fn check(
        &mut self,
        session: &mut Session<'_>,
        is_known: &dyn Fn(&str, &str) -> bool,
    ) -> Result<Vec<Check>, ExperimentError> {
        let job = |name: &String| LoadRequest { batches: 2, ..self.job(name, 2) };
        let jobs: Vec<LoadRequest> = self.loaders.names.iter().map(job).collect();
        let tolerance = (self.settings.workload == "images").then_some(PICTURES_APART);
        let data = self.settings.workload.clone();
        self.loaders.compare_outputs(&data, tolerance, &jobs, session, is_known)
    }

    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        session: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        let workers = point.number("workers").unwrap_or_default() as u32;
        let mut job = self.job(&point.text("contestants"), workers);
        job.trace = if round == 1 { TRACED } else { 0 };
        if let Some(set) = &self.set {
            self.settings.cache.before_run(&set.folder);
        }
        self.loaders.measure(point, round, &job, session)
    }
}
