//! Charts that several experiments share: waits per batch, resources over time, who worked when.

use crate::chart::{AxisKind, Chart, Drawing, Lines, Ruler, Series, Stroke, Timeline};
use crate::experiment::Unit;
use crate::results::{Cell, Results};

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
        "How long the consumer waited for the first, second, third … batch, median of {} rounds. The first \
         wait is the time until training can begin.",
        results.header.rounds
    );
    Some(Chart::new("Wait for each batch", caption, Drawing::Lines(Lines { x, y, series })))
}

/// Busy cores and memory over time.
pub(crate) fn resources(cells: &[Named<'_>]) -> Vec<Chart> {
    let lines = |of: fn(&crate::Moment) -> f64| -> Vec<Series> {
        cells
            .iter()
            .filter_map(|(name, colour, cell)| {
                let run = cell.runs.iter().find(|run| run.moments.len() > 1)?;
                let points = run.moments.iter().map(|it| (it.at_s, of(it))).collect();
                Some(Series::measured(name.clone(), *colour, points).stroke(Stroke::Solid))
            })
            .collect()
    };
    let x = || Ruler::new(AxisKind::Linear, "seconds", Unit::Plain);
    let (cores, memory) = (lines(|it| it.cores), lines(|it| it.pss_bytes as f64));
    let mut charts = Vec::new();
    if !cores.is_empty() {
        let y = Ruler::new(AxisKind::Linear, "busy cores", Unit::Plain);
        let caption = "Cores that the process tree of each loader kept busy, in the first round.";
        let drawing = Drawing::Lines(Lines { x: x(), y, series: cores });
        charts.push(Chart::new("CPU over time", caption, drawing));
    }
    if !memory.is_empty() {
        let y = Ruler::new(AxisKind::Linear, "proportional set size", Unit::Bytes);
        let caption = "Memory of the process tree (PSS: shared pages are counted once), in the first round. It \
                       includes the interpreter and its libraries.";
        let drawing = Drawing::Lines(Lines { x: x(), y, series: memory });
        charts.push(Chart::new("Memory over time", caption, drawing));
    }
    charts
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
