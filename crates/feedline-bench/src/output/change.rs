//! What changed between two runs of an experiment, beyond noise.
//!
//! A point has changed if the intervals of its median do not overlap *and* the medians differ by more than
//! both runs' own spread and by more than 2 %. With few rounds the interval is the whole range of the rounds, which is
//! the honest reading: two sets of three rounds that do not even touch.

use std::fmt::Write as _;

use serde::Serialize;

use crate::experiment::ExperimentError;
use crate::results::{Cell, Point, Results};
use crate::units;

/// Changes smaller than this are nobody's concern.
const SMALLEST: f64 = 0.02;

/// A single round has no spread; changes up to this are taken for noise then.
const SINGLE: f64 = 0.1;

/// How the rate at one point compares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The point.
    pub point: Point,
    /// Median rate before.
    pub before: f64,
    /// Median rate after.
    pub after: f64,
    /// `after / before`.
    pub ratio: f64,
    /// Whether that is more than noise.
    pub is_real: bool,
}

/// Two runs of an experiment, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the experiment.
    pub experiment: String,
    /// Points that both have.
    pub changes: Vec<Change>,
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
pub fn compare(before: &Results, after: &Results) -> Result<Comparison, ExperimentError> {
    let (a, b) = (&before.header, &after.header);
    if a.experiment != b.experiment {
        let problem = format!(
            "the first is a run of `{}`, the second of `{}`; only runs of one experiment can be compared",
            a.experiment, b.experiment
        );
        return Err(ExperimentError::Setting { problem });
    }
    let (old, new) = (before.cells(), after.cells());
    let changes = old.iter().filter_map(|cell| {
        let other = new.iter().find(|it| it.point == cell.point)?;
        change(cell, other)
    });
    let missing = |from: &[Cell<'_>], in_: &[Cell<'_>]| -> Vec<Point> {
        let lacking = from.iter().filter(|cell| in_.iter().all(|it| it.point != cell.point));
        lacking.map(|cell| cell.point.clone()).collect()
    };
    Ok(Comparison {
        experiment: a.experiment.clone(),
        changes: changes.collect(),
        only_before: missing(&old, &new),
        only_after: missing(&new, &old),
        circumstances: circumstances(before, after),
    })
}

fn change(before: &Cell<'_>, after: &Cell<'_>) -> Option<Change> {
    let (old, new) = (before.summary("rate")?, after.summary("rate")?);
    let ratio = new.median / old.median;
    let interval = |cell: &Cell<'_>| cell.estimate("rate").and_then(|it| it.interval);
    let is_apart = match (interval(before), interval(after)) {
        (Some(a), Some(b)) => a.high < b.low || b.high < a.low,
        _ => (ratio - 1.0).abs() > SINGLE,
    };
    let spread = old.spread().unwrap_or(0.0).max(new.spread().unwrap_or(0.0));
    let is_real = is_apart && (ratio - 1.0).abs() > spread.max(SMALLEST);
    let (before_rate, after_rate) = (old.median, new.median);
    Some(Change {
        point: before.point.clone(),
        before: before_rate,
        after: after_rate,
        ratio,
        is_real,
    })
}

fn circumstances(before: &Results, after: &Results) -> Vec<String> {
    let (a, b) = (&before.header, &after.header);
    let mut found = Vec::new();
    if a.machine != b.machine {
        found.push(format!("machine: {} before, {} after", a.machine, b.machine));
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

impl Comparison {
    /// The comparison in words.
    pub fn text(&self, unit: &str) -> String {
        let real: Vec<&Change> = self.changes.iter().filter(|it| it.is_real).collect();
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
            let word = if change.ratio > 1.0 { "faster" } else { "slower" };
            let _ = writeln!(
                out,
                "  {}: {} -> {} {unit}/s, {:.0} % {word}",
                change.point,
                units::count(change.before),
                units::count(change.after),
                (change.ratio - 1.0).abs() * 100.0
            );
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
