//! How rates grow with workers, judged: best number, knee, dip, and what limits.

use crate::results::{Cell, Results};

/// Differences below this share are taken for noise.
pub(crate) const NOISE: f64 = 0.02;

/// A worker that brings less than this share of a first worker's rate is hardly worth having.
pub(crate) const POOR_GAIN: f64 = 0.25;

/// The number of workers that is best, and its rate: the smallest number whose rate is within
/// [`NOISE`] of the highest.
pub(crate) fn best(rates: &[(u32, f64)]) -> Option<(u32, f64)> {
    let top = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    rates.iter().copied().find(|(_, rate)| *rate > 0.0 && *rate >= top * (1.0 - NOISE))
}

/// The number of workers beyond which each further one brings less than [`POOR_GAIN`] of what the first
/// did, on average up to the last that was measured. `None` if it always pays.
pub(crate) fn knee(rates: &[(u32, f64)]) -> Option<u32> {
    let with: Vec<(u32, f64)> = rates.iter().copied().filter(|(n, _)| *n > 0).collect();
    let (first, first_rate) = *with.first()?;
    let (last, last_rate) = *with.last()?;
    let worth = first_rate / f64::from(first) * POOR_GAIN;
    with.iter()
        .find(|(n, rate)| *n < last && (last_rate - rate) / f64::from(last - n) < worth)
        .map(|(n, _)| *n)
}

/// What keeps the best configuration from being faster, in words.
pub(crate) fn limit<'a>(
    cells: impl Iterator<Item = (u32, &'a Cell<'a>)>,
    results: &Results,
) -> Option<String> {
    let cells: Vec<(u32, &Cell<'_>)> = cells.collect();
    let rates: Vec<(u32, f64)> =
        cells.iter().filter_map(|(n, cell)| Some((*n, cell.median("rate")?))).collect();
    let (workers, rate) = best(&rates)?;
    let cell = cells.iter().find(|(n, _)| *n == workers)?.1;
    let cores = results.header.machine.cores.unwrap_or(1) as f64;
    let busy = cell.median("busy_cores").unwrap_or(0.0);
    if busy > 0.85 * cores {
        return Some(format!(
            "the processor; {busy:.1} of {cores} cores are busy with {workers} workers"
        ));
    }
    let fetching = cell.median("fetch_s")? * rate;
    let hands = f64::from(workers.max(1));
    if fetching > 0.8 * hands {
        return Some(format!(
            "the making of items; all {} {} at it {:.0} % of the time while {busy:.1} of {cores} cores \
             are busy, so more workers would bring more",
            workers.max(1),
            if workers > 1 { "workers are" } else { "hands are" },
            (fetching / hands * 100.0).min(100.0)
        ));
    }
    let start = cell.median("start_s").unwrap_or(0.0) + cell.median("end_s").unwrap_or(0.0);
    let seconds = cell.median("seconds")?;
    if start > 0.15 * seconds {
        return Some(format!(
            "starting and ending workers, {:.0} % of the time; keep them for several epochs",
            start / seconds * 100.0
        ));
    }
    Some(format!(
        "handing batches over and waiting for their turn; workers make items only {:.0} % of the time",
        (fetching / hands * 100.0).min(100.0)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: [f64; 9] =
        [88.55, 80.34, 146.84, 204.23, 243.19, 275.86, 309.32, 308.75, 331.83];

    fn rates(values: &[f64]) -> Vec<(u32, f64)> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn the_published_table_has_its_published_optimum_and_knee() {
        assert_eq!(best(&rates(&PUBLISHED)), Some((8, 331.83)));
        // "After 5-6 workers the improvement becomes minimal."
        assert!(matches!(knee(&rates(&PUBLISHED)), Some(5 | 6)));
    }

    #[test]
    fn linear_growth_has_no_knee_and_a_plateau_has_one() {
        assert_eq!(knee(&rates(&[10.0, 10.0, 20.0, 30.0, 40.0])), None);
        assert_eq!(knee(&rates(&[10.0, 10.0, 20.0, 20.1, 20.2])), Some(2));
        assert_eq!(best(&rates(&[10.0, 10.0, 20.0, 20.1, 20.2])), Some((2, 20.0)));
        assert_eq!(knee(&[]), None);
        assert_eq!(best(&[(3, 0.0)]), None);
    }
}
