//! A quantity over time in bounded memory: when the series is full, every second point goes.

use serde::Serialize;

/// One point of a series.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeriesPoint {
    /// When, in nanoseconds since the loader was built.
    pub at_ns: u64,
    /// How many.
    pub value: u64,
}

/// How many points are kept.
const POINTS: usize = 512;

/// A thinned-out record of a quantity over time.
#[derive(Debug)]
pub(crate) struct TimeSeries {
    points: Vec<SeriesPoint>,
    every: u64,
    seen: u64,
}

impl TimeSeries {
    pub(crate) fn new() -> TimeSeries {
        TimeSeries { points: Vec::with_capacity(POINTS), every: 1, seen: 0 }
    }

    pub(crate) fn push(&mut self, at_ns: u64, value: u64) {
        if self.seen.is_multiple_of(self.every) {
            if self.points.len() == POINTS {
                let mut keep = false;
                self.points.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.points.push(SeriesPoint { at_ns, value });
            }
        }
        self.seen += 1;
    }

    pub(crate) fn points(&self) -> &[SeriesPoint] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_ends_and_even_spacing() {
        let mut series = TimeSeries::new();
        for i in 0..100_000 {
            series.push(i, i);
        }
        let points = series.points();
        assert!((POINTS / 2..=POINTS).contains(&points.len()), "{}", points.len());
        assert_eq!(points[0].at_ns, 0);
        let gap = points[1].at_ns;
        assert!(points.windows(2).all(|w| w[1].at_ns - w[0].at_ns == gap));
        assert!(points[points.len() - 1].at_ns + gap >= 100_000);
    }
}
