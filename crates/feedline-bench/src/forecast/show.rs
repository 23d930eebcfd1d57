//! The model's part of a report: columns, charts, sentences.

use feedline_model::predict::Setting;

use super::{Forecast, Foretold, LoaderGroup};
use crate::chart::{AxisKind, Chart, Drawing, Lines, Ruler, Series, Stroke};
use crate::experiment::{Column, Unit, View};
use crate::results::Results;
use crate::units;

impl Forecast {
    /// Adds predictions and their errors to what a report shows.
    pub fn show(view: &mut View, results: &Results) {
        let forecast = Forecast::of(results);
        view.columns.extend(forecast.columns(&results.header.unit));
        let charts = forecast.groups.iter().flat_map(|group| charts(group, &results.header.unit));
        // After the first one, which shows what was measured.
        let place = view.charts.len().min(1);
        view.charts.splice(place..place, charts);
        view.verdict.extend(forecast.groups.iter().filter_map(sentence));
        view.forecast = Some(forecast);
    }

    fn columns(&self, unit: &str) -> Vec<Column> {
        let points = || self.groups.iter().flat_map(|group| &group.points);
        let column = |label: String, unit: Unit, of: fn(&Foretold) -> f64| {
            let values = points().map(|it| (it.point.clone(), of(it))).collect();
            Column::worked_out(label, unit, values)
        };
        let used = |it: &Foretold| if it.held_out { "held out" } else { "calibrates" };
        vec![
            column(format!("predicted {unit}/s"), Unit::Count, |it| {
                it.prediction.samples_per_second
            }),
            column("error".into(), Unit::Change, Foretold::rate_error),
            column("waiting".into(), Unit::Share, |it| it.observation.waiting_share()),
            column("predicted waiting".into(), Unit::Share, |it| it.prediction.waiting_share),
            column("predicted memory".into(), Unit::Bytes, |it| it.prediction.memory_bytes as f64),
            Column::said("model", points().map(|it| (it.point.clone(), used(it).into())).collect()),
        ]
    }
}

/// Measured and predicted along the workers, a chart for each step or task and a colour for each batch size.
fn charts(group: &LoaderGroup, unit: &str) -> Vec<Chart> {
    let parts = parts(group);
    let rates = parts.iter().map(|(name, points)| {
        let y = Ruler::new(AxisKind::Linear, format!("{unit} per second"), Unit::Count);
        let caption = "Dots are measured, dashed lines predicted. The model was calibrated with the few points \
                       that the table marks; it had not seen the others.";
        let drawing =
            lines(group, points, y, |it| it.observation.rate(), |it| it.samples_per_second);
        Chart::new("Throughput, measured and predicted", caption, drawing).choice(name)
    });
    let waits = parts.iter().map(|(name, points)| {
        let y = Ruler::new(AxisKind::Linear, "share of time", Unit::Share);
        let caption = "The share of its time that the loop waits for batches: dots are measured, dashed lines \
                       predicted.";
        let drawing =
            lines(group, points, y, |it| it.observation.waiting_share(), |it| it.waiting_share);
        Chart::new("Waiting, measured and predicted", caption, drawing).choice(name)
    });
    rates.chain(waits).collect()
}

/// The points of a group by what is done with a batch: by task, where there are tasks, whose steps take a little
/// longer or shorter at every point; otherwise by step.
fn parts(group: &LoaderGroup) -> Vec<(String, Vec<&Foretold>)> {
    let mut parts: Vec<(String, Vec<&Foretold>)> = Vec::new();
    let mut points: Vec<&Foretold> = group.points.iter().collect();
    if points.iter().all(|it| it.point.get("task").is_none()) {
        points.sort_by(|a, b| a.observation.step_s.total_cmp(&b.observation.step_s));
    }
    for it in points {
        let step = it.observation.step_s;
        let name = match it.point.get("task") {
            Some(task) => format!("{}, {task}", group.name),
            None if step > 0.0 => format!("{}, step {}", group.name, units::time(step)),
            None => group.name.clone(),
        };
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(it),
            None => parts.push((name, vec![it])),
        }
    }
    parts
}

fn lines(
    group: &LoaderGroup,
    own: &[&Foretold],
    y: Ruler,
    measured: fn(&Foretold) -> f64,
    predicted: fn(&feedline_model::predict::Prediction) -> f64,
) -> Drawing {
    let mut kinds: Vec<(u32, u32)> =
        own.iter().map(|it| (it.observation.batch_size, it.observation.prefetch)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut series = Vec::new();
    for (colour, (batch, prefetch)) in kinds.iter().enumerate() {
        let mut along: Vec<&&Foretold> = own
            .iter()
            .filter(|it| {
                (it.observation.batch_size, it.observation.prefetch) == (*batch, *prefetch)
            })
            .collect();
        along.sort_by_key(|it| it.observation.workers);
        let place = |it: &Foretold| f64::from(it.observation.workers);
        let dots = along.iter().map(|it| (place(it), measured(it))).collect();
        series.push(Series::measured(format!("batch {batch}"), colour, dots));
        // Through every number of workers, not only those that were measured.
        let Some(last) = along.last() else { continue };
        // Runs with more workers may have more batches, and another step: those of the next that was measured.
        let setting = |workers: u32| {
            let next = along.iter().find(|it| it.observation.workers >= workers).unwrap_or(last);
            Setting { workers, ..next.observation.setting() }
        };
        let first = along.first().map_or(1, |it| it.observation.workers);
        let line = (first..=last.observation.workers).filter_map(|workers| {
            Some((f64::from(workers), predicted(&group.predict(&setting(workers)).ok()?)))
        });
        let name = format!("batch {batch}: predicted");
        series.push(Series::measured(name, colour, line.collect()).stroke(Stroke::Fitted));
    }
    let x = Ruler::new(AxisKind::Linear, "workers", Unit::Plain);
    Drawing::Lines(Lines { x, y, series })
}

fn sentence(group: &LoaderGroup) -> Option<String> {
    let accuracy = group.accuracy()?;
    let used = group.points.iter().filter(|it| !it.held_out).count();
    Some(format!(
        "The model of {}, calibrated with {}, predicts the rate at the {} others where the loop waits within \
         {:.1} % on average ({:.1} % at worst), and the share of waiting within {:.1} percentage points.",
        group.name,
        units::counted(used as f64, "point"),
        accuracy.points,
        accuracy.rate_mean * 100.0,
        accuracy.rate_worst * 100.0,
        accuracy.waiting_mean * 100.0
    ))
}
