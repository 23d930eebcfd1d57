//! Everything that was measured, as plain data.

use std::sync::Arc;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::control::ControlStats;
use crate::flow::MemoryStats;
use crate::schedule::Steals;
use crate::work::Stage;

use super::consumption::{BatchTimes, RECENT};
use super::series::{SeriesPoint, TimeSeries};

/// What a loader has done so far and where the time went.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Nanoseconds since the first epoch was begun.
    pub elapsed_ns: u64,
    /// Batches delivered.
    pub batches: u64,
    /// Samples delivered.
    pub samples: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Samples that could not be made.
    pub errors: u64,
    /// Worker threads that were replaced because a sample exceeded its time limit.
    pub lost_workers: u64,
    /// The consumer's side.
    pub consumer: ConsumerStats,
    /// Each worker.
    pub workers: Vec<WorkerStats>,
    /// Each stage, over all workers.
    pub stages: Vec<StageStats>,
    /// Sums over all batches of the stretches of their way.
    pub batch_parts: BatchTimes,
    /// The same for each of the last batches delivered (at most 256, in no particular order).
    pub recent_batches: Vec<BatchTimes>,
    /// Finished batches that waited when one was taken, over time.
    pub occupancy: Vec<SeriesPoint>,
    /// Load-imbalance factor: `max / mean` of the workers' busy time. 1 is perfect balance.
    pub imbalance: f64,
    /// `total work / (max worker time x workers)`. 1 is perfect; its inverse is `imbalance`.
    pub efficiency: f64,
    /// Steals tried and won, and their cost.
    pub steals: Steals,
    /// Bytes of batches, by state.
    pub memory: MemoryStats,
    /// How much of padded fields is padding.
    pub padded: PaddedStats,
    /// How many batches may be begun ahead, at present: small ones that cost little go in bunches.
    pub prefetch: usize,
    /// What the controller did, where there is one.
    pub control: Option<ControlStats>,
    /// How many wait now.
    pub ready: usize,
    /// Whether samples come from an iterator, one after the other.
    #[serde(skip)]
    pub(crate) is_iterated: bool,
}

/// Values of different length in fields that are padded, over all batches that were put together.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PaddedStats {
    /// Elements that were padded.
    pub values: u64,
    /// Places that there are for them: the rest is padding.
    pub places: u64,
}

impl PaddedStats {
    /// How much of all places is padding, from 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        match self.places {
            0 => 0.0,
            places => 1.0 - self.values as f64 / places as f64,
        }
    }

    fn plus(&self, other: &PaddedStats) -> PaddedStats {
        PaddedStats { values: self.values + other.values, places: self.places + other.places }
    }
}

/// The training loop's side.
#[derive(Clone, Debug, Serialize)]
pub struct ConsumerStats {
    /// Time it spent between batches: the training step.
    pub step_ns: u64,
    /// Time it waited for batches.
    pub wait_ns: u64,
    /// Time it took to hand over batches that were ready.
    pub handover_ns: u64,
    /// The waits, one per batch.
    pub waits: Times,
}

/// One worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStats {
    /// Its number.
    pub worker: usize,
    /// Samples it made.
    pub samples: u64,
    /// Jobs it took: groups of one or more samples.
    pub jobs: u64,
    /// Time it worked.
    pub busy_ns: u64,
    /// Time it slept because read-ahead or the byte budget was used up.
    pub idle_for_consumer_ns: u64,
    /// Time it slept because there was nothing for it to do.
    pub idle_without_work_ns: u64,
    /// Its stages.
    pub stages: Vec<StageStats>,
}

/// One stage of the work.
#[derive(Clone, Debug, Serialize)]
pub struct StageStats {
    /// Which.
    pub stage: Stage,
    /// Bytes it produced: raw bytes for load, the batch's bytes for the last stage of a sample.
    pub bytes: u64,
    /// Time spent in it.
    pub total_ns: u64,
    /// Its times, one per sample.
    pub times: Times,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// What these are figures of, where there is any.
    #[serde(skip)]
    pub(crate) histogram: Option<Arc<Histogram<u64>>>,
}

impl From<&Histogram<u64>> for Times {
    fn from(times: &Histogram<u64>) -> Times {
        if times.is_empty() {
            return Times::default();
        }
        Times {
            count: times.len(),
            mean_ns: times.mean(),
            p50_ns: times.value_at_quantile(0.5),
            p90_ns: times.value_at_quantile(0.9),
            p99_ns: times.value_at_quantile(0.99),
            max_ns: times.max(),
            histogram: Some(Arc::new(times.clone())),
        }
    }
}

impl Times {
    fn plus(&self, other: &Times) -> Times {
        match (&self.histogram, &other.histogram) {
            (None, _) => other.clone(),
            (_, None) => self.clone(),
            (Some(one), Some(another)) => {
                let mut both = Histogram::clone(one);
                // All histograms have the same bounds.
                let _ = both.add(&**another);
                Times::from(&both)
            }
        }
    }
}

impl StageStats {
    fn plus(&self, other: &StageStats) -> StageStats {
        StageStats {
            stage: self.stage,
            bytes: self.bytes + other.bytes,
            total_ns: self.total_ns + other.total_ns,
            times: self.times.plus(&other.times),
        }
    }
}

impl WorkerStats {
    fn plus(&self, other: &WorkerStats) -> WorkerStats {
        WorkerStats {
            worker: self.worker,
            samples: self.samples + other.samples,
            jobs: self.jobs + other.jobs,
            busy_ns: self.busy_ns + other.busy_ns,
            idle_for_consumer_ns: self.idle_for_consumer_ns + other.idle_for_consumer_ns,
            idle_without_work_ns: self.idle_without_work_ns + other.idle_without_work_ns,
            stages: each(&self.stages, &other.stages, StageStats::plus),
        }
    }
}

impl Stats {
    /// What two loaders did that came after each other: sums, and the state of the later one. Its times
    /// count on from the end of the earlier one's.
    #[must_use]
    pub fn plus(&self, later: &Stats) -> Stats {
        let workers = each(&self.workers, &later.workers, WorkerStats::plus);
        let (imbalance, efficiency) = balance(workers.iter().map(|worker| worker.busy_ns));
        let shift =
            |point: &SeriesPoint| SeriesPoint { at_ns: point.at_ns + self.elapsed_ns, ..*point };
        let mut occupancy = TimeSeries::new();
        for point in self.occupancy.iter().copied().chain(later.occupancy.iter().map(shift)) {
            occupancy.push(point.at_ns, point.value);
        }
        let recent = self.recent_batches.iter().chain(&later.recent_batches);
        let surplus =
            (self.recent_batches.len() + later.recent_batches.len()).saturating_sub(RECENT);
        Stats {
            elapsed_ns: self.elapsed_ns + later.elapsed_ns,
            batches: self.batches + later.batches,
            samples: self.samples + later.samples,
            bytes: self.bytes + later.bytes,
            errors: self.errors + later.errors,
            lost_workers: self.lost_workers + later.lost_workers,
            consumer: ConsumerStats {
                step_ns: self.consumer.step_ns + later.consumer.step_ns,
                wait_ns: self.consumer.wait_ns + later.consumer.wait_ns,
                handover_ns: self.consumer.handover_ns + later.consumer.handover_ns,
                waits: self.consumer.waits.plus(&later.consumer.waits),
            },
            workers,
            stages: each(&self.stages, &later.stages, StageStats::plus),
            batch_parts: self.batch_parts.plus(&later.batch_parts),
            recent_batches: recent.skip(surplus).copied().collect(),
            occupancy: occupancy.points().to_vec(),
            imbalance,
            efficiency,
            steals: self.steals.plus(&later.steals),
            memory: self.memory.plus(&later.memory),
            padded: self.padded.plus(&later.padded),
            prefetch: later.prefetch,
            control: later.control.clone(),
            ready: later.ready,
            is_iterated: later.is_iterated,
        }
    }
}

/// Two lists, added entry by entry; where one is longer, its entries stay as they are.
fn each<T: Clone>(one: &[T], other: &[T], plus: impl Fn(&T, &T) -> T) -> Vec<T> {
    let longer = if one.len() > other.len() { one } else { other };
    let both = one.iter().zip(other).map(|(a, b)| plus(a, b));
    both.chain(longer[one.len().min(other.len())..].iter().cloned()).collect()
}

/// `max / mean`, and `total / (max x count)`; both 1 where nothing was done.
pub(crate) fn balance(busy_ns: impl Iterator<Item = u64> + Clone) -> (f64, f64) {
    let total: u64 = busy_ns.clone().sum();
    let max = busy_ns.clone().max().unwrap_or(0);
    if total == 0 {
        return (1.0, 1.0);
    }
    let mean = total as f64 / busy_ns.count() as f64;
    (max as f64 / mean, mean / max as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_is_the_two_published_formulas() {
        let (imbalance, efficiency) = balance([10, 20, 30].into_iter());
        assert_eq!(imbalance, 30.0 / 20.0);
        assert!((efficiency - 60.0 / (30.0 * 3.0)).abs() < 1e-12);
        assert_eq!(balance([0, 0].into_iter()), (1.0, 1.0));
    }

    #[test]
    fn times_of_two_loaders_are_those_of_all_that_was_timed() {
        let of = |times: &mut dyn Iterator<Item = u64>| {
            let mut histogram = crate::measure::tally::histogram();
            times.for_each(|ns| histogram.record(ns).unwrap());
            Times::from(&histogram)
        };
        let (few, many) = (of(&mut (1..=100)), of(&mut (5_000..=6_000)));
        let all = of(&mut (1..=100).chain(5_000..=6_000));
        assert_eq!(few.plus(&many), all);
        assert_eq!(all.plus(&Times::default()), all);
        assert_eq!(Times::default().plus(&all), all);
    }

    #[test]
    fn lists_are_added_entry_by_entry() {
        assert_eq!(each(&[1, 2, 3], &[10], |a, b| a + b), [11, 2, 3]);
        assert_eq!(each(&[1], &[10, 20], |a, b| a + b), [11, 20]);
    }
}
