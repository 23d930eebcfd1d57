//! Length-bucketed: batches of similar length, in random order, mixed within buckets.
//!
//! The samples are sorted by length once and cut into *steps* of `world * batch_size`, which is what
//! all ranks together consume at a time, so one step has similar lengths on every rank. Each epoch
//! permutes the members of each bucket (`bucket_batches` neighbouring steps) and then the steps.
//! When the samples do not fill the last step, a short step is taken out of the sorted list at a random
//! place and comes at the end of the epoch: what `Boundary::Drop` leaves out is then not always the
//! longest.

use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder, split_run};
use super::error::PlanError;
use super::key::{Key, Purpose};
use super::shuffle::Shuffle;

pub(crate) struct Bucketed {
    /// Sample indices, shortest sample first.
    by_length: Arc<[u32]>,
    cut: Cut,
}

/// How a sorted list is cut into steps.
#[derive(Copy, Clone)]
struct Cut {
    n: u64,
    step: u64,
    bucket_steps: u64,
}

impl Bucketed {
    /// `step` is `world * batch_size`.
    pub(crate) fn new(
        n: u64,
        lengths: &[u32],
        bucket_batches: u64,
        step: u64,
    ) -> Result<Self, PlanError> {
        if n > 1 << 32 {
            return Err(PlanError::TooLargeForTable { order: "bucketed", samples: n });
        }
        if lengths.len() as u64 != n {
            let got = lengths.len();
            return Err(PlanError::TableLength { table: "lengths", got, expected: n });
        }
        if bucket_batches == 0 {
            return Err(PlanError::ZeroBucket);
        }
        let mut by_length: Vec<u32> = (0..=(n - 1) as u32).collect();
        by_length.sort_unstable_by_key(|&i| (lengths[i as usize], i));
        // Neither a step nor a bucket can be larger than the whole.
        let cut = Cut { n, step: step.min(n), bucket_steps: bucket_batches.min(n) };
        Ok(Self { by_length: by_length.into(), cut })
    }
}

impl CheckedOrder for Bucketed {
    fn name(&self) -> &'static str {
        "bucketed by length"
    }

    fn tables(&self) -> &'static str {
        "lengths, or `bucket_batches`,"
    }

    fn positions(&self) -> u64 {
        self.cut.n
    }

    fn epoch(&self, seed: u64, epoch: u64) -> Arc<dyn Arrangement> {
        let Cut { n, step, .. } = self.cut;
        let short = n % step;
        Arc::new(Steps {
            by_length: self.by_length.clone(),
            cut: self.cut,
            full: n - short,
            short_start: Key::of(seed, Purpose::ShortBatch, epoch).stream().below(n - short + 1),
            short: Shuffle::compact(short, Key::of(seed, Purpose::ShortBatch, epoch).index(1)),
            step_order: Shuffle::new(n / step, Key::of(seed, Purpose::BatchOrder, epoch)),
            bucket_key: Key::of(seed, Purpose::Bucket, epoch),
        })
    }

    fn step(&self) -> Option<u64> {
        Some(self.cut.step)
    }

    fn with_step(&self, step: u64) -> Option<Box<dyn CheckedOrder>> {
        let step = step.clamp(1, self.cut.n);
        let other = step != self.cut.step;
        other.then(|| -> Box<dyn CheckedOrder> {
            let by_length = Arc::clone(&self.by_length);
            Box::new(Bucketed { by_length, cut: Cut { step, ..self.cut } })
        })
    }

    fn table_bytes(&self) -> usize {
        size_of_val::<[u32]>(&self.by_length)
    }
}

/// One epoch.
struct Steps {
    by_length: Arc<[u32]>,
    cut: Cut,
    /// How many samples are in full steps.
    full: u64,
    /// Where in the sorted list the short step is taken out; the gap is closed for the others.
    short_start: u64,
    short: Shuffle,
    step_order: Shuffle,
    bucket_key: Key,
}

impl Steps {
    /// Replaces offsets in the step consumed at `turn` by places in the sorted list.
    fn full_step(&self, turn: u64, offsets: &mut [SampleIndex]) {
        let step = self.step_order.apply(turn);
        let bucket = step / self.cut.bucket_steps;
        let bucket_size = self.cut.bucket_steps.saturating_mul(self.cut.step);
        let start = bucket * bucket_size;
        let members = bucket_size.min(self.full - start);
        let offset = step * self.cut.step - start;
        offsets.iter_mut().for_each(|slot| slot.0 += offset);
        Shuffle::compact(members, self.bucket_key.index(bucket)).apply_all(offsets);
        for slot in offsets {
            slot.0 += start;
            if slot.0 >= self.short_start {
                slot.0 += self.short.size();
            }
        }
    }

    fn short_step(&self, offsets: &mut [SampleIndex]) {
        self.short.apply_all(offsets);
        offsets.iter_mut().for_each(|slot| slot.0 += self.short_start);
    }
}

impl Arrangement for Steps {
    fn at(&self, position: u64) -> SampleIndex {
        let mut one = [SampleIndex(position)];
        self.map(&mut one);
        one[0]
    }

    fn map(&self, mut positions: &mut [SampleIndex]) {
        // A batch lies within one step, so step and bucket are found once.
        while let Some(first) = positions.first() {
            let turn = first.0 / self.cut.step;
            let begin = turn * self.cut.step;
            let (run, rest) = split_run(positions, begin..begin + self.cut.step);
            run.iter_mut().for_each(|slot| slot.0 -= begin);
            if begin < self.full {
                self.full_step(turn, run);
            } else {
                self.short_step(run);
            }
            for slot in run {
                slot.0 = u64::from(self.by_length[slot.0 as usize]);
            }
            positions = rest;
        }
    }

    fn table_bytes(&self) -> usize {
        self.step_order.heap_bytes()
    }
}
