//! Results summarised point by point.

use std::collections::{BTreeMap, BTreeSet};

use super::{Axis, Check, ExperimentHeader, Level, Measurement, NotRun, Point};
use crate::{Estimate, Summary};

/// Everything that is known about an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// What holds for all runs.
    pub header: ExperimentHeader,
    /// The runs, in the order in which they happened.
    pub measurements: Vec<Measurement>,
    /// Points that were not run.
    pub not_run: Vec<NotRun>,
    /// Comparisons of outputs.
    pub checks: Vec<Check>,
}

/// All rounds at one point.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The point.
    pub point: &'a Point,
    /// Its runs that count.
    pub runs: Vec<&'a Measurement>,
}

impl Results {
    pub(crate) fn new(header: ExperimentHeader) -> Self {
        Self { header, measurements: Vec::new(), not_run: Vec::new(), checks: Vec::new() }
    }

    /// Whether every round of every point is there or accounted for.
    pub fn is_complete(&self) -> bool {
        self.runs_missing() == 0
    }

    /// How many runs are neither there nor accounted for.
    pub fn runs_missing(&self) -> usize {
        let given_up: Vec<&Point> = self.not_run.iter().map(|it| &it.point).collect();
        let there = self.measurements.iter().filter(|it| it.round > 0);
        let there = there.filter(|it| !given_up.contains(&&it.point)).count();
        let wanted = self.header.points.saturating_sub(given_up.len());
        (wanted * self.header.rounds as usize).saturating_sub(there)
    }

    /// Whether runs that were to find a cold page cache read nothing from storage.
    pub(crate) fn is_cold_in_name_only(&self) -> bool {
        let always = self.header.settings.get("cache").is_some_and(|it| it == "cold");
        let cold = |run: &&Measurement| always || run.point.text("caches") == "cold";
        let runs: Vec<&Measurement> = self.measurements.iter().filter(cold).collect();
        !runs.is_empty() && runs.iter().all(|run| run.usage.storage_read_bytes == Some(0))
    }

    /// The measured points, ordered by their levels in the order of the axes.
    pub fn cells(&self) -> Vec<Cell<'_>> {
        let mut cells: Vec<Cell<'_>> = Vec::new();
        for run in self.measurements.iter().filter(|it| it.round > 0) {
            match cells.iter_mut().find(|cell| *cell.point == run.point) {
                Some(cell) => cell.runs.push(run),
                None => cells.push(Cell { point: &run.point, runs: vec![run] }),
            }
        }
        let ranks: BTreeMap<&str, Vec<Level>> = self
            .header
            .axes
            .iter()
            .map(|axis| (axis.name.as_str(), self.levels(&axis.name)))
            .collect();
        cells.sort_by_key(|cell| {
            let rank = |axis: &Axis| {
                let level = cell.point.get(&axis.name)?;
                ranks.get(axis.name.as_str())?.iter().position(|it| it == level)
            };
            self.header.axes.iter().map(rank).collect::<Vec<_>>()
        });
        cells
    }

    /// The levels of an axis: numbers by size, names in the order in which they first appeared.
    pub fn levels(&self, axis: &str) -> Vec<Level> {
        let points = self.measurements.iter().map(|it| &it.point);
        let points = points.chain(self.not_run.iter().map(|it| &it.point));
        let mut levels: Vec<Level> = Vec::new();
        for level in points.filter_map(|point| point.get(axis)) {
            if !levels.contains(level) {
                levels.push(level.clone());
            }
        }
        if levels.iter().all(|level| level.number().is_some()) {
            levels.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        } else {
            self.sort_named(axis, &mut levels);
        }
        levels
    }

    /// Rounds run points in changing order, so names are put into the order of the settings, where they
    /// are listed under the axis's name.
    fn sort_named(&self, axis: &str, levels: &mut [Level]) {
        let listed = self.header.settings.get(axis).and_then(serde_json::Value::as_array);
        let Some(listed) = listed else { return };
        let place = |level: &Level| {
            let level = level.to_string();
            listed.iter().position(|it| it.as_str() == Some(&level)).unwrap_or(usize::MAX)
        };
        levels.sort_by_key(place);
    }

    /// The levels of an axis among points that fit `filter`.
    pub fn levels_where(&self, axis: &str, filter: &Point) -> Vec<Level> {
        let fitting: Vec<&Point> = self
            .measurements
            .iter()
            .map(|it| &it.point)
            .filter(|point| filter.levels().all(|(axis, level)| point.get(axis) == Some(level)))
            .collect();
        self.levels(axis)
            .into_iter()
            .filter(|level| fitting.iter().any(|point| point.get(axis) == Some(level)))
            .collect()
    }

    /// Names of all figures that runs reported.
    pub fn figures(&self) -> BTreeSet<&str> {
        self.measurements.iter().flat_map(|it| it.figures.keys().map(String::as_str)).collect()
    }
}

impl Cell<'_> {
    /// The summary of a quantity over the rounds. See [`value_of`] for the names.
    pub fn summary(&self, key: &str) -> Option<Summary> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| value_of(run, key)).collect();
        Summary::of(&values)
    }

    /// Its median.
    pub fn median(&self, key: &str) -> Option<f64> {
        self.summary(key).map(|it| it.median)
    }

    /// Its median with an interval.
    pub fn estimate(&self, key: &str) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| value_of(run, key)).collect();
        Estimate::of(&values)
    }

    /// Its rate against another's, round by round: what disturbs a whole round cancels out.
    pub fn ratios_to(&self, base: &Cell<'_>) -> Vec<f64> {
        let paired = self.runs.iter().filter_map(|run| {
            let other = base.runs.iter().find(|it| it.round == run.round)?;
            Some(value_of(run, "rate")? / value_of(other, "rate")?)
        });
        paired.collect()
    }

    /// The median wait for each batch: the first, second, third …
    pub fn waits_s(&self) -> Vec<f64> {
        let longest = self.runs.iter().map(|run| run.waits_s.len()).max().unwrap_or(0);
        (0..longest)
            .filter_map(|place| {
                let waits: Vec<f64> =
                    self.runs.iter().filter_map(|run| run.waits_s.get(place).copied()).collect();
                Summary::of(&waits).map(|it| it.median)
            })
            .collect()
    }
}

/// Whom ratios refer to, if it took part.
pub(crate) const BASELINE: &str = "torch";

/// What a loader's cell is compared with: the baseline's at otherwise equal levels. `None` for the baseline
/// itself, and where there is none.
pub(crate) fn baseline_of<'a>(cell: &Cell<'_>, cells: &'a [Cell<'a>]) -> Option<&'a Cell<'a>> {
    let there = cell.point.clone().with("contestants", BASELINE);
    cell.point.get("contestants").filter(|_| there != *cell.point)?;
    cells.iter().find(|it| *it.point == there)
}

/// The cell with the largest median of a quantity.
pub(crate) fn best_by<'a>(
    cells: impl IntoIterator<Item = &'a Cell<'a>>,
    key: &str,
) -> Option<&'a Cell<'a>> {
    extreme(cells, key, |a, b| a.total_cmp(b))
}

/// The cell with the smallest median of a quantity.
pub(crate) fn worst_by<'a>(
    cells: impl IntoIterator<Item = &'a Cell<'a>>,
    key: &str,
) -> Option<&'a Cell<'a>> {
    extreme(cells, key, |a, b| b.total_cmp(a))
}

fn extreme<'a>(
    cells: impl IntoIterator<Item = &'a Cell<'a>>,
    key: &str,
    order: fn(&f64, &f64) -> std::cmp::Ordering,
) -> Option<&'a Cell<'a>> {
    let known = cells.into_iter().filter_map(|cell| Some((cell, cell.median(key)?)));
    known.max_by(|(_, a), (_, b)| order(a, b)).map(|(cell, _)| cell)
}

/// A quantity of one run: `rate`, `seconds`, `bytes_per_s`, `cpu_s`, `busy_cores`, `cpu_per_item_s`,
/// `pss_start_bytes`, `pss_peak_bytes`, `gpu_busy`, `gpu_memory_peak_bytes`, `read_bytes`, `switches`, or the name of a figure.
pub(crate) fn value_of(run: &Measurement, key: &str) -> Option<f64> {
    let seconds = Some(run.seconds).filter(|it| *it > 0.0);
    let usage = &run.usage;
    match key {
        "rate" => Some(run.items as f64 / seconds?),
        "seconds" => seconds,
        "bytes_per_s" => Some(run.bytes? as f64 / seconds?),
        "cpu_s" => usage.cpu_s,
        "busy_cores" => Some(usage.cpu_s? / seconds?),
        "cpu_per_item_s" => Some(usage.cpu_s? / Some(run.items as f64).filter(|it| *it > 0.0)?),
        "pss_start_bytes" => usage.pss_start_bytes.map(|it| it as f64),
        "pss_peak_bytes" => usage.pss_peak_bytes.map(|it| it as f64),
        "pss_grown_bytes" => {
            Some(usage.pss_peak_bytes?.saturating_sub(usage.pss_start_bytes?) as f64)
        }
        "gpu_busy" => usage.gpu_busy,
        "gpu_memory_peak_bytes" => usage.gpu_memory_peak_bytes.map(|it| it as f64),
        "read_bytes" => usage.storage_read_bytes.map(|it| it as f64),
        "switches" => Some((usage.voluntary_switches? + usage.involuntary_switches?) as f64),
        figure => run.figures.get(figure).copied(),
    }
}
