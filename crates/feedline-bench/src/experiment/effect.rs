//! What a change along an axis does, in the geometric mean over all points that differ in it alone.

use crate::results::{Cell, Level};

/// The typical factor between two levels of an axis, over all points that differ in it alone.
pub(crate) fn effect(
    cells: &[Cell<'_>],
    axis: &str,
    low: &Level,
    high: &Level,
    contestant: &Level,
    key: &str,
) -> Option<f64> {
    let of = |level: &Level| -> Vec<&Cell<'_>> {
        let is_theirs = |cell: &&Cell<'_>| cell.point.get("contestants") == Some(contestant);
        let fits = |cell: &&Cell<'_>| cell.point.get(axis) == Some(level) && is_theirs(cell);
        cells.iter().filter(fits).collect()
    };
    let (lows, highs) = (of(low), of(high));
    let mut logs = Vec::new();
    for cell in lows {
        let same = |other: &&&Cell<'_>| {
            other.point.clone().without(axis) == cell.point.clone().without(axis)
        };
        let other = highs.iter().find(same).and_then(|it| it.median(key));
        if let (Some(a), Some(b)) = (cell.median(key), other)
            && a > 0.0
            && b > 0.0
        {
            logs.push((b / a).ln());
        }
    }
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// The typical factor between the rates of two loaders at otherwise equal points, and how many points those are.
pub(crate) fn against(cells: &[Cell<'_>], first: &Level, second: &Level) -> Option<(f64, usize)> {
    let of = |level: &Level| {
        cells
            .iter()
            .filter(move |cell| cell.point.get("contestants") == Some(level))
            .collect::<Vec<_>>()
    };
    let (ours, theirs) = (of(second), of(first));
    let logs: Vec<f64> = ours
        .iter()
        .filter_map(|cell| {
            let rest = cell.point.clone().without("contestants");
            let other = theirs.iter().find(|it| it.point.clone().without("contestants") == rest)?;
            Some((cell.median("rate")? / other.median("rate")?).ln())
        })
        .collect();
    (!logs.is_empty()).then(|| ((logs.iter().sum::<f64>() / logs.len() as f64).exp(), logs.len()))
}
