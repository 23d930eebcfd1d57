//! Whether another batch is begun while the loop holds one and waits for the next.
//!
//! A loop like `for batch in loader` holds batch A until it has B. Where batches are so large that only
//! two are read ahead, workers that find nothing left to do for B, while others finish it, could begin C;
//! that takes memory for a third batch, for good. What it buys is the time that workers would be idle at
//! each batch's end, on average half a sample for all but the last, and while the loop takes B and gives A
//! back. So the spare batch is used where that is more than a small share of the time a batch takes: with
//! many workers, few samples in a batch, or samples that cost next to nothing.
//!
//! A loop that does not give A back when it has B (it collects batches, or has a variable that still views
//! the last one) would have nothing loaded meanwhile. It is noticed by that, and gets its spare batch.

/// A spare batch is used if it saves more than one part in so many.
const WORTH: f64 = 32.0;
/// From the batch's completion until its successor is begun, if that waits for the loop.
const TURNOVER_NS: f64 = 100_000.0;
/// A batch that is given back later than this after the next one was delivered is kept, not forgotten.
const LATE_NS: u64 = 1_000_000;
/// Once may be chance: the loop's thread had to wait for a core, some samples were small. A spare batch that
/// was used once has its memory for good.
const HABIT: u32 = 3;

/// What is known about the loop's habits.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    delivered_ns: u64,
    late: u32,
    paid: u32,
    is_keeping: bool,
}

impl Spare {
    /// A batch was delivered, which a spare one beside it [would pay](pays) for, or not.
    pub(crate) fn delivered(&mut self, now_ns: u64, pays: bool) {
        self.delivered_ns = now_ns;
        self.paid = if pays { self.paid + 1 } else { 0 };
    }

    /// The batch before the last delivered one came back.
    pub(crate) fn came_back(&mut self, now_ns: u64) {
        match now_ns.saturating_sub(self.delivered_ns) {
            ..LATE_NS => self.late = 0,
            _ => self.late += 1,
        }
        self.is_keeping |= self.late >= HABIT;
    }

    /// The loop asked for a batch, and none was begun since it keeps those that it has.
    pub(crate) fn found_nothing(&mut self) {
        self.is_keeping = true;
    }

    /// Whether to use a spare batch.
    pub(crate) fn is_used(&self) -> bool {
        self.is_keeping || self.paid >= HABIT
    }
}

/// Whether a spare batch is worth its memory beside one that took so long from its first sample to its
/// last, and was filled by so many workers that run at once.
pub(crate) fn pays(busy: usize, batch_size: u64, building_ns: f64) -> bool {
    let half_samples = busy.saturating_sub(1) as f64 / 2.0;
    let idle_ns = building_ns * half_samples / batch_size as f64 + TURNOVER_NS;
    // The clock must not make two runs of a model differ.
    !cfg!(loom) && idle_ns * WORTH > building_ns
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::LoaderBuilder;
    use crate::deliver::single_handed::SingleHanded;

    #[test]
    fn a_spare_batch_is_for_many_workers_small_batches_and_cheap_samples() {
        let millisecond = 1e6;
        for (busy, batch_size, building_ns, expected) in [
            (2, 64, 32.0 * millisecond, false),
            (2, 64, 2.0 * millisecond, true),
            (1, 64, 64.0 * millisecond, false),
            (8, 64, 8.0 * millisecond, true),
            (8, 512, 64.0 * millisecond, false),
            (2, 8, 4.0 * millisecond, true),
        ] {
            let found = pays(busy, batch_size, building_ns);
            assert_eq!(found, expected, "{busy} workers, {batch_size} samples");
        }
    }

    #[test]
    fn a_batch_that_is_late_once_is_no_habit() {
        let mut spare = Spare::default();
        for late_by in [LATE_NS, LATE_NS, 0, LATE_NS, LATE_NS] {
            spare.delivered(5, false);
            spare.came_back(5 + late_by);
            assert!(!spare.is_used());
        }
        spare.came_back(5 + LATE_NS);
        assert!(spare.is_used());
    }

    #[test]
    fn what_pays_once_or_twice_is_not_used() {
        let mut spare = Spare::default();
        let used = [true, true, false, true, true, true, true, false].map(|pays| {
            spare.delivered(0, pays);
            spare.is_used()
        });
        assert_eq!(used, [false, false, false, false, false, true, true, false]);
    }

    #[test]
    fn a_loop_that_holds_one_batch_while_it_takes_the_next_needs_two() {
        let mut loader = SingleHanded::new(LoaderBuilder::frugal);
        let mut held = None;
        for turn in 0..3 {
            loader.work();
            let next = loader.take().expect("there is one in work at any time");
            assert_eq!(next.indices()[0].0, 8 * turn);
            held = Some(next);
        }
        loader.work();
        assert_eq!(loader.engine.pool.bytes().allocated_blocks, 2);
        drop(held);
    }

    #[test]
    fn a_loop_that_keeps_its_batches_finds_the_next_one_begun() {
        let mut loader = SingleHanded::new(LoaderBuilder::frugal);
        let mut kept = Vec::new();
        for _ in 0..2 {
            loader.work();
            kept.extend(loader.take());
        }
        loader.work();
        assert!(loader.take().is_none(), "both places are taken");
        loader.work();
        for _ in 0..3 {
            kept.push(loader.take().expect("noticed"));
            loader.work();
        }
        let firsts: Vec<u64> = kept.iter().map(|batch| batch.indices()[0].0).collect();
        assert_eq!(firsts, [0, 8, 16, 24, 32]);
    }
}
