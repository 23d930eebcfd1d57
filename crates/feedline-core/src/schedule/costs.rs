//! What samples cost: learned as exponential moving averages.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An exponential moving average; its first value is taken whole.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Ema {
    share: f64,
    value: Option<f64>,
}

impl Ema {
    /// `share` is the weight of the newest value, between 0 and 1.
    pub(crate) fn new(share: f64) -> Ema {
        Ema { share, value: None }
    }

    pub(crate) fn learn(&mut self, value: f64) {
        self.value = Some(match self.value {
            None => value,
            Some(old) => old + self.share * (value - old),
        });
    }

    /// The average, 0 before the first value.
    pub(crate) fn value(&self) -> f64 {
        self.value.unwrap_or(0.0)
    }
}

/// The weight of the newest measurement.
const SHARE: f64 = 0.25;
/// Datasets up to this size get an average per sample (4 bytes each); above it the hint and the
/// common pace have to do.
const TABLE_LIMIT: u64 = 1 << 26;

/// Expected costs of samples, in nanoseconds.
///
/// Concurrent learners may overwrite each other's update of one number; an average that misses one
/// of two simultaneous measurements is still an average. All accesses are Relaxed for that reason.
#[derive(Debug)]
pub(crate) struct Costs {
    /// f32 bits of nanoseconds per sample; 0 where nothing is known. Empty when not wanted.
    per_sample: Vec<AtomicU32>,
    /// f64 bits: average nanoseconds per sample of the dataset.
    mean_ns: AtomicU64,
    /// f64 bits: average nanoseconds per unit of hint.
    ns_per_hint: AtomicU64,
}

impl Costs {
    pub(crate) fn new(samples: u64, per_sample: bool) -> Costs {
        let table = if per_sample && samples <= TABLE_LIMIT { samples as usize } else { 0 };
        Costs {
            per_sample: (0..table).map(|_| AtomicU32::new(0)).collect(),
            mean_ns: AtomicU64::new(0),
            ns_per_hint: AtomicU64::new(0),
        }
    }

    /// What one sample is expected to cost; 0 when nothing is known. `hint` is asked only if it has
    /// not been measured.
    pub(crate) fn expect(&self, sample: u64, hint: impl FnOnce() -> Option<u64>) -> f64 {
        if let Some(cell) = self.per_sample.get(sample as usize) {
            let known = f32::from_bits(cell.load(Ordering::Relaxed));
            if known > 0.0 {
                return f64::from(known);
            }
        }
        match hint() {
            // Before the first measurement the hint's own unit orders samples among themselves.
            Some(hint) => hint as f64 * f64_or(&self.ns_per_hint, 1.0),
            None => self.mean_ns(),
        }
    }

    /// Learns what one sample took.
    pub(crate) fn learn(&self, sample: u64, ns: u64, hint: impl FnOnce() -> Option<u64>) {
        self.learn_mean(ns as f64);
        if let Some(cell) = self.per_sample.get(sample as usize) {
            let old = f64::from(f32::from_bits(cell.load(Ordering::Relaxed)));
            let new = if old > 0.0 { old + SHARE * (ns as f64 - old) } else { ns as f64 };
            cell.store((new.max(1.0) as f32).to_bits(), Ordering::Relaxed);
            if let Some(hint) = hint().filter(|hint| *hint > 0) {
                learn(&self.ns_per_hint, ns as f64 / hint as f64);
            }
        }
    }

    /// Learns the pace of a group of samples.
    pub(crate) fn learn_mean(&self, ns_per_sample: f64) {
        learn(&self.mean_ns, ns_per_sample);
    }

    /// The average cost of a sample; 0 when nothing is known.
    pub(crate) fn mean_ns(&self) -> f64 {
        f64_or(&self.mean_ns, 0.0)
    }
}

fn f64_or(cell: &AtomicU64, otherwise: f64) -> f64 {
    let value = f64::from_bits(cell.load(Ordering::Relaxed));
    if value > 0.0 { value } else { otherwise }
}

fn learn(cell: &AtomicU64, value: f64) {
    let old = f64::from_bits(cell.load(Ordering::Relaxed));
    let new = if old > 0.0 { old + SHARE * (value - old) } else { value };
    cell.store(new.max(f64::MIN_POSITIVE).to_bits(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_sample_is_expected_to_cost_its_moving_average() {
        let costs = Costs::new(10, true);
        assert_eq!(costs.expect(3, || None), 0.0, "nothing is known yet");
        costs.learn(3, 1000, || None);
        assert_eq!(costs.expect(3, || unreachable!("measured")), 1000.0);
        costs.learn(3, 2000, || None);
        assert_eq!(costs.expect(3, || None), 1250.0);
        assert_eq!(costs.expect(4, || None), 1250.0, "others are expected at the common pace");
    }

    #[test]
    fn hints_order_samples_before_and_scale_after_the_first_measurement() {
        let costs = Costs::new(10, true);
        assert!(costs.expect(0, || Some(10)) < costs.expect(1, || Some(20)));
        costs.learn(0, 5000, || Some(10));
        assert_eq!(costs.expect(1, || Some(20)), 10_000.0);
    }

    #[test]
    fn a_huge_dataset_has_no_table() {
        let costs = Costs::new(u64::MAX, true);
        assert!(costs.per_sample.is_empty());
        costs.learn(u64::MAX - 1, 7, || None);
        assert_eq!(costs.expect(0, || None), 7.0);
    }
}
