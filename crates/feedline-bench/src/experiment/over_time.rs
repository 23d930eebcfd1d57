//! Charts that several experiments share: waits per batch, resources over time, who worked when.

use crate::Moment;
use crate::chart::{AxisKind, Chart, Drawing, Lines, Ruler, Series, Stroke, Timeline};
use crate::experiment::Unit;
use crate::results::{Cell, Results};
use crate::units;

/// Cells with a name and a colour for the legend.
pub(crate) type Named<'a> = (String, usize, &'a Cell<'a>);

/// How long the consumer waited for the first, second, third … batch.
pub(crate) fn waits(results: &Results, cells: &[Named<'_>]) -> Option<Chart> {
    const SHOWN: usize = 24;
    let series: Vec<Series> = cells
        .iter()
        .map(|(name, colour, cell)| {
            let waits = cell.waits_s().into_iter().take(SHOWN).enumerate();
            // A batch that is there at once has no place on a logarithmic axis; a microsecond is as good.
            let points = waits.map(|(batch, wait)| (batch as f64 + 1.0, wait.max(1e-6))).collect();
            Series::measured(name.clone(), *colour, points)
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    if series.is_empty() {
        return None;
    }
    let x = Ruler::new(AxisKind::Steps, "batch", Unit::Plain);
    let y = Ruler::new(AxisKind::Log, "wait", Unit::Seconds);
    let caption = format!(
        "How long the consumer waited for the first, second, third … batch, median of {}. The first \
         wait is the time until training can begin.",
        units::counted(results.header.rounds.into(), "round")
    );
    Some(Chart::new("Wait for each batch", caption, Drawing::Lines(Lines { x, y, series })))
}

/// A quantity of the process tree or the machine that is drawn over time.
struct PlottedQuantity {
    title: &'static str,
    caption: &'static str,
    label: &'static str,
    unit: Unit,
    of: fn(&Moment) -> Option<f64>,
}

const QUANTITIES: [PlottedQuantity; 4] = [
    PlottedQuantity {
        title: "CPU over time",
        caption: "Cores that the process tree of each side kept busy, in the first round.",
        label: "busy cores",
        unit: Unit::Plain,
        of: |it| Some(it.cores),
    },
    PlottedQuantity {
        title: "Memory over time",
        caption: "Memory of the process tree (PSS: shared pages are counted once), in the first round. It \
                  includes the interpreter and its libraries.",
        label: "proportional set size",
        unit: Unit::Bytes,
        of: |it| Some(it.pss_bytes as f64),
    },
    PlottedQuantity {
        title: "GPU over time",
        caption: "The share of time that the machine's GPUs were busy (NVML; mean over devices), in the first \
                  round.",
        label: "busy",
        unit: Unit::Share,
        of: |it| Some(it.gpu?.busy),
    },
    PlottedQuantity {
        title: "GPU memory over time",
        caption: "Memory in use on the machine's GPUs (NVML; sum over devices), in the first round.",
        label: "memory in use",
        unit: Unit::Bytes,
        of: |it| Some(it.gpu?.memory_bytes as f64),
    },
];

/// Busy cores, memory and, where there are some, GPUs over time.
pub(crate) fn resources(cells: &[Named<'_>]) -> Vec<Chart> {
    let chart = |quantity: &PlottedQuantity| {
        let series: Vec<Series> = cells
            .iter()
            .filter_map(|(name, colour, cell)| {
                let run = cell.runs.iter().find(|run| run.moments.len() > 1)?;
                let points =
                    run.moments.iter().filter_map(|it| Some((it.at_s, (quantity.of)(it)?)));
                let series = Series::measured(name.clone(), *colour, points.collect());
                (series.points.len() > 1).then(|| series.stroke(Stroke::Solid))
            })
            .collect();
        if series.is_empty() {
            return None;
        }
        let x = Ruler::new(AxisKind::Linear, "seconds", Unit::Plain);
        let y = Ruler::new(AxisKind::Linear, quantity.label, quantity.unit);
        let drawing = Drawing::Lines(Lines { x, y, series });
        Some(Chart::new(quantity.title, quantity.caption, drawing))
    };
    QUANTITIES.iter().filter_map(chart).collect()
}

/// Who worked on which sample, for every cell that was traced: a heading for each level of `by`, and
/// among its cells the one with about four workers first.
pub(crate) fn timelines(cells: &[Cell<'_>], by: &str, batch_size: u64) -> Vec<Chart> {
    const FIRST_WORKERS: f64 = 4.0;
    let mut charts: Vec<Chart> = Vec::new();
    let mut nearest: Vec<(String, f64, usize)> = Vec::new();
    for cell in cells {
        let Some(run) = cell.runs.iter().find(|run| !run.trace.is_empty()) else { continue };
        let mut arrivals_s = Vec::new();
        let mut now = run.figures.get("start_s").copied().unwrap_or(0.0);
        let step = run.figures.get("step_s").copied().unwrap_or(0.0);
        for wait in &run.waits_s {
            now += wait;
            arrivals_s.push(now);
            now += step;
        }
        let stretches = run.trace.clone();
        let drawing = Drawing::Timeline(Timeline { stretches, batch_size, arrivals_s });
        let caption = "A row for each worker, a box for each sample, a colour for each batch; the numbered lines \
                       say when a batch reached the consumer.";
        let levels = cell.point.levels().filter(|(axis, _)| *axis != by).map(|(axis, level)| {
            if level.number().is_some() { format!("{axis} {level}") } else { level.to_string() }
        });
        let choice = levels.collect::<Vec<_>>().join(", ");
        let who = cell.point.text(by);
        let distance = (cell.point.number("workers").unwrap_or(0.0) - FIRST_WORKERS).abs();
        match nearest.iter_mut().find(|(it, ..)| *it == who) {
            Some(found) if distance < found.1 => *found = (who.clone(), distance, charts.len()),
            Some(_) => {}
            None => nearest.push((who.clone(), distance, charts.len())),
        }
        let title = format!("Who worked on which sample: {who}");
        charts.push(Chart::new(title, caption, drawing).choice(choice));
    }
    for (_, _, place) in nearest {
        charts[place].is_first = true;
    }
    charts
}
