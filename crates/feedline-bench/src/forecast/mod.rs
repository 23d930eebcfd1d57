//! What the theory says about an experiment's points, beside what was measured there.
//!
//! Points that differ in workers, batch size, step (or task) and read-ahead alone are a *group*: one loader on one data
//! set. A few points of each group calibrate the [model](feedline_model::calibrate); the others are *held out* and say how
//! good its [predictions](feedline_model::predict) are. An experiment gets all of it by one call,
//! [`Forecast::show`], if its axes have the usual names: `contestants`, `workers`, and where they vary `batch`, `sleep` or
//! `task`, and `prefetch`.

mod accuracy;
mod choice;
mod elsewhere;
mod show;

use feedline_model::ArgumentError;
use feedline_model::calibrate::{Assignment, Calibration, Observation};
use feedline_model::predict::{Prediction, Setting, predict};

pub use accuracy::Accuracy;
pub use elsewhere::{Elsewhere, OtherSetting, predict_elsewhere};

use crate::Summary;
use crate::results::{Cell, Measurement, Point, Results};

/// Axes along which the model predicts. What a `task` does with a batch is a step like any other, as long as it took.
const VARIED: [&str; 5] = ["workers", "batch", "sleep", "task", "prefetch"];

/// What `feedline.Loader` lets undelivered batches take unless told otherwise.
const BUDGET: u64 = 2 << 30;

/// What the model says about all points.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// A loader on a data set each.
    pub groups: Vec<LoaderGroup>,
    /// Groups without a prediction, and why.
    pub left_out: Vec<(String, String)>,
}

/// Points that differ in what the model predicts for.
#[derive(Clone, Debug)]
pub struct LoaderGroup {
    /// What they have in common, in words.
    pub name: String,
    /// What they have in common.
    pub common: Point,
    /// What work costs in this group.
    pub calibration: Calibration,
    /// The points, in the order of the results.
    pub points: Vec<Foretold>,
}

/// A point, as measured and as predicted.
#[derive(Clone, Debug)]
pub struct Foretold {
    /// Where.
    pub point: Point,
    /// What was measured: medians over the rounds.
    pub observation: Observation,
    /// What the model says.
    pub prediction: Prediction,
    /// Whether the model was calibrated without it.
    pub held_out: bool,
}

impl Foretold {
    /// By how much the predicted rate is above the measured one: 0.05 is 5 %.
    pub fn rate_error(&self) -> f64 {
        self.prediction.samples_per_second / self.observation.rate() - 1.0
    }

    /// By how much the predicted share of waiting is above the measured one.
    pub fn waiting_error(&self) -> f64 {
        self.prediction.waiting_share - self.observation.waiting_share()
    }
}

impl Forecast {
    /// Calibrates each group with a few of its points and predicts all of them.
    pub fn of(results: &Results) -> Forecast {
        let cells = results.cells();
        let mut forecast = Forecast { groups: Vec::new(), left_out: Vec::new() };
        for common in commons(&cells) {
            let own = |cell: &&Cell<'_>| common_of(cell.point) == common;
            let seen: Vec<(&Point, Observation)> = cells
                .iter()
                .filter(own)
                .filter_map(|cell| Some((cell.point, observation(&undisturbed(cell), results)?)))
                .collect();
            let name = words(&common);
            match group(name.clone(), common, &seen, results) {
                Ok(group) => forecast.groups.push(group),
                Err(why) => forecast.left_out.push((name, why)),
            }
        }
        forecast
    }

    /// How good the predictions are at points that calibration did not see and where the loop waits.
    pub fn accuracy(&self) -> Option<Accuracy> {
        Accuracy::of(self.groups.iter().flat_map(|group| &group.points))
    }

    /// What the model says about a point; `None` if it says nothing.
    pub fn at(&self, point: &Point) -> Option<&Foretold> {
        self.groups.iter().flat_map(|group| &group.points).find(|it| it.point == *point)
    }
}

impl LoaderGroup {
    /// How good the predictions of this group are.
    pub fn accuracy(&self) -> Option<Accuracy> {
        Accuracy::of(&self.points)
    }

    /// Predicts another setting of this loader on this data.
    ///
    /// # Errors
    ///
    /// If the setting cannot be: the message names the quantity and says why.
    pub fn predict(&self, setting: &Setting) -> Result<Prediction, ArgumentError> {
        predict(&self.calibration, &within_budget(*setting, &self.calibration))
    }
}

/// The byte budget that the engine has by default. A batch that is larger goes alone.
fn within_budget(setting: Setting, calibration: &Calibration) -> Setting {
    let batch = calibration.sample_bytes.saturating_mul(setting.batch_size.into());
    let has_one = calibration.assignment == Assignment::Samples && setting.memory.is_none();
    Setting { memory: if has_one { Some(BUDGET.max(batch)) } else { setting.memory }, ..setting }
}

fn common_of(point: &Point) -> Point {
    VARIED.iter().fold(point.clone(), |point, axis| point.without(axis))
}

fn commons(cells: &[Cell<'_>]) -> Vec<Point> {
    let mut commons: Vec<Point> = Vec::new();
    for common in cells.iter().map(|cell| common_of(cell.point)) {
        if !commons.contains(&common) {
            commons.push(common);
        }
    }
    commons
}

/// The loader first, then the rest.
fn words(common: &Point) -> String {
    let rest = common.levels().filter(|(axis, _)| *axis != "contestants");
    let rest = rest.map(|(axis, level)| match level.to_string().as_str() {
        // A switch says nothing by itself.
        switch @ ("on" | "off") => format!("{axis} {switch}"),
        level => level.to_owned(),
    });
    let first = common.get("contestants").map(ToString::to_string);
    first.into_iter().chain(rest).collect::<Vec<_>>().join(", ")
}

fn group(
    name: String,
    common: Point,
    seen: &[(&Point, Observation)],
    results: &Results,
) -> Result<LoaderGroup, String> {
    let assignment = match common.text("contestants").as_str() {
        "feedline" => Assignment::Samples,
        "torch" | "feedline.torch" | "datasets" => Assignment::Batches,
        // torch's loader, whoever reads the files.
        other if other.starts_with("torch+") => Assignment::Batches,
        other => return Err(format!("how {other} gives out work is not known")),
    };
    let cores = results.header.machine.cores.and_then(|it| u32::try_from(it).ok()).unwrap_or(1);
    let observations: Vec<Observation> = seen.iter().map(|(_, it)| *it).collect();
    let chosen = choice::choose(&observations, cores);
    let used: Vec<Observation> = chosen.iter().map(|place| observations[*place]).collect();
    let calibration =
        Calibration::of(assignment, cores, &used).map_err(|error| error.to_string())?;
    let mut group = LoaderGroup { name, common, calibration, points: Vec::new() };
    for (place, (point, observation)) in seen.iter().enumerate() {
        let prediction =
            group.predict(&observation.setting()).map_err(|error| error.to_string())?;
        group.points.push(Foretold {
            point: (*point).clone(),
            observation: *observation,
            prediction,
            held_out: !chosen.contains(&place),
        });
    }
    Ok(group)
}

/// With so many cores used by others, or taken by a hypervisor, a run says little about its loader.
const DISTURBED: f64 = 0.1;

/// The runs of a cell during which it had the machine to itself; all of them, if it never had.
fn undisturbed<'a>(cell: &Cell<'a>) -> Cell<'a> {
    let by_others = |run: &Measurement| {
        run.usage.others_cores.unwrap_or(0.0) + run.usage.steal_cores.unwrap_or(0.0)
    };
    let runs: Vec<_> = cell.runs.iter().copied().filter(|it| by_others(it) <= DISTURBED).collect();
    Cell { point: cell.point, runs: if runs.is_empty() { cell.runs.clone() } else { runs } }
}

/// What a cell tells, as medians over its rounds. `None` if it does not say how many workers and samples there were.
fn observation(cell: &Cell<'_>, results: &Results) -> Option<Observation> {
    let setting = |name: &str| {
        let of_all = || results.header.settings.get(name)?.as_f64();
        cell.point.number(name).or_else(of_all)
    };
    let median = |key: &str| cell.median(key);
    let batch_size = setting("batch").or_else(|| setting("batch_size")).filter(|it| *it >= 1.0)?;
    let items = cell.runs.first()?.items as f64;
    let batches = (items / batch_size).round();
    let seconds = median("seconds")?;
    let step_s = median("step_s").unwrap_or(0.0);
    let (start_s, end_s) = (median("start_s").unwrap_or(0.0), median("end_s").unwrap_or(0.0));
    let rest = (seconds - start_s - end_s - batches * step_s).max(0.0);
    Some(Observation {
        workers: setting("workers")? as u32,
        batch_size: batch_size as u32,
        prefetch: setting("prefetch").unwrap_or(2.0) as u32,
        batches: batches as u32,
        step_s,
        seconds,
        start_s,
        end_s,
        wait_s: median("wait_s").unwrap_or(rest),
        first_wait_s: median("first_batch_s").map(|it| (it - start_s).max(0.0)),
        median_wait_s: Summary::of(&cell.waits_s()).map(|it| it.median),
        fetch_s: median("fetch_s"),
        collate_s: median("collate_s"),
        handover_s: median("handover_s"),
        cpu_s: median("cpu_s"),
        lock_share: median("lock_share"),
        bytes: cell.runs.first()?.bytes.unwrap_or(0),
        base_bytes: median("pss_start_bytes").map(|it| it as u64),
        peak_bytes: median("pss_peak_bytes").map(|it| it as u64),
    })
    .filter(|it| it.batches > 0)
}

#[cfg(test)]
#[path = "forecast_test.rs"]
mod tests;
