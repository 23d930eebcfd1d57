//! The lines of a result file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Point;
use crate::{Digest, Machine, Moment, Usage};

/// Version of the line format; readers refuse another.
pub const SCHEMA: u32 = 1;

/// One line of a result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// Opens the file.
    Experiment(Box<ExperimentHeader>),
    /// One run at one point.
    Measurement(Box<Measurement>),
    /// A point that was not run, and why.
    NotRun(NotRun),
    /// A comparison of outputs.
    Check(Check),
}

/// What holds for all runs of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentHeader {
    /// [`SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// Heading of the report.
    pub title: String,
    /// What it asks, in a sentence or two.
    pub question: String,
    /// What it varies, in the order of the table's columns.
    pub axes: Vec<Axis>,
    /// What an item is, in the plural.
    pub unit: String,
    /// Rounds; each runs every point once.
    pub rounds: u32,
    /// Whether sizes were reduced to finish soon.
    pub quick: bool,
    /// Whether files come from the page cache, in words.
    pub page_cache: String,
    /// All settings. A run is only resumed with equal ones.
    pub settings: serde_json::Value,
    /// Where it is held.
    pub machine: Machine,
    /// Versions of what is compared, by name.
    pub versions: BTreeMap<String, String>,
    /// What a reader should know, such as who could not take part.
    pub notes: Vec<String>,
    /// How many points there are, those that are not run included.
    pub points: usize,
    /// Runs before the first round that do not count.
    #[serde(default)]
    pub warm_ups: usize,
    /// When it began, in seconds since 1970 (UTC).
    pub started_unix_s: u64,
}

/// One thing that is varied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name in points.
    pub name: String,
    /// Its name for people.
    pub label: String,
}

impl Axis {
    /// An axis.
    pub fn new(name: &str, label: &str) -> Self {
        Self { name: name.into(), label: label.into() }
    }
}

/// One run at one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Where.
    pub point: Point,
    /// Round, from 1; 0 is a warm-up and does not count.
    pub round: u32,
    /// How long it took.
    pub seconds: f64,
    /// Items handled.
    pub items: u64,
    /// Bytes delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Further figures, with the unit at the end of the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// How long the consumer waited for the first, second, third … batch, in seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_s: Vec<f64>,
    /// What the process tree used.
    pub usage: Usage,
    /// The process tree over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
    /// Who worked on which sample when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Stretch>,
}

/// A worker's time on one sample: worker, sample, begin and end in seconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch(pub u32, pub u64, pub f64, pub f64);

/// A point that was not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotRun {
    /// Where.
    pub point: Point,
    /// Why.
    pub why: String,
    /// Memory that it would have needed, if that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<u64>,
}

/// A comparison of one contestant's output with the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Who.
    pub contestant: String,
    /// Compared with whom.
    pub reference: String,
    /// On which data.
    pub data: String,
    /// Whether they agree.
    pub agrees: bool,
    /// In words: equal, or how far apart.
    pub what: String,
    /// Fingerprint of the output, where it must be equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Check {
    /// What is wrong, in a line; `None` if they agree.
    pub fn problem(&self) -> Option<String> {
        let Self { contestant, reference, data, what, .. } = self;
        if self.agrees {
            return None;
        }
        let what = what.lines().next().unwrap_or_default();
        Some(match self.digest {
            Some(_) => {
                format!("outputs differ: {contestant} against {reference} on {data}: {what}")
            }
            None => format!("the output of {contestant} on {data} cannot be checked: {what}"),
        })
    }
}
