//! What the report on `workers` shows.

use feedline_model::{Fit, fit_amdahl, fit_usl};

use crate::chart::{AxisKind, Chart, Drawing, Lines, Ruler, Series, Stroke};
use crate::experiment::loading::colour;
use crate::experiment::{Column, Tile, Unit, View, over_time, scaling};
use crate::forecast::Forecast;
use crate::results::{Cell, Point, Results};

/// One loader at one prefetch: its cells by number of workers.
struct Curve<'a> {
    name: String,
    colour: usize,
    cells: Vec<(u32, &'a Cell<'a>)>,
}

pub(in crate::experiment) fn view(results: &Results) -> View {
    let cells = results.cells();
    let curves = curves(results, &cells);
    let mut view = View {
        columns: vec![
            Column::new("items/s", "rate", Unit::Count).barred(),
            Column::new("time", "seconds", Unit::Seconds),
            Column::new("start", "start_s", Unit::Seconds),
            Column::new("first batch", "first_batch_s", Unit::Seconds),
            Column::new("fetch/item", "fetch_s", Unit::Seconds),
            Column::new("aggregate/batch", "collate_s", Unit::Seconds),
            Column::new("CPU", "cpu_s", Unit::Seconds),
            Column::new("PSS peak", "pss_peak_bytes", Unit::Bytes),
            Column::new("GPU busy", "gpu_busy", Unit::Share),
            Column::new("GPU memory", "gpu_memory_peak_bytes", Unit::Bytes),
            Column::new("switches", "switches", Unit::Count),
        ],
        ..View::default()
    };
    view.verdict.extend(against_each_other(&curves));
    for curve in &curves {
        view.verdict.extend(verdict(curve, results));
    }
    view.tiles = tiles(&curves);
    view.charts.push(throughput(&curves));
    view.charts.push(duration(&curves));
    view.charts.extend(over_time::waits(results, &chosen(&curves)));
    view.charts.extend(over_time::resources(&chosen(&curves)));
    let batch = results.header.settings.get("batch_size").and_then(serde_json::Value::as_u64);
    view.charts.extend(over_time::timelines(&cells, "contestants", batch.unwrap_or(1)));
    Forecast::show(&mut view, results);
    view
}

fn curves<'a>(results: &Results, cells: &'a [Cell<'a>]) -> Vec<Curve<'a>> {
    let prefetches = results.levels("prefetch");
    let mut curves = Vec::new();
    for contestant in results.levels("contestants") {
        for prefetch in &prefetches {
            let filter = Point::new()
                .with("contestants", contestant.clone())
                .with("prefetch", prefetch.clone());
            let fits = |cell: &&Cell<'_>| cell.point.clone().without("workers") == filter;
            let mut found: Vec<(u32, &Cell<'_>)> = cells
                .iter()
                .filter(fits)
                .filter_map(|cell| Some((cell.point.number("workers")? as u32, cell)))
                .collect();
            found.sort_by_key(|(workers, _)| *workers);
            let name = match prefetches.len() {
                1 => contestant.to_string(),
                _ => format!("{contestant}, prefetch {prefetch}"),
            };
            let colour = match prefetches.len() {
                1 => colour(&contestant.to_string()),
                _ => curves.len(),
            };
            if !found.is_empty() {
                curves.push(Curve { name, colour, cells: found });
            }
        }
    }
    curves
}

impl Curve<'_> {
    fn rates(&self) -> Vec<(u32, f64)> {
        self.cells.iter().filter_map(|(n, cell)| Some((*n, cell.median("rate")?))).collect()
    }

    fn rate(&self, workers: u32) -> Option<f64> {
        self.rates().into_iter().find(|(n, _)| *n == workers).map(|(_, rate)| rate)
    }

    fn fits(&self) -> (Option<Fit>, Option<Fit>) {
        let rates: Vec<(u32, f64)> = self.rates().into_iter().filter(|(n, _)| *n > 0).collect();
        // Rates are positive and workers at least 1, so an error cannot be; no fit is fine either way.
        (fit_amdahl(&rates).ok().flatten(), fit_usl(&rates).ok().flatten())
    }

    fn best(&self) -> Option<(u32, f64)> {
        scaling::best(&self.rates())
    }
}

/// Each loader where it is best, and where it has no workers.
fn chosen<'a>(curves: &'a [Curve<'a>]) -> Vec<(String, usize, &'a Cell<'a>)> {
    let at = |curve: &'a Curve<'a>, workers: u32| {
        let (_, cell) = curve.cells.iter().find(|(n, _)| *n == workers)?;
        let workers = crate::units::counted(f64::from(workers), "worker");
        Some((format!("{}, {workers}", curve.name), curve.colour, *cell))
    };
    curves.iter().filter_map(|curve| at(curve, curve.best()?.0)).collect()
}

fn verdict(curve: &Curve<'_>, results: &Results) -> Vec<String> {
    let rates = curve.rates();
    let Some((best, top)) = curve.best() else { return Vec::new() };
    let unit = &results.header.unit;
    let name = &curve.name;
    let mut sentences = Vec::new();
    let speedup = curve.rate(0).map(|alone| {
        format!(", {} times as fast as without workers", crate::units::digits(top / alone))
    });
    sentences.push(format!(
        "{name} is best with {best} workers: {} {unit}/s{}.",
        crate::units::count(top),
        speedup.unwrap_or_default()
    ));
    if let (Some(alone), Some((_, one))) =
        (curve.rate(0), curve.cells.iter().find(|(n, _)| *n == 1))
    {
        let one = one.median("rate").unwrap_or(alone);
        let change = one / alone - 1.0;
        sentences.push(if change < -scaling::NOISE {
            format!(
                "{name} dips: one worker is {:.0} % slower than none, because starting it and handing \
                 batches over costs more than it brings.",
                -change * 100.0
            )
        } else if change > scaling::NOISE {
            format!("{name} has no dip: one worker is {:.0} % faster than none.", change * 100.0)
        } else {
            format!("{name} has no dip: one worker is as fast as none.")
        });
    }
    sentences.push(match scaling::knee(&rates) {
        Some(knee) => {
            let plural = if knee == 1 { "" } else { "s" };
            format!(
                "Beyond {knee} worker{plural} {name} gains less than {:.0} % of a worker for each one \
                 added (the knee).",
            scaling::POOR_GAIN * 100.0
            )
        }
        None => format!("{name} has no knee up to {} workers.", rates.last().map_or(0, |it| it.0)),
    });
    if let Some(limit) = scaling::limit(curve.cells.iter().map(|(n, cell)| (*n, *cell)), results) {
        sentences.push(format!("What limits {name}: {limit}."));
    }
    sentences
}

fn against_each_other(curves: &[Curve<'_>]) -> Option<String> {
    let ours = curves.iter().find(|curve| curve.name == "feedline")?;
    let theirs = curves.iter().find(|curve| curve.name == "torch")?;
    let ((our_workers, our_best), (their_workers, their_best)) = (ours.best()?, theirs.best()?);
    Some(format!(
        "Best against best, feedline ({our_workers} workers) is {} times as fast as torch ({their_workers} \
         workers).",
        crate::units::digits(our_best / their_best)
    ))
}

fn tiles(curves: &[Curve<'_>]) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for curve in curves {
        let Some((best, top)) = curve.best() else { continue };
        let name = &curve.name;
        tiles.push(Tile::new(
            format!("{}/s", crate::units::count(top)),
            format!("{name}, best ({best} workers)"),
        ));
        if let (Some(none), Some(one)) = (curve.rate(0), curve.rate(1)) {
            // Adding zero turns the -0 of a tiny loss into 0.
            let change = ((one / none - 1.0) * 100.0).round() + 0.0;
            tiles.push(Tile::new(
                format!("{change:+.0} %"),
                format!("{name}: one worker against none"),
            ));
        }
    }
    tiles
}

fn throughput(curves: &[Curve<'_>]) -> Chart {
    let mut series = Vec::new();
    let fastest = curves.iter().filter_map(|curve| curve.rate(0)).fold(0.0, f64::max);
    let last = curves.iter().flat_map(|curve| curve.rates()).map(|(n, _)| n).max().unwrap_or(1);
    if fastest > 0.0 {
        let points = (1..=last).map(|n| (f64::from(n), fastest * f64::from(n))).collect();
        series.push(Series::measured("ideal: n times none", 7, points).stroke(Stroke::Ideal));
    }
    for curve in curves {
        let quartiles = |cell: &Cell<'_>| {
            cell.summary("rate").map_or((0.0, 0.0), |it| (it.lower_quartile, it.upper_quartile))
        };
        let points = curve.rates().iter().map(|(n, rate)| (f64::from(*n), *rate)).collect();
        let spread = curve.cells.iter().map(|(_, cell)| quartiles(cell)).collect();
        series.push(Series::measured(curve.name.clone(), curve.colour, points).spread(spread));
    }
    for curve in curves {
        let (amdahl, usl) = curve.fits();
        let line = |fit: Fit| -> Vec<(f64, f64)> {
            (1..=last).filter_map(|n| Some((f64::from(n), fit.rate(n).ok()?))).collect()
        };
        if let Some(fit) = amdahl {
            let name =
                format!("{}: Amdahl, {:.1} % serial", curve.name, fit.law.contention() * 100.0);
            series.push(Series::measured(name, curve.colour, line(fit)).stroke(Stroke::Fitted));
        }
        if let Some(fit) = usl {
            let name = format!("{}: USL", curve.name);
            series.push(Series::measured(name, curve.colour, line(fit)).stroke(Stroke::Dotted));
        }
    }
    let x = Ruler::new(AxisKind::Linear, "workers", Unit::Plain);
    let y = Ruler::new(AxisKind::Linear, "items per second", Unit::Count);
    let caption = "Throughput against workers: medians, bands between the quartiles. The grey line is n \
                   times the rate without workers; dashed and dotted are Amdahl's law and the universal \
                   scalability law, fitted from one worker on.";
    Chart::new("Throughput against workers", caption, Drawing::Lines(Lines { x, y, series }))
}

fn duration(curves: &[Curve<'_>]) -> Chart {
    let series = curves.iter().map(|curve| {
        let times = curve.cells.iter();
        let points =
            times.filter_map(|(n, cell)| Some((f64::from(*n), cell.median("seconds")?))).collect();
        Series::measured(curve.name.clone(), curve.colour, points)
    });
    let x = Ruler::new(AxisKind::Linear, "workers", Unit::Plain);
    let y = Ruler::new(AxisKind::Linear, "seconds for all batches", Unit::Plain);
    let series = series.collect();
    let caption = "Time for all batches, from asking for an iterator to its end: lower is better.";
    Chart::new("Time against workers", caption, Drawing::Lines(Lines { x, y, series }))
}
