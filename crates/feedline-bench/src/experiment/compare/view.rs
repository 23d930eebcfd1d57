//! What the report on `compare` shows.

use crate::experiment::curves::{Shown, bars};
use crate::experiment::loading::colour;
use crate::experiment::{Column, Tile, Unit, View, over_time};
use crate::results::{BASELINE, Cell, Level, Results, baseline_of};
use crate::{Estimate, units};

pub(in crate::experiment) fn view(results: &Results) -> View {
    let cells = results.cells();
    let mut view = View {
        columns: vec![
            Column::new("samples/s", "rate", Unit::Count).barred(),
            Column::new("time", "seconds", Unit::Seconds),
            Column::new("start", "start_s", Unit::Seconds),
            Column::new("first batch", "first_batch_s", Unit::Seconds),
            Column::new("CPU/sample", "cpu_per_item_s", Unit::Seconds),
            Column::new("busy cores", "busy_cores", Unit::Plain),
            Column::new("PSS peak", "pss_peak_bytes", Unit::Bytes),
            Column::new("GPU busy", "gpu_busy", Unit::Share),
            Column::new("GPU memory", "gpu_memory_peak_bytes", Unit::Bytes),
            Column::new("switches", "switches", Unit::Count),
        ],
        ..View::default()
    };
    for workers in results.levels("workers") {
        view.verdict.extend(sentences(&cells, &workers, results.levels("workers").len() > 1));
    }
    view.tiles = ratios(&cells, None)
        .into_iter()
        .map(|(cell, ratio)| {
            let name = cell.point.text("contestants");
            let workers = cell.point.number("workers").unwrap_or(0.0);
            Tile::new(
                format!("{} x", units::digits(ratio.value)),
                format!("{name} against {BASELINE}, {}", units::counted(workers, "worker")),
            )
        })
        .collect();
    let charts = [
        Shown { key: "rate", title: "Throughput", label: "samples per second", unit: Unit::Count },
        Shown {
            key: "cpu_per_item_s",
            title: "CPU time for a sample",
            label: "CPU seconds per sample",
            unit: Unit::Seconds,
        },
        Shown {
            key: "pss_peak_bytes",
            title: "Peak memory",
            label: "proportional set size of the process tree",
            unit: Unit::Bytes,
        },
    ];
    let several = results.levels("workers").len() > 1;
    let name = |cell: &Cell<'_>| {
        let (name, workers) = (cell.point.text("contestants"), cell.point.number("workers"));
        match workers.filter(|_| several) {
            Some(workers) => format!("{name}, {}", units::counted(workers, "worker")),
            None => name,
        }
    };
    view.charts.extend(charts.map(|shown| {
        let groups = cells.iter().map(|cell| {
            let colour = colour(&cell.point.text("contestants"));
            (name(cell), vec![(colour, name(cell), cell)])
        });
        bars(shown, Vec::new(), groups)
    }));
    let named: Vec<over_time::Named<'_>> = cells
        .iter()
        .map(|cell| (name(cell), colour(&cell.point.text("contestants")), cell))
        .collect();
    view.charts.extend(over_time::waits(results, &named));
    view.charts.extend(over_time::resources(&named));
    let batch = results.header.settings.get("batch_size").and_then(serde_json::Value::as_u64);
    view.charts.extend(over_time::timelines(&cells, "contestants", batch.unwrap_or(1)));
    view
}

/// Each cell's rate against the baseline's of the same round and number of workers.
fn ratios<'a>(cells: &'a [Cell<'a>], workers: Option<&Level>) -> Vec<(&'a Cell<'a>, Estimate)> {
    let fits = |cell: &&Cell<'_>| workers.is_none_or(|it| cell.point.get("workers") == Some(it));
    let mut found = Vec::new();
    for cell in cells.iter().filter(fits) {
        let Some(base) = baseline_of(cell, cells) else { continue };
        let paired = cell.ratios_to(base);
        found.extend(Estimate::of(&paired).map(|ratio| (cell, ratio)));
    }
    found
}

fn sentences(cells: &[Cell<'_>], workers: &Level, says_workers: bool) -> Vec<String> {
    let with = if says_workers { format!(" with {workers} workers") } else { String::new() };
    ratios(cells, Some(workers))
        .into_iter()
        .map(|(cell, ratio)| {
            let name = cell.point.text("contestants");
            let value = units::digits(ratio.value);
            match ratio.interval {
                Some(it) => {
                    let (low, high) = (units::digits(it.low), units::digits(it.high));
                    let doubt =
                        if it.low <= 1.0 && 1.0 <= it.high { "; no difference shown" } else { "" };
                    format!(
                        "{name} ran {value} x [{low}, {high}] as fast as {BASELINE}{with} ({:.1} % \
                         interval{doubt}).",
                        it.coverage * 100.0
                    )
                }
                None => format!(
                    "{name} ran {value} x as fast as {BASELINE}{with} (one round: no interval)."
                ),
            }
        })
        .collect()
}
