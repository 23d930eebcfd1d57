//! What a contest shows: the summary that every output is drawn from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::agreement::disagreements;
use crate::record::{ContestFailure, RunRecord, Transcript};
use crate::requirement::paired;
use crate::warning::warnings;
use crate::{
    Agreement, Disagreement, Estimate, Machine, Quantity, Subject, Summary, Verdict, Warning,
};

/// The summary of a contest, drawn from its records alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// What was compared.
    pub title: String,
    /// What an item is.
    pub unit: String,
    /// Rounds that were asked for and count.
    pub rounds: u32,
    /// Rounds that only warmed up.
    pub warmup: u32,
    /// The side that ratios refer to.
    pub baseline: String,
    /// The sides, in the order in which they were given.
    pub sides: Vec<SideReport>,
    /// How outputs were compared.
    pub agreement: Agreement,
    /// Sides whose output differs; ratios mean nothing unless this is empty.
    pub disagreements: Vec<Disagreement>,
    /// Requirements and what was reached.
    pub verdicts: Vec<Verdict>,
    /// How the contest was broken off, if it was.
    pub failure: Option<ContestFailure>,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<Warning>,
    /// Where it was held.
    pub machine: Machine,
    /// Versions of what was compared.
    pub versions: BTreeMap<String, String>,
    /// When it began, in seconds since 1970 (UTC).
    pub started_unix_s: u64,
}

/// One side, summarised over the rounds that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideReport {
    /// Its name.
    pub name: String,
    /// Runs that count.
    pub runs: usize,
    /// Items per second.
    pub rate: Option<Summary>,
    /// Seconds per run.
    pub seconds: Option<Summary>,
    /// Seconds per item.
    pub seconds_per_item: Option<Summary>,
    /// Bytes per second.
    pub bytes_per_s: Option<Summary>,
    /// CPU seconds of the process tree per run.
    pub cpu_s: Option<Summary>,
    /// Peak memory of the process tree.
    pub pss_peak_bytes: Option<Summary>,
    /// Load by others, in cores.
    pub others_cores: Option<Summary>,
    /// Load by other guests of the hypervisor, in cores.
    pub steal_cores: Option<Summary>,
    /// Figures that the side itself reported.
    pub figures: BTreeMap<String, Summary>,
    /// Rate relative to the baseline's, round by round; `None` for the baseline itself.
    pub ratio: Option<Estimate>,
    /// CPU seconds per item relative to the baseline's, round by round.
    pub cpu_ratio: Option<Estimate>,
}

impl Report {
    /// Summarises a contest.
    pub fn of(transcript: &Transcript) -> Self {
        let Transcript { header, runs, failure } = transcript;
        let settings = &header.settings;
        let counted: Vec<&RunRecord> = runs.iter().filter(|run| !run.warmup).collect();
        let baseline = header.baseline().to_owned();
        let sides: Vec<SideReport> =
            header.sides.iter().map(|side| SideReport::of(side, &baseline, &counted)).collect();
        let disagreements = disagreements(header, runs);
        let judge = |requirement: &crate::Requirement| {
            let mut verdict = requirement.judge(&counted);
            if !disagreements.is_empty() {
                verdict.met = false;
                verdict.problem = Some("the outputs differ".into());
            }
            verdict
        };
        Self {
            title: settings.title.clone(),
            unit: settings.unit.clone(),
            rounds: settings.rounds,
            warmup: settings.warmup,
            verdicts: settings.requirements.iter().map(judge).collect(),
            warnings: warnings(&sides, settings.rounds),
            baseline,
            sides,
            agreement: settings.agreement.clone(),
            disagreements,
            failure: failure.clone(),
            machine: header.machine.clone(),
            versions: header.versions.clone(),
            started_unix_s: header.started_unix_s,
        }
    }

    /// Whether every requirement was reached.
    pub fn requirements_met(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.met)
    }

    /// The side of the given name.
    pub fn side(&self, name: &str) -> Option<&SideReport> {
        self.sides.iter().find(|side| side.name == name)
    }
}

impl SideReport {
    fn of(name: &str, baseline: &str, counted: &[&RunRecord]) -> Self {
        let runs: Vec<&RunRecord> =
            counted.iter().copied().filter(|run| run.side == name).collect();
        let summary = |of: &dyn Fn(&RunRecord) -> Option<f64>| {
            Summary::of(&runs.iter().filter_map(|run| of(run)).collect::<Vec<_>>())
        };
        let quantity = |quantity: Quantity| summary(&|run| quantity.of(run));
        let ratio = |quantity: Quantity| {
            let subject = Subject::Ratio { side: name.into(), over: baseline.into() };
            (name != baseline)
                .then(|| Estimate::of(&paired(&quantity, &subject, counted)))
                .flatten()
        };
        let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.figures.keys()).collect();
        let figures = names.into_iter().filter_map(|figure| {
            Some((figure.clone(), summary(&|run| run.figures.get(figure).copied())?))
        });
        Self {
            name: name.into(),
            runs: runs.len(),
            rate: quantity(Quantity::Rate),
            seconds: quantity(Quantity::Seconds),
            seconds_per_item: quantity(Quantity::SecondsPerItem),
            bytes_per_s: summary(&|run| {
                run.bytes.filter(|_| run.seconds > 0.0).map(|bytes| bytes as f64 / run.seconds)
            }),
            cpu_s: quantity(Quantity::Cpu),
            pss_peak_bytes: quantity(Quantity::Pss),
            others_cores: summary(&|run| run.usage.others_cores),
            steal_cores: summary(&|run| run.usage.steal_cores),
            figures: figures.collect(),
            ratio: ratio(Quantity::Rate),
            cpu_ratio: ratio(Quantity::CpuPerItem),
        }
    }
}
