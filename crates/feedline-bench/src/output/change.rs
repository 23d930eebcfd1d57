//! What changed between two runs of an experiment, beyond noise.
//!
//! A quantity has changed if the intervals of its median do not overlap *and* the medians differ by more than
//! both runs' own spread and by more than 2 %. With few rounds the interval is the whole range of the rounds,
//! which is the honest reading: two sets of three rounds that do not even touch.
//!
//! Rounds of one run share what goes on on the machine, so their intervals know nothing of what is different
//! an hour later. Therefore a loader that ran beside the baseline has changed only if its rate *against the
//! baseline's of the same round* has, too. And when others used more of the machine in one run than in the
//! other, rates by themselves are not compared at all.

use std::fmt::Write as _;

use serde::Serialize;

use crate::experiment::ExperimentError;
use crate::results::{BASELINE, Cell, Point, Results, baseline_of, value_of};
use crate::{Estimate, Summary, units};

/// Changes smaller than this are nobody's concern.
const SMALLEST: f64 = 0.02;

/// A single round has no spread; changes up to this are taken for noise then.
const SINGLE: f64 = 0.1;

/// Runs whose load by others differs by more than so many cores do not measure the same machine.
const SAME_LOAD: f64 = 0.2;

/// How the rate at one point compares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateChange {
    /// The point.
    pub point: Point,
    /// Median rate before.
    pub before: f64,
    /// Median rate after.
    pub after: f64,
    /// `after / before`.
    pub ratio: f64,
    /// The same against the baseline, where it ran beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<Relative>,
    /// Whether that is more than noise.
    pub is_real: bool,
}

/// How the rate at one point, divided by the baseline's in the same round, compares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relative {
    /// The baseline.
    pub to: String,
    /// Times the baseline's rate, before.
    pub before: f64,
    /// Times the baseline's rate, after.
    pub after: f64,
}

/// Two runs of an experiment, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunChanges {
    /// Name of the experiment.
    pub experiment: String,
    /// Points that both have.
    pub changes: Vec<RateChange>,
    /// Points that only the first has.
    pub only_before: Vec<Point>,
    /// Points that only the second has.
    pub only_after: Vec<Point>,
    /// Machine, versions or settings that differ, in words.
    pub circumstances: Vec<String>,
}

/// Compares two runs.
///
/// # Errors
///
/// If they are runs of different experiments.
pub fn compare(before: &Results, after: &Results) -> Result<RunChanges, ExperimentError> {
    let (a, b) = (&before.header, &after.header);
    if a.experiment != b.experiment {
        let (first, second) = (a.experiment.clone(), b.experiment.clone());
        return Err(ExperimentError::DifferentExperiments { first, second });
    }
    let (old, new) = (before.cells(), after.cells());
    let is_same_load = match (load(before), load(after)) {
        (Some(a), Some(b)) => (a - b).abs() <= SAME_LOAD,
        _ => true,
    };
    let changes = old.iter().filter_map(|cell| {
        let other = new.iter().find(|it| it.point == cell.point)?;
        let bases = baseline_of(cell, &old).zip(baseline_of(other, &new));
        change(cell, other, bases, is_same_load)
    });
    let missing = |from: &[Cell<'_>], in_: &[Cell<'_>]| -> Vec<Point> {
        let lacking = from.iter().filter(|cell| in_.iter().all(|it| it.point != cell.point));
        lacking.map(|cell| cell.point.clone()).collect()
    };
    Ok(RunChanges {
        experiment: a.experiment.clone(),
        changes: changes.collect(),
        only_before: missing(&old, &new),
        only_after: missing(&new, &old),
        circumstances: circumstances(before, after),
    })
}

/// Cores that others used during a run, its hypervisor included.
fn load(results: &Results) -> Option<f64> {
    let loads = results
        .measurements
        .iter()
        .filter_map(|run| Some(run.usage.others_cores? + run.usage.steal_cores.unwrap_or(0.0)));
    Summary::of(&loads.collect::<Vec<_>>()).map(|it| it.median)
}

fn change(
    before: &Cell<'_>,
    after: &Cell<'_>,
    bases: Option<(&Cell<'_>, &Cell<'_>)>,
    is_same_load: bool,
) -> Option<RateChange> {
    let rates = |cell: &Cell<'_>| -> Vec<f64> {
        cell.runs.iter().filter_map(|run| value_of(run, "rate")).collect()
    };
    let rate = MedianShift::between(&rates(before), &rates(after))?;
    let shift = bases
        .and_then(|(old, new)| MedianShift::between(&before.ratios_to(old), &after.ratios_to(new)));
    let is_real = match &shift {
        Some(shift) => shift.is_real && (rate.is_real || !is_same_load),
        None => rate.is_real && is_same_load,
    };
    let to = BASELINE.to_owned();
    Some(RateChange {
        point: before.point.clone(),
        before: rate.before,
        after: rate.after,
        ratio: rate.after / rate.before,
        relative: shift.map(|it| Relative { to, before: it.before, after: it.after }),
        is_real,
    })
}

/// Medians of one quantity in two runs, and whether they differ beyond noise.
struct MedianShift {
    before: f64,
    after: f64,
    is_real: bool,
}

impl MedianShift {
    fn between(before: &[f64], after: &[f64]) -> Option<Self> {
        let (old, new) = (Summary::of(before)?, Summary::of(after)?);
        let apart = (new.median / old.median - 1.0).abs();
        let interval = |values| Estimate::of(values).and_then(|it| it.interval);
        let is_apart = match (interval(before), interval(after)) {
            (Some(a), Some(b)) => a.high < b.low || b.high < a.low,
            _ => apart > SINGLE,
        };
        let spread = old.spread().unwrap_or(0.0).max(new.spread().unwrap_or(0.0));
        let is_real = is_apart && apart > spread.max(SMALLEST);
        Some(Self { before: old.median, after: new.median, is_real })
    }
}

fn circumstances(before: &Results, after: &Results) -> Vec<String> {
    let (a, b) = (&before.header, &after.header);
    let mut found = Vec::new();
    if a.machine != b.machine {
        found.push(format!("machine: {} before, {} after", a.machine, b.machine));
    }
    if let (Some(old), Some(new)) = (load(before), load(after))
        && (old - new).abs() > SAME_LOAD
    {
        found.push(format!(
            "load by others: {old:.1} cores before, {new:.1} after; rates were compared only where a baseline ran \
             beside them, and what changed there may be due to the load; repeat on a quiet machine"
        ));
    }
    for (name, version) in &b.versions {
        match a.versions.get(name) {
            Some(old) if old != version => {
                found.push(format!("{name}: {old} before, {version} after"))
            }
            Some(_) => {}
            None => found.push(format!("{name}: not there before, {version} after")),
        }
    }
    if let (Some(old), Some(new)) = (a.settings.as_object(), b.settings.as_object()) {
        for (key, value) in new {
            if let Some(then) = old.get(key).filter(|then| *then != value) {
                found.push(format!("setting {key}: {then} before, {value} after"));
            }
        }
    }
    found
}

impl RunChanges {
    /// The comparison in words.
    pub fn text(&self, unit: &str) -> String {
        let real: Vec<&RateChange> = self.changes.iter().filter(|it| it.is_real).collect();
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = match real.len() {
            0 => writeln!(
                out,
                "{}: nothing changed beyond noise at {} points.",
                self.experiment,
                self.changes.len()
            ),
            count => writeln!(
                out,
                "{}: {count} of {} points changed beyond noise:",
                self.experiment,
                self.changes.len()
            ),
        };
        for change in &real {
            let word = |ratio: f64| {
                let word = if ratio > 1.0 { "faster" } else { "slower" };
                format!("{:.0} % {word}", (ratio - 1.0).abs() * 100.0)
            };
            let rates = (units::count(change.before), units::count(change.after));
            let _ = write!(out, "  {}: {} -> {} {unit}/s, ", change.point, rates.0, rates.1);
            let _ = match &change.relative {
                None => writeln!(out, "{}", word(change.ratio)),
                Some(Relative { to, before, after }) => writeln!(
                    out,
                    "{} -> {} times {to}: {} beside it",
                    units::digits(*before),
                    units::digits(*after),
                    word(after / before)
                ),
            };
        }
        for (points, which) in [(&self.only_before, "first"), (&self.only_after, "second")] {
            if !points.is_empty() {
                let _ = writeln!(out, "  {} points are only in the {which} run", points.len());
            }
        }
        for it in &self.circumstances {
            let _ = writeln!(out, "note: {it}");
        }
        out
    }
}

#[cfg(test)]
#[path = "change_test.rs"]
mod tests;
