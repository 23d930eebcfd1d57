//! Weighted without replacement: each draw by weight among the samples not drawn yet.
//!
//! Every sample gets an exponential arrival time with its weight as rate, and the first `samples`
//! arrivals are the epoch, in order of arrival. That is the same distribution as drawing one by one:
//! P. S. Efraimidis, P. G. Spirakis, "Weighted Random Sampling with a Reservoir", Inf. Process. Lett.
//! 97(5), 2006 (their keys `u^(1/w)` are these arrival times after `-ln`).

use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder};
use super::error::PlanError;
use super::key::{Key, Purpose, unit};
use super::weights;

pub(crate) struct WithoutReplacement {
    /// Relative to the largest, so that 4 bytes hold any magnitude.
    weights: Arc<[f32]>,
    samples: u64,
    positive: usize,
}

impl WithoutReplacement {
    pub(crate) fn new(n: u64, table: &[f64], samples: u64) -> Result<Self, PlanError> {
        let largest = weights::check_table(table, n, samples)?;
        let positive = table.iter().filter(|&&weight| weight > 0.0).count();
        if samples > positive as u64 {
            return Err(PlanError::TooManySamples { samples, positive: positive as u64 });
        }
        let relative = |&weight: &f64| match (weight / largest) as f32 {
            // A tiny weight is late, not excluded.
            relative if weight > 0.0 => relative.max(f32::MIN_POSITIVE),
            _ => 0.0,
        };
        Ok(Self { weights: table.iter().map(relative).collect(), samples, positive })
    }
}

impl CheckedOrder for WithoutReplacement {
    fn name(&self) -> &'static str {
        "weighted without replacement"
    }

    fn tables(&self) -> &'static str {
        "weights, or how many samples are drawn,"
    }

    fn positions(&self) -> u64 {
        self.samples
    }

    fn epoch(&self, seed: u64, epoch: u64) -> Arc<dyn Arrangement> {
        let race = Race { weights: &self.weights, key: Key::of(seed, Purpose::Race, epoch) };
        let drawn = race.first(self.samples as usize, self.positive);
        Arc::new(DrawnOrder { drawn, weights: self.weights.clone() })
    }

    fn table_bytes(&self) -> usize {
        size_of_val::<[f32]>(&self.weights)
    }
}

struct Race<'a> {
    weights: &'a [f32],
    key: Key,
}

impl Race<'_> {
    fn arrival(&self, sample: u32) -> f64 {
        let words = self.key.index(u64::from(sample / 4)).block(0);
        let exponential = -ln(1.0 - unit(words[sample as usize % 4]));
        exponential / f64::from(self.weights[sample as usize])
    }

    /// The first `samples` arrivals. While sorting, a runner is `{ arrival as f32, sample }` in 8
    /// bytes: rounding keeps the order, and where it makes two equal the exact times are computed again.
    fn first(&self, samples: usize, positive: usize) -> Box<[u32]> {
        let mut runners: Vec<u64> = Vec::with_capacity(positive);
        runners.extend((0..self.weights.len()).filter(|&i| self.weights[i] > 0.0).map(|i| {
            let rounded = self.arrival(i as u32) as f32;
            // Non-negative floats sort like their bits.
            u64::from(rounded.to_bits()) << 32 | i as u64
        }));
        let earlier = |x: &u64, y: &u64| {
            let exact = || self.arrival(*x as u32).total_cmp(&self.arrival(*y as u32));
            (x >> 32).cmp(&(y >> 32)).then_with(exact).then(x.cmp(y))
        };
        if samples < runners.len() {
            runners.select_nth_unstable_by(samples - 1, earlier);
            runners.truncate(samples);
        }
        runners.sort_unstable_by(earlier);
        runners.iter().map(|&runner| runner as u32).collect()
    }
}

struct DrawnOrder {
    drawn: Box<[u32]>,
    weights: Arc<[f32]>,
}

impl Arrangement for DrawnOrder {
    fn at(&self, position: u64) -> SampleIndex {
        SampleIndex(u64::from(self.drawn[position as usize]))
    }

    /// Looks through the weights, because the epoch may consist of one sample only.
    fn other_than(&self, failed: SampleIndex, start: u64, _: u64) -> Option<SampleIndex> {
        let count = self.weights.len() as u64;
        let start = start % count;
        let mut around = (start..count).chain(0..start);
        around.find(|&i| self.weights[i as usize] > 0.0 && i != failed.0).map(SampleIndex)
    }

    fn table_bytes(&self) -> usize {
        size_of_val::<[u32]>(&self.drawn)
    }
}

/// The natural logarithm of a number in `(0, 1]`, by operations that IEEE 754 defines to the last bit.
/// A platform's own `ln` may differ there, and with it the order of two close arrivals.
fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & MANTISSA | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh s, with |s| < 0.172: eleven terms leave less than the last bit.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..=11).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::ln;

    #[test]
    fn the_logarithm_agrees_with_the_platform() {
        for i in 1..=100_000u32 {
            let x = f64::from(i) / 100_000.0;
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * (1.0 + x.ln().abs()), "ln({x})");
        }
        assert_eq!(ln(1.0), 0.0);
        assert!((ln(2f64.powi(-53)) + 53.0 * std::f64::consts::LN_2).abs() < 1e-13);
    }
}
