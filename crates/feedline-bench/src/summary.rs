//! Medians, spread and intervals, as pure functions.
//!
//! | figure | formula |
//! | --- | --- |
//! | median, quartiles | linear interpolation between order statistics at `q * (n - 1)` |
//! | spread | `(upper quartile - lower quartile) / median` |
//! | paired ratio | median over rounds of `value of the side / value of the baseline` in the same round |
//! | interval | order statistics `k` and `n + 1 - k`, with the largest `k` whose coverage `1 - 2 P(B < k)`, `B ~ Binomial(n, 1/2)`, is at least 95 % |
//!
//! Ratios are taken within a round, so a disturbance that lasts longer than a round cancels out. The
//! interval needs no assumption about the distribution. With fewer than six rounds no interval reaches
//! 95 %; the whole range is given then, with the coverage it really has.

use serde::{Deserialize, Serialize};

/// The coverage that intervals aim at.
pub const CONFIDENCE: f64 = 0.95;

/// Several measurements of one quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many measurements.
    pub count: usize,
    /// Half of them are at most this.
    pub median: f64,
    /// A quarter of them are at most this.
    pub lower_quartile: f64,
    /// Three quarters of them are at most this.
    pub upper_quartile: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Summarises values; those that are not finite are left out. `None` if nothing is left.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        Some(Self {
            count: sorted.len(),
            median: quantile(&sorted, 0.5)?,
            lower_quartile: quantile(&sorted, 0.25)?,
            upper_quartile: quantile(&sorted, 0.75)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
        })
    }

    /// `(upper quartile - lower quartile) / median`: 0.1 says that the middle half of the runs lies
    /// within 10 % of the median's size. `None` for a single run or a median of zero.
    pub fn spread(&self) -> Option<f64> {
        let width = self.upper_quartile - self.lower_quartile;
        (self.count > 1 && self.median != 0.0).then(|| width / self.median.abs())
    }
}

/// A median and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// Where the true median lies; `None` for a single value.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// The median of values, with its interval. `None` if no value is finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        let value = quantile(&sorted(values), 0.5)?;
        Some(Self { value, interval: median_interval(values, CONFIDENCE) })
    }
}

/// A range that holds the true median with a known probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that such a range holds the true median.
    pub coverage: f64,
}

/// The value below which a share `q` of the sorted values lies. `None` without values.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

/// An interval for the median by order statistics, with at least the given confidence if there are
/// enough values, else the whole range with the coverage that it has. `None` for fewer than two.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let sorted = sorted(values);
    let count = sorted.len();
    if count < 2 {
        return None;
    }
    let mut best = (0, coverage(count, 1));
    for k in 2..=count.div_ceil(2) {
        let coverage = coverage(count, k);
        if coverage < confidence {
            break;
        }
        best = (k - 1, coverage);
    }
    let (low, coverage) = best;
    Some(Interval { low: sorted[low], high: sorted[count - 1 - low], coverage })
}

/// `1 - 2 P(B < k)` for `B ~ Binomial(n, 1/2)`. In logarithms: `2^-n` alone is zero beyond n = 1074.
fn coverage(n: usize, k: usize) -> f64 {
    let n = n as f64;
    let mut log_choose = 0.0;
    let mut tail = 0.0;
    for i in 0..k {
        let i = i as f64;
        tail += (log_choose - n * std::f64::consts::LN_2).exp();
        log_choose += (n - i).ln() - (i + 1.0).ln();
    }
    1.0 - 2.0 * tail
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * a.abs().max(b.abs()).max(1.0)
    }

    /// A few hundred small lists, from a fixed multiplicative generator.
    fn lists() -> impl Iterator<Item = Vec<f64>> {
        let mut state = 12345u64;
        (1..200).map(move |i| {
            let length = 1 + i % 13;
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 40) as f64 / 1000.0
            };
            (0..length).map(|_| next()).collect()
        })
    }

    #[test]
    fn median_splits_the_values_in_half() {
        for list in lists() {
            let median = Summary::of(&list).unwrap().median;
            let below = list.iter().filter(|value| **value < median).count();
            let above = list.iter().filter(|value| **value > median).count();
            assert!(below * 2 <= list.len() && above * 2 <= list.len(), "{list:?}: {median}");
        }
        assert_eq!(Summary::of(&[4.0, 1.0]).unwrap().median, 2.5);
    }

    #[test]
    fn quartiles_are_those_of_the_textbook() {
        // R: quantile(c(1, 2, 4, 8, 16, 32), c(.25, .75)) gives 2.5 and 14.
        let summary = Summary::of(&[32.0, 1.0, 16.0, 2.0, 8.0, 4.0]).unwrap();
        assert_eq!((summary.lower_quartile, summary.upper_quartile), (2.5, 14.0));
        assert!(close(summary.spread().unwrap(), 11.5 / 6.0));
        assert_eq!((summary.min, summary.max, summary.count), (1.0, 32.0, 6));
    }

    #[test]
    fn one_value_has_no_spread_and_no_interval() {
        assert_eq!(Summary::of(&[3.0]).unwrap().spread(), None);
        assert_eq!(Estimate::of(&[3.0]), Some(Estimate { value: 3.0, interval: None }));
    }

    #[test]
    fn values_that_are_not_finite_are_left_out() {
        assert_eq!(Summary::of(&[f64::NAN, 1.0, f64::INFINITY]).unwrap().count, 1);
        assert_eq!(Summary::of(&[f64::NAN]), None);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Estimate::of(&[]), None);
    }

    /// Each of the 2^n patterns of "this run was below the true median" is equally likely. Order
    /// statistics k and n + 1 - k enclose it when at least k runs are below and at least k above.
    fn coverage_by_enumeration(n: usize, k: usize) -> f64 {
        let enclosing = (0..1u32 << n)
            .filter(|pattern| {
                let below = pattern.count_ones() as usize;
                below >= k && n - below >= k
            })
            .count();
        enclosing as f64 / f64::from(1u32 << n)
    }

    #[test]
    fn coverage_is_that_of_all_equally_likely_patterns() {
        for n in 2..=16 {
            for k in 1..=n / 2 {
                let (formula, counted) = (coverage(n, k), coverage_by_enumeration(n, k));
                assert!(close(formula, counted), "n = {n}, k = {k}: {formula} and {counted}");
            }
        }
    }

    #[test]
    fn interval_is_the_narrowest_that_keeps_the_confidence() {
        for n in 2..=16usize {
            let values: Vec<f64> = (1..=n).map(|value| value as f64).collect();
            let interval = median_interval(&values, CONFIDENCE).unwrap();
            let k = (1..=n / 2).filter(|k| coverage_by_enumeration(n, *k) >= CONFIDENCE).max();
            let k = k.unwrap_or(1);
            assert_eq!((interval.low, interval.high), (k as f64, (n + 1 - k) as f64), "n = {n}");
            assert!(close(interval.coverage, coverage_by_enumeration(n, k)), "n = {n}");
        }
    }

    #[test]
    fn thousands_of_rounds_keep_a_sound_interval() {
        let values: Vec<f64> = (1..=4001).map(f64::from).collect();
        let interval = median_interval(&values, CONFIDENCE).unwrap();
        // Normal approximation: 2001 -/+ 1.96 * sqrt(4001) / 2 = 1939, 2063.
        assert!((1937.0..=1940.0).contains(&interval.low), "{interval:?}");
        assert_eq!(interval.low + interval.high, 4002.0);
        assert!((0.95..0.952).contains(&interval.coverage), "{interval:?}");
    }
}
