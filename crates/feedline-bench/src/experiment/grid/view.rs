//! What the report on `grid` shows.

use crate::chart::Chart;
use crate::experiment::effect::{against, effect};
use crate::experiment::loading::colour;
use crate::experiment::{Column, Tile, Unit, View, heat_map, over_time};
use crate::forecast::Forecast;
use crate::results::{Cell, Level, Point, Results, best_by};
use crate::units;

pub(in crate::experiment) fn view(results: &Results) -> View {
    let cells = results.cells();
    let mut view = View {
        columns: vec![
            Column::new("samples/s", "rate", Unit::Count).barred(),
            Column::new("time", "seconds", Unit::Seconds),
            Column::new("start", "start_s", Unit::Seconds),
            Column::new("first batch", "first_batch_s", Unit::Seconds),
            Column::new("waited", "wait_s", Unit::Seconds),
            Column::new("CPU", "cpu_s", Unit::Seconds),
            Column::new("PSS peak", "pss_peak_bytes", Unit::Bytes),
            Column::new("GPU busy", "gpu_busy", Unit::Share),
            Column::new("GPU memory", "gpu_memory_peak_bytes", Unit::Bytes),
        ],
        ..View::default()
    };
    view.verdict = verdict(results, &cells);
    view.tiles = tiles(results, &cells);
    for contestant in results.levels("contestants") {
        view.charts.extend(heats(results, &cells, &contestant));
    }
    view.charts.extend(waits(results, &cells));
    let chosen = chosen(results, &cells);
    view.charts.extend(over_time::resources(&chosen));
    for (_, _, cell) in &chosen {
        let batch = cell.point.number("batch").unwrap_or(1.0) as u64;
        view.charts.extend(over_time::timelines(std::slice::from_ref(*cell), "contestants", batch));
    }
    Forecast::show(&mut view, results);
    view
}

/// A sleep, in words.
fn asleep(sleep: &Level) -> String {
    match sleep.number() {
        Some(0.0) => "no sleep".into(),
        _ => format!("sleep {sleep} s"),
    }
}

fn with_workers(cell: &Cell<'_>) -> String {
    units::counted(cell.point.number("workers").unwrap_or(0.0), "worker")
}

/// A heat map of throughput for each data set and sleep.
fn heats(results: &Results, cells: &[Cell<'_>], contestant: &Level) -> Vec<Chart> {
    let mut charts = Vec::new();
    for data in results.levels("data") {
        for sleep in results.levels("sleep") {
            let levels = [("data", &data), ("sleep", &sleep)];
            let drawing = heat_map::throughput(results, cells, contestant, &levels, "samples");
            let caption = "Samples per second by batch size and workers: the stronger the colour, the more. With \
                           a sleep the most that can be had is batch / sleep.";
            let title = format!("Throughput by batch and workers: {contestant}");
            let sleep = asleep(&sleep);
            charts.push(Chart::new(title, caption, drawing).choice(format!("{data}, {sleep}")));
        }
    }
    charts
}

/// Waits per batch at the middle batch size with the most workers that ran everywhere.
fn waits(results: &Results, cells: &[Cell<'_>]) -> Vec<Chart> {
    let batches = results.levels("batch");
    let Some(batch) = batches.get(batches.len() / 2) else { return Vec::new() };
    let mut charts = Vec::new();
    for data in results.levels("data") {
        for sleep in results.levels("sleep") {
            let mut named = Vec::new();
            for contestant in results.levels("contestants") {
                let levels = [
                    ("contestants", &contestant),
                    ("data", &data),
                    ("sleep", &sleep),
                    ("batch", batch),
                ];
                let found: Vec<&Cell<'_>> =
                    cells.iter().filter(|cell| cell.point.is_at(&levels)).collect();
                let ends = [found.first(), found.last().filter(|_| found.len() > 1)];
                for (place, cell) in ends.into_iter().flatten().enumerate() {
                    let name = format!("{contestant}, {}", with_workers(cell));
                    named.push((name, colour(&contestant.to_string()) + 2 * place, *cell));
                }
            }
            let sleep = asleep(&sleep);
            charts.extend(
                over_time::waits(results, &named)
                    .map(|chart| chart.choice(format!("{data}, {sleep}, batch {batch}"))),
            );
        }
    }
    charts
}

/// Each loader at its fastest point without sleep on the first data set.
fn chosen<'a>(results: &Results, cells: &'a [Cell<'a>]) -> Vec<over_time::Named<'a>> {
    let data = results.levels("data");
    let of = |contestant: Level| {
        let fits = cells.iter().filter(|cell| {
            cell.point.get("contestants") == Some(&contestant)
                && cell.point.get("data") == data.first()
        });
        let best = best_by(fits, "rate")?;
        let name =
            format!("{contestant}, batch {}, {}", best.point.text("batch"), with_workers(best));
        Some((name, colour(&contestant.to_string()), best))
    };
    results.levels("contestants").into_iter().filter_map(of).collect()
}

fn verdict(results: &Results, cells: &[Cell<'_>]) -> Vec<String> {
    let mut sentences = Vec::new();
    let times = |factor: f64| units::digits(factor);
    let contestants = results.levels("contestants");
    if let [first, .., last] = &contestants[..]
        && let Some((factor, _)) = against(cells, first, last)
    {
        sentences.push(format!(
            "At equal settings {last} delivers {} times the samples per second of {first} (geometric mean of \
             all points that both ran).",
            times(factor)
        ));
    }
    for contestant in &contestants {
        let named: [(&str, &str); 3] =
            [("batch", "batch size"), ("workers", "workers"), ("sleep", "sleep")];
        for (axis, name) in named {
            // Of those that were run: the largest batches may not have been.
            let theirs = Point::new().with("contestants", contestant.clone());
            let levels = results.levels_where(axis, &theirs);
            let [low, .., high] = &levels[..] else { continue };
            let rate = effect(cells, axis, low, high, contestant, "rate");
            let first = effect(cells, axis, low, high, contestant, "first_batch_s");
            if let (Some(rate), Some(first)) = (rate, first) {
                sentences.push(format!(
                    "{contestant}, {name} from {low} to {high}: {} times the throughput, {} times the wait for \
                     the first batch.",
                    times(rate),
                    times(first)
                ));
            }
        }
        let data = results.levels("data");
        if let [from, .., to] = &data[..]
            && let Some(rate) = effect(cells, "data", from, to, contestant, "rate")
        {
            sentences.push(format!(
                "{contestant}: {to} samples come {} times as fast as {from}.",
                times(rate)
            ));
        }
    }
    sentences
}

fn tiles(results: &Results, cells: &[Cell<'_>]) -> Vec<Tile> {
    let mut tiles: Vec<Tile> = chosen(results, cells)
        .into_iter()
        .filter_map(|(name, _, cell)| {
            Some(Tile::new(
                format!("{}/s", units::count(cell.median("rate")?)),
                format!("best of {name}"),
            ))
        })
        .collect();
    if !results.not_run.is_empty() {
        tiles.push(Tile::new(results.not_run.len().to_string(), "points not run"));
    }
    tiles
}
