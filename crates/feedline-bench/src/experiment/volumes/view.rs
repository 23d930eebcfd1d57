//! What the report on `volumes` shows.

use crate::chart::{AxisKind, Chart, Drawing, Lines, Ruler, Series};
use crate::experiment::effect::{against, effect};
use crate::experiment::loading::colour;
use crate::experiment::{Column, Tile, Unit, View, heat_map, over_time};
use crate::forecast::Forecast;
use crate::results::{Cell, Level, Results};
use crate::units;

/// A setting is recommended if none is faster by more than this share.
const NEAR_BEST: f64 = 0.05;

/// Whom all others are compared with.
const OURS: &str = "feedline";

pub(in crate::experiment) fn view(results: &Results) -> View {
    let cells = results.cells();
    let mut view = View {
        columns: vec![
            Column::new("patches/s", "rate", Unit::Count).barred(),
            Column::new("preprocessing", "fetch_s", Unit::Seconds),
            Column::new("collate/batch", "collate_s", Unit::Seconds),
            Column::new("time", "seconds", Unit::Seconds),
            Column::new("first batch", "first_batch_s", Unit::Seconds),
            Column::new("CPU/patch", "cpu_per_item_s", Unit::Seconds),
            Column::new("busy cores", "busy_cores", Unit::Plain),
            Column::new("PSS peak", "pss_peak_bytes", Unit::Bytes),
            Column::new("GPU busy", "gpu_busy", Unit::Share),
            Column::new("GPU memory", "gpu_memory_peak_bytes", Unit::Bytes),
        ],
        ..View::default()
    };
    let chosen = recommended(results, &cells);
    view.verdict = verdict(results, &cells, &chosen);
    view.tiles = tiles(&chosen);
    view.charts.extend(heats(results, &cells));
    for curve in CURVES {
        view.charts.extend(curves(results, &cells, curve));
    }
    let named: Vec<over_time::Named<'_>> = chosen
        .iter()
        .map(|cell| {
            let name = cell.point.text("contestants");
            (format!("{name}, {}", setting(cell)), colour(&name), *cell)
        })
        .collect();
    view.charts.extend(over_time::waits(results, &named));
    view.charts.extend(over_time::resources(&named));
    for cell in &chosen {
        let batch = cell.point.number("batch").unwrap_or(1.0) as u64;
        view.charts.extend(over_time::timelines(std::slice::from_ref(*cell), "contestants", batch));
    }
    Forecast::show(&mut view, results);
    view
}

fn of<'a>(cells: &'a [Cell<'a>], contestant: &Level) -> impl Iterator<Item = &'a Cell<'a>> {
    let contestant = contestant.clone();
    cells.iter().filter(move |cell| cell.point.get("contestants") == Some(&contestant))
}

/// `2 workers, batch 4`
fn setting(cell: &Cell<'_>) -> String {
    let workers = cell.point.number("workers").unwrap_or(0.0);
    format!("{}, batch {}", units::counted(workers, "worker"), cell.point.text("batch"))
}

/// Of each loader the setting that is worth its price: of those near the best rate the one with the fewest workers,
/// then with the least memory.
fn recommended<'a>(results: &Results, cells: &'a [Cell<'a>]) -> Vec<&'a Cell<'a>> {
    let choice = |contestant: Level| {
        let rates = of(cells, &contestant).filter_map(|cell| cell.median("rate"));
        let best = rates.fold(0.0, f64::max);
        let near = |cell: &&Cell<'_>| {
            cell.median("rate").is_some_and(|it| it > 0.0 && it >= best * (1.0 - NEAR_BEST))
        };
        let price = |cell: &Cell<'_>| {
            let workers = cell.point.number("workers").unwrap_or(0.0);
            (workers, cell.median("pss_peak_bytes").unwrap_or(0.0))
        };
        of(cells, &contestant).filter(near).min_by(|a, b| {
            let (a, b) = (price(a), price(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    };
    results.levels("contestants").into_iter().filter_map(choice).collect()
}

fn verdict(results: &Results, cells: &[Cell<'_>], chosen: &[&Cell<'_>]) -> Vec<String> {
    let mut sentences = Vec::new();
    let ours = Level::from(OURS);
    for other in results.levels("contestants").iter().filter(|it| **it != ours) {
        if let Some((factor, points)) = against(cells, other, &ours) {
            sentences.push(format!(
                "At equal settings {OURS} delivers {} times the patches per second of {other} (geometric mean of \
                 {points} settings).",
                units::digits(factor)
            ));
        }
    }
    for cell in chosen {
        sentences.extend(recommendation(cell));
    }
    for contestant in results.levels("contestants") {
        sentences.extend(by_batch(results, cells, &contestant));
        sentences.extend(price_of_workers(results, cells, &contestant));
    }
    sentences
}

fn recommendation(cell: &Cell<'_>) -> Option<String> {
    let name = cell.point.text("contestants");
    let mut costs = vec![format!("{} patches/s", units::count(cell.median("rate")?))];
    if let Some(fetch) = cell.median("fetch_s") {
        costs.push(format!("{} of a worker for each", units::time(fetch)));
    }
    if let Some(busy) = cell.median("busy_cores") {
        costs.push(format!("{} busy cores", units::digits(busy)));
    }
    if let Some(bytes) = cell.median("pss_peak_bytes") {
        costs.push(format!("{} at the peak", units::bytes(bytes)));
    }
    Some(format!(
        "Recommended for {name}: {}; {}. No other setting is more than {:.0} % faster, and those as fast take more \
         workers or memory.",
        setting(cell),
        costs.join(", "),
        NEAR_BEST * 100.0
    ))
}

/// What more workers bring, at the smallest and at the largest batch size.
fn by_batch(results: &Results, cells: &[Cell<'_>], contestant: &Level) -> Option<String> {
    let (workers, batches) = (results.levels("workers"), results.levels("batch"));
    let ([few, .., many], [small, .., large]) = (&workers[..], &batches[..]) else { return None };
    let gain = |batch: &Level| {
        let rate = |count: &Level| {
            let at = [("contestants", contestant), ("batch", batch), ("workers", count)];
            cells.iter().find(|cell| cell.point.is_at(&at))?.median("rate")
        };
        Some(rate(many)? / rate(few)?)
    };
    let (first, last) = (gain(small)?, gain(large)?);
    let here = match last / first - 1.0 {
        change if change < -NEAR_BEST => "so it is here",
        change if change > NEAR_BEST => "here they gain more",
        _ => "here there is no difference",
    };
    Some(format!(
        "{contestant}, {few} to {many} workers: {} times the throughput at batch {small}, {} times at batch {large} \
         (published: large batches gain less; {here}).",
        units::digits(first),
        units::digits(last)
    ))
}

/// What more workers cost.
fn price_of_workers(results: &Results, cells: &[Cell<'_>], contestant: &Level) -> Option<String> {
    let workers = results.levels("workers");
    let [few, .., many] = &workers[..] else { return None };
    let times = |key| effect(cells, "workers", few, many, contestant, key);
    Some(format!(
        "{contestant}, {few} to {many} workers: {} times the CPU time of a patch, {} times the memory at the peak.",
        units::digits(times("cpu_per_item_s")?),
        units::digits(times("pss_peak_bytes")?)
    ))
}

fn tiles(chosen: &[&Cell<'_>]) -> Vec<Tile> {
    let tile = |cell: &&Cell<'_>| {
        let rate = cell.median("rate")?;
        let name = cell.point.text("contestants");
        Some(Tile::new(
            format!("{}/s", units::count(rate)),
            format!("{name} as recommended: {}", setting(cell)),
        ))
    };
    chosen.iter().filter_map(tile).collect()
}

/// Throughput by batch size and workers, a chart for each loader.
fn heats(results: &Results, cells: &[Cell<'_>]) -> Vec<Chart> {
    let chart = |contestant: Level| {
        let drawing = heat_map::throughput(results, cells, &contestant, &[], "patches");
        let caption =
            "Patches per second by batch size and workers: the stronger the colour, the more.";
        Chart::new("Throughput by batch and workers", caption, drawing)
            .choice(contestant.to_string())
            .first(contestant == Level::from(OURS))
    };
    results.levels("contestants").into_iter().map(chart).collect()
}

/// A quantity that is drawn against workers.
#[derive(Clone, Copy)]
struct DrawnQuantity {
    key: &'static str,
    title: &'static str,
    label: &'static str,
    unit: Unit,
    caption: &'static str,
}

const CURVES: [DrawnQuantity; 4] = [
    DrawnQuantity {
        key: "rate",
        title: "Throughput against workers",
        label: "patches per second",
        unit: Unit::Count,
        caption: "Patches per second with more and more workers: medians over the rounds.",
    },
    DrawnQuantity {
        key: "fetch_s",
        title: "Preprocessing of a volume",
        label: "seconds of a worker",
        unit: Unit::Seconds,
        caption: "How long a worker takes for one patch with its mask: reading, unpacking, cutting out and z-score. \
                  With more workers than cores it grows, as they take turns.",
    },
    DrawnQuantity {
        key: "busy_cores",
        title: "Busy cores against workers",
        label: "cores",
        unit: Unit::Plain,
        caption: "Cores that the whole process tree kept busy on average.",
    },
    DrawnQuantity {
        key: "pss_peak_bytes",
        title: "Peak memory against workers",
        label: "proportional set size",
        unit: Unit::Bytes,
        caption: "Memory of the whole process tree at its peak (PSS: shared pages are counted once), with the \
                  interpreter and its libraries.",
    },
];

/// A chart for the smallest, the middle and the largest batch size.
fn curves(results: &Results, cells: &[Cell<'_>], curve: DrawnQuantity) -> Vec<Chart> {
    let batches = results.levels("batch");
    let mut places = vec![0, batches.len() / 2, batches.len().saturating_sub(1)];
    places.dedup();
    let chart = |place: usize| {
        let batch = batches.get(place)?;
        let series: Vec<Series> = results
            .levels("contestants")
            .into_iter()
            .filter_map(|contestant| {
                let at = [("batch", batch)];
                let points: Vec<(f64, f64)> = of(cells, &contestant)
                    .filter(|cell| cell.point.is_at(&at))
                    .filter_map(|cell| {
                        Some((cell.point.number("workers")?, cell.median(curve.key)?))
                    })
                    .collect();
                let name = contestant.to_string();
                (!points.is_empty()).then(|| Series::measured(name.clone(), colour(&name), points))
            })
            .collect();
        if series.is_empty() {
            return None;
        }
        let x = Ruler::new(AxisKind::Linear, "workers", Unit::Plain);
        let y = Ruler::new(AxisKind::Linear, curve.label, curve.unit);
        let drawing = Drawing::Lines(Lines { x, y, series });
        let chart = Chart::new(curve.title, curve.caption, drawing);
        Some(chart.choice(format!("batch {batch}")).first(place == batches.len() / 2))
    };
    places.into_iter().filter_map(chart).collect()
}

#[cfg(test)]
#[path = "view_test.rs"]
mod tests;
