//! How far a loader reads ahead where nobody says: static rules of workers and batch size.

use crate::assemble::{BatchLayout, Schema};
use crate::crew::usable_cores;
use crate::flow::Bunch;
use crate::plan::Plan;

use super::{Delivery, LoaderBuilder};

impl LoaderBuilder {
    /// How many batches are read ahead, and whether the one in the user's hands is one of them.
    pub(super) fn read_ahead(&self, workers: usize, batch_bytes: u64) -> (usize, bool) {
        match (self.prefetch, self.memory) {
            _ if workers == 0 => (1, false),
            (Some(prefetch), _) => (prefetch, self.frugal),
            (None, Some(_)) => (workers.max(4), false),
            (None, None) => {
                let prefetch = default_prefetch(workers, self.batch_size as usize, batch_bytes);
                // In ready order, the next batch's samples take the place of those that are slow.
                let in_order = self.delivery == Delivery::InOrder;
                let busy = workers.min(usable_cores());
                (prefetch, prefetch == 2 && in_order && is_frugal(busy, self.batch_size))
            }
        }
    }

    /// How many small batches go together.
    pub(super) fn bunch(
        &self,
        workers: usize,
        prefetch: usize,
        schema: &Schema,
        layout: Option<&BatchLayout>,
        plan: &Plan,
    ) -> Bunch {
        match (self.bunch, layout) {
            (Some(size), _) => Bunch::of(size),
            // Nothing but what a worker writes into the batch's slots is known beforehand.
            (_, Some(layout))
                if workers > 0
                    && !plan.is_unbounded()
                    && self.io_workers == 0
                    && schema.variable() == 0
                    && self.alters.is_empty() =>
            {
                match self.prefetch.filter(|_| self.auto_prefetch.is_none()) {
                    Some(prefetch) => Bunch::new(layout.bytes, prefetch as u64, 1),
                    None => Bunch::new(layout.bytes, plan.batches(), prefetch),
                }
            }
            _ => Bunch::of(1),
        }
    }
}

/// How many batches are begun ahead unless the user says.
///
/// All workers fill one batch together, so few batches keep them busy: one that is finished, and as many
/// as have a sample for each. More only bridge times of slow samples or slow storage; they are worth their
/// memory while that is little.
fn default_prefetch(workers: usize, batch_size: usize, batch_bytes: u64) -> usize {
    const MODEST: u64 = 96 << 20;
    let few = 1 + workers.div_ceil(batch_size);
    let many = workers.max(4).max(few);
    let cheap = MODEST.checked_div(batch_bytes).unwrap_or(u64::MAX);
    usize::try_from(cheap).unwrap_or(usize::MAX).clamp(few, many)
}

/// Whether a third batch is not worth its memory where two are read ahead.
///
/// A loop like `for batch in loader` holds batch A until it has B. Workers that find nothing left to do for B, while
/// others finish it, could begin C; that takes memory for a third batch, for good. What it buys is the time that workers
/// would be idle at each batch's end, on average half a sample for all but the last. Up to one part in 32 of the time that a
/// batch takes, that is not worth it.
fn is_frugal(busy: usize, batch_size: u64) -> bool {
    16 * (busy.saturating_sub(1) as u64) <= batch_size
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_third_batch_is_for_many_workers_and_few_samples() {
        let frugal = [(2, 64), (1, 4), (4, 64), (8, 64), (2, 8)];
        let frugal = frugal.map(|(busy, batch_size)| is_frugal(busy, batch_size));
        assert_eq!(frugal, [true, true, true, false, false]);
    }

    #[test]
    fn large_batches_of_few_samples_still_keep_all_workers_busy() {
        let megabytes = |n: u64| n << 20;
        for (workers, batch_size, bytes, expected) in [
            (8, 2, megabytes(200), 5),
            (8, 1, megabytes(200), 9),
            (8, 8, megabytes(200), 2),
            (2, 64, megabytes(37), 2),
            (2, 64, megabytes(30), 3),
            (16, 64, megabytes(1), 16),
            (1, 64, 0, 4),
        ] {
            assert_eq!(default_prefetch(workers, batch_size, bytes), expected);
        }
    }
}
