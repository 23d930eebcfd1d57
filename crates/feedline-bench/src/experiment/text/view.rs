//! What the report on `text` shows.

use crate::chart::{AxisKind, Chart, Drawing, Lines, Ruler, Series};
use crate::experiment::curves::{NamedBar, Shown, bars};
use crate::experiment::effect::{against, effect};
use crate::experiment::loading::colour;
use crate::experiment::{Column, Tile, Unit, View, heat_map, over_time};
use crate::forecast::Forecast;
use crate::results::{BASELINE, Cell, Level, Results, worst_by};
use crate::units;

/// How the note on page-locked memory begins; what follows are torch's words.
pub(super) const NO_PINNING: &str = "pin_memory has no effect here; torch says: ";

pub(in crate::experiment) fn view(results: &Results) -> View {
    let cells = results.cells();
    let mut view = View {
        columns: vec![
            Column::new("epoch", "epoch_s", Unit::Seconds).barred(),
            Column::new("reviews/s", "rate", Unit::Count),
            Column::new("run", "seconds", Unit::Seconds),
            Column::new("start", "start_s", Unit::Seconds),
            Column::new("first batch", "first_batch_s", Unit::Seconds),
            Column::new("waited", "wait_s", Unit::Seconds),
            Column::new("step", "step_s", Unit::Seconds),
            Column::new("loss", "loss", Unit::Plain),
            Column::new("CPU", "cpu_s", Unit::Seconds),
            Column::new("PSS peak", "pss_peak_bytes", Unit::Bytes),
            Column::new("GPU busy", "gpu_busy", Unit::Share),
            Column::new("GPU memory", "gpu_memory_peak_bytes", Unit::Bytes),
        ],
        ..View::default()
    };
    if no_pinning(results).is_some() {
        let is_on = |cell: &&Cell<'_>| cell.point.text("pin_memory") == "on";
        let marked =
            cells.iter().filter(is_on).map(|cell| (cell.point.clone(), "no effect".into()));
        view.columns.push(Column::said("pinning", marked.collect()));
    }
    view.verdict = verdict(results, &cells);
    view.tiles = tiles(results, &cells);
    for task in results.levels("task") {
        view.charts.extend(epochs(results, &cells, &task));
    }
    view.charts.extend(pinned(results, &cells));
    for contestant in results.levels("contestants") {
        view.charts.extend(heats(results, &cells, &contestant));
    }
    let chosen: Vec<over_time::Named<'_>> = results
        .levels("task")
        .iter()
        .flat_map(|task| best_of_each(results, &cells, task))
        .map(|cell| {
            let contestant = cell.point.text("contestants");
            let name = format!("{contestant}, {}, {}", cell.point.text("task"), at(cell));
            (name, colour(&contestant), cell)
        })
        .collect();
    view.charts.extend(over_time::waits(results, &chosen));
    view.charts.extend(over_time::resources(&chosen));
    Forecast::show(&mut view, results);
    view
}

/// Why page-locked memory has no effect, in torch's words.
fn no_pinning(results: &Results) -> Option<&str> {
    results.header.notes.iter().find_map(|note| note.strip_prefix(NO_PINNING))
}

/// A setting, in words.
fn at(cell: &Cell<'_>) -> String {
    let workers = units::counted(cell.point.number("workers").unwrap_or(0.0), "worker");
    let (batch, pin) = (cell.point.text("batch"), cell.point.text("pin_memory"));
    format!("batch {batch}, {workers}, pin_memory {pin}")
}

fn of<'a>(
    cells: &'a [Cell<'a>],
    levels: &'a [(&'a str, &'a Level)],
) -> impl Iterator<Item = &'a Cell<'a>> {
    cells.iter().filter(move |cell| cell.point.is_at(levels))
}

/// Each loader where an epoch is shortest.
fn best_of_each<'a>(results: &Results, cells: &'a [Cell<'a>], task: &Level) -> Vec<&'a Cell<'a>> {
    let best = |contestant: Level| {
        let theirs = cells
            .iter()
            .filter(|cell| cell.point.is_at(&[("contestants", &contestant), ("task", task)]));
        worst_by(theirs, "epoch_s")
    };
    results.levels("contestants").into_iter().filter_map(best).collect()
}

/// Seconds of an epoch over batch sizes, a chart for each number of workers.
fn epochs(results: &Results, cells: &[Cell<'_>], task: &Level) -> Vec<Chart> {
    let pins = results.levels("pin_memory");
    let mut charts = Vec::new();
    for workers in results.levels("workers") {
        for pin in &pins {
            let series = results.levels("contestants").into_iter().map(|contestant| {
                let levels = [
                    ("task", task),
                    ("contestants", &contestant),
                    ("workers", &workers),
                    ("pin_memory", pin),
                ];
                let theirs = of(cells, &levels);
                let points = theirs.filter_map(|cell| {
                    Some((cell.point.number("batch")?, cell.median("epoch_s")?))
                });
                let name = contestant.to_string();
                Series::measured(name.clone(), colour(&name), points.collect())
            });
            let series: Vec<Series> = series.filter(|it| !it.points.is_empty()).collect();
            let x = Ruler::new(AxisKind::Steps, "batch size", Unit::Plain);
            let y = Ruler::new(AxisKind::Log, "seconds of an epoch", Unit::Seconds);
            let caption = match task.to_string().as_str() {
                "training" => {
                    "How long an epoch takes while a small model trains on it: loading, waiting and steps. Lower is \
                     better."
                }
                _ => {
                    "How long it takes to get all batches of an epoch, starting workers included. Lower is better."
                }
            };
            let words = units::counted(workers.number().unwrap_or(0.0), "worker");
            let chart = Chart::new(
                format!("An epoch of {task} by batch size"),
                caption,
                Drawing::Lines(Lines { x, y, series }),
            );
            charts.push(chart.choice(format!("{words}, pin_memory {pin}")));
        }
    }
    charts
}

/// Ordinary and page-locked memory beside each other, where each loader is best.
fn pinned(results: &Results, cells: &[Cell<'_>]) -> Option<Chart> {
    let pins = results.levels("pin_memory");
    if pins.len() < 2 {
        return None;
    }
    let mut groups: Vec<(String, Vec<NamedBar<'_>>)> = Vec::new();
    for task in results.levels("task") {
        for best in best_of_each(results, cells, &task) {
            let bars = pins.iter().enumerate().filter_map(|(place, pin)| {
                let there = best.point.clone().with("pin_memory", pin.clone());
                let cell = cells.iter().find(|cell| *cell.point == there)?;
                Some((place, format!("pin_memory {pin}"), cell))
            });
            let name = format!("{}, {task}", best.point.text("contestants"));
            groups.push((name, bars.collect()));
        }
    }
    let legend = pins.iter().enumerate().map(|(place, pin)| (place, format!("pin_memory {pin}")));
    let shown = Shown {
        key: "epoch_s",
        title: "Ordinary and page-locked memory",
        label: "seconds of an epoch",
        unit: Unit::Seconds,
    };
    Some(bars(shown, legend.collect(), groups.into_iter()))
}

/// A heat map of throughput for each task and kind of memory.
fn heats(results: &Results, cells: &[Cell<'_>], contestant: &Level) -> Vec<Chart> {
    let mut charts = Vec::new();
    for task in results.levels("task") {
        for pin in results.levels("pin_memory") {
            let levels = [("task", &task), ("pin_memory", &pin)];
            let drawing = heat_map::throughput(results, cells, contestant, &levels, "reviews");
            let caption =
                "Reviews per second by batch size and workers: the stronger the colour, the more.";
            let title = format!("Throughput by batch and workers: {contestant}");
            charts.push(
                Chart::new(title, caption, drawing).choice(format!("{task}, pin_memory {pin}")),
            );
        }
    }
    charts
}

fn verdict(results: &Results, cells: &[Cell<'_>]) -> Vec<String> {
    let mut sentences = Vec::new();
    for task in results.levels("task") {
        let best = best_of_each(results, cells, &task);
        let seconds = |cell: &Cell<'_>| cell.median("epoch_s");
        let of = |name: &str| best.iter().copied().find(|it| it.point.text("contestants") == name);
        for cell in &best {
            let name = cell.point.text("contestants");
            let Some(own) = seconds(cell) else { continue };
            let base = of(BASELINE).filter(|_| name != BASELINE).and_then(seconds);
            let against = base.map_or_else(String::new, |base| {
                format!(", {} times as fast as {BASELINE} at its best", units::digits(base / own))
            });
            sentences.push(format!(
                "{task}: {name} is best with {}: an epoch takes {}{against}.",
                at(cell),
                units::time(own)
            ));
        }
    }
    let contestants = results.levels("contestants");
    for contestant in contestants.iter().filter(|it| it.to_string() != BASELINE) {
        let base = Level::from(BASELINE);
        if let Some((factor, _)) = against(cells, &base, contestant) {
            sentences.push(format!(
                "At equal settings {contestant} delivers {} times the reviews per second of {BASELINE} (geometric \
                 mean of all points that both ran).",
                units::digits(factor)
            ));
        }
    }
    for contestant in &contestants {
        for (axis, name) in
            [("batch", "batch size"), ("workers", "workers"), ("pin_memory", "pin_memory")]
        {
            let levels = results.levels(axis);
            let [low, .., high] = &levels[..] else { continue };
            if let Some(factor) = effect(cells, axis, low, high, contestant, "epoch_s") {
                sentences.push(format!(
                    "{contestant}, {name} from {low} to {high}: {} times the time of an epoch.",
                    units::digits(factor)
                ));
            }
        }
    }
    sentences.extend(losses(results, cells));
    if let Some(warning) = no_pinning(results) {
        sentences.push(format!(
            "There is no page-locked memory on this machine, and pin_memory changes nothing; what differs between its levels \
             is noise. torch says: \"{warning}\""
        ));
    }
    sentences
}

/// Whether all loaders gave the model the same batches: then its losses are the same.
fn losses(results: &Results, cells: &[Cell<'_>]) -> Option<String> {
    let mut apart = Vec::new();
    let mut compared = 0;
    for batch in results.levels("batch") {
        let own = cells.iter().filter(|cell| cell.point.get("batch") == Some(&batch));
        let found: Vec<f64> = own.filter_map(|cell| cell.median("loss")).collect();
        compared += found.len().saturating_sub(1);
        if found.iter().any(|loss| *loss != found[0]) {
            apart.push(batch.to_string());
        }
    }
    if compared == 0 {
        return None;
    }
    Some(if apart.is_empty() {
        "At each batch size all training runs end with the same loss, to the last bit: the model got the same words \
         and labels in the same order."
            .into()
    } else {
        format!(
            "Training runs end with different losses at batch size {}: the model did not get the same batches.",
            apart.join(", ")
        )
    })
}

fn tiles(results: &Results, cells: &[Cell<'_>]) -> Vec<Tile> {
    let tasks = results.levels("task");
    let best = tasks.iter().flat_map(|task| best_of_each(results, cells, task));
    let tile = |cell: &Cell<'_>| {
        let label = format!(
            "an epoch of {} with {}, {}",
            cell.point.text("task"),
            cell.point.text("contestants"),
            at(cell)
        );
        Some(Tile::new(units::time(cell.median("epoch_s")?), label))
    };
    best.filter_map(tile).collect()
}
