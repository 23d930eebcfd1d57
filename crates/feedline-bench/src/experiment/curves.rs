//! Charts that experiments draw of their points: lines along an axis, and bars side by side.

use super::Unit;
use crate::chart::{Bar, Bars, Chart, Drawing, Lines, Ruler, Series};
use crate::results::{Cell, Results};

/// What a chart shows of each point: the quantity, and how it is called and written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) key: &'a str,
    pub(crate) title: &'a str,
    pub(crate) label: &'a str,
    pub(crate) unit: Unit,
}

/// A line for each level of the axis `by`, through its points in the order of `x`, which also says where on
/// the ruler a point is.
pub(crate) fn lines(
    results: &Results,
    cells: &[&Cell<'_>],
    by: &str,
    key: &str,
    (x, place_of): (Ruler, impl Fn(&Cell<'_>) -> Option<f64>),
    y: Ruler,
) -> Drawing {
    let series = results.levels(by).into_iter().enumerate().map(|(colour, level)| {
        let of = cells.iter().filter(|cell| cell.point.get(by) == Some(&level));
        let points = of.filter_map(|cell| Some((place_of(cell)?, cell.median(key)?)));
        Series::measured(level.to_string(), colour, points.collect())
    });
    Drawing::Lines(Lines { x, y, series: series.collect() })
}

/// A bar of a group: its colour, its name and what was measured.
pub(crate) type NamedBar<'a> = (usize, String, &'a Cell<'a>);

/// Groups of bars, each with a line over the interval that holds the true median.
pub(crate) fn bars<'a>(
    shown: Shown<'_>,
    legend: Vec<(usize, String)>,
    groups: impl Iterator<Item = (String, Vec<NamedBar<'a>>)>,
) -> Chart {
    let Shown { key, title, label, unit } = shown;
    let groups = groups.map(|(name, bars)| {
        let bars = bars.into_iter().filter_map(|(colour, name, cell)| {
            let estimate = cell.estimate(key)?;
            let spread = estimate.interval.map(|it| (it.low, it.high));
            let tip = format!("{name}: {}", unit.text(estimate.value));
            Some(Bar { colour, value: estimate.value, spread, tip })
        });
        (name, bars.collect::<Vec<Bar>>())
    });
    let groups = groups.filter(|(_, bars)| !bars.is_empty()).collect();
    let drawing = Drawing::Bars(Bars { label: label.into(), unit, legend, groups, log: false });
    let caption =
        "Medians over the rounds, with lines over the interval that holds the true median.";
    Chart::new(title, caption, drawing)
}
