//! Throughput by batch size and workers, as a heat map.

use super::Unit;
use super::loading::colour;
use crate::chart::{Drawing, Heat, HeatCell};
use crate::results::{Cell, Level, Results};
use crate::units;

/// The rates of a loader at every batch size and number of workers, where all other axes are at `levels`. `unit` is what is
/// counted.
pub(crate) fn throughput(
    results: &Results,
    cells: &[Cell<'_>],
    contestant: &Level,
    levels: &[(&str, &Level)],
    unit: &str,
) -> Drawing {
    let (batches, workers) = (results.levels("batch"), results.levels("workers"));
    let mut heat = Vec::new();
    for batch in &batches {
        for count in &workers {
            let own = [("contestants", contestant), ("batch", batch), ("workers", count)];
            let at: Vec<(&str, &Level)> = levels.iter().copied().chain(own).collect();
            let cell = cells.iter().find(|cell| cell.point.is_at(&at));
            let value = cell.and_then(|cell| cell.median("rate"));
            let left_out = results.not_run.iter().find(|it| it.point.is_at(&at));
            let what = match (value, left_out) {
                (Some(rate), _) => format!("{} {unit}/s", units::count(rate)),
                (None, Some(it)) => match it.needed_bytes {
                    Some(bytes) => format!("not run: needs {}", units::bytes(bytes as f64)),
                    None => "not run: it failed".into(),
                },
                (None, None) => "not run yet".into(),
            };
            heat.push(HeatCell { value, tip: format!("batch {batch}, {count} workers: {what}") });
        }
    }
    Drawing::Heat(Heat {
        x_label: "workers".into(),
        y_label: "batch size".into(),
        columns: workers.iter().map(ToString::to_string).collect(),
        rows: batches.iter().map(ToString::to_string).collect(),
        cells: heat,
        unit: Unit::Count,
        colour: colour(&contestant.to_string()),
    })
}
