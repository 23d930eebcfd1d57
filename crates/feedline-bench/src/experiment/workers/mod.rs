//! `workers`: what more workers bring when each item takes a fixed time.
//!
//! Items are arrays whose making waits 10 ms, as for a disk or a network. Without workers the consumer
//! waits itself. Published for torch's DataLoader: one worker is no better than none (dip), gains up to
//! about eight, less and less each (knee, plateau).

mod view;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::loading::{LoadRequest, Loaders};
use super::settings::{self, ExperimentSettings, SettingsTable, amount, in_range, whole, wholes};
use super::{Design, Experiment, ExperimentError, Session};
use crate::results::{Axis, Check, Measurement, Point};

pub(super) use view::view;

/// Samples whose stretches are kept for the timeline.
const TRACED: u32 = 320;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workers {
    /// Who takes part.
    contestants: Vec<String>,
    #[serde(deserialize_with = "wholes")]
    workers: Vec<u32>,
    /// Batches ahead for each worker.
    #[serde(deserialize_with = "wholes")]
    prefetch: Vec<u32>,
    /// Milliseconds that making an item waits.
    delay_ms: f64,
    #[serde(deserialize_with = "whole")]
    batch_size: u32,
    #[serde(deserialize_with = "whole")]
    batches: u32,
    /// Shape of an item, float32.
    #[serde(deserialize_with = "wholes")]
    shape: Vec<u32>,
    #[serde(deserialize_with = "whole")]
    rounds: u32,
}

impl ExperimentSettings for Workers {
    fn full() -> Self {
        Self {
            contestants: vec!["torch".into(), "feedline".into()],
            workers: (0..=8).collect(),
            prefetch: vec![2],
            delay_ms: 10.0,
            batch_size: 64,
            batches: 50,
            shape: vec![3, 224, 224],
            rounds: 3,
        }
    }

    fn quick() -> Self {
        Self { batch_size: 16, batches: 10, rounds: 3, ..Self::full() }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        in_range("workers", &self.workers, 0..=256)?;
        in_range("prefetch", &self.prefetch, 1..=64)?;
        amount("delay_ms", &[self.delay_ms], 10_000.0)?;
        in_range("batch_size", &[self.batch_size], 1..=65_536)?;
        in_range("batches", &[self.batches], 1..=1_000_000)?;
        in_range("shape", &self.shape, 1..=4096)?;
        in_range("rounds", &[self.rounds], 1..=1000)
    }
}

struct Study {
    settings: Workers,
    are_demanded: bool,
    loaders: Loaders,
}

pub(super) fn build(
    given: &SettingsTable,
    quick: bool,
) -> Result<Box<dyn Experiment>, ExperimentError> {
    let settings: Workers = settings::read(given, quick)?;
    let are_demanded = given.contains_key("contestants");
    Ok(Box::new(Study { settings, are_demanded, loaders: Loaders::default() }))
}

impl Study {
    fn job(&self, contestant: &str, workers: u32, prefetch: u32) -> LoadRequest {
        let Workers { delay_ms, batch_size, batches, shape, .. } = &self.settings;
        LoadRequest {
            contestant: contestant.into(),
            workload: json!({"kind": "delay", "delay_s": delay_ms / 1e3, "shape": shape}),
            workers,
            prefetch,
            batch_size: *batch_size,
            batches: *batches,
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
        Ok(())
    }

    fn plan(&self) -> Design {
        let Workers { delay_ms, batch_size, batches, rounds, .. } = &self.settings;
        let mut points = Vec::new();
        for prefetch in &self.settings.prefetch {
            for workers in &self.settings.workers {
                for contestant in &self.loaders.names {
                    let point = Point::new().with("contestants", contestant.as_str());
                    points.push(point.with("workers", *workers).with("prefetch", *prefetch).into());
                }
            }
        }
        Design {
            title: "What more workers bring".into(),
            question: format!(
                "Each item takes {delay_ms} ms to make, as from a slow disk. How fast do {batches} \
                 batches of {batch_size} arrive with more and more workers?"
            ),
            axes: vec![
                Axis::new("contestants", "loader"),
                Axis::new("prefetch", "prefetch"),
                Axis::new("workers", "workers"),
            ],
            sides: "contestants",
            unit: "items".into(),
            rounds: *rounds,
            page_cache: "no files are read".into(),
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
        let batches = self.settings.batches.min(3);
        let job = |name: &String| LoadRequest { batches, ..self.job(name, 2, 2) };
        let jobs: Vec<LoadRequest> = self.loaders.names.iter().map(job).collect();
        self.loaders.compare_outputs("items", None, &jobs, session, is_known)
    }

    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        session: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        let count = |axis| point.number(axis).unwrap_or_default() as u32;
        let mut job = self.job(&point.text("contestants"), count("workers"), count("prefetch"));
        // One picture is enough, and it should show an undisturbed run no more than another.
        job.trace = if round == 1 { TRACED } else { 0 };
        self.loaders.measure(point, round, &job, session)
    }
}
