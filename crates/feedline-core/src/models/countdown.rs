//! One worker finishes a batch, and it sees what all of them wrote.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::assemble::countdown::Countdown;

use super::explore;

/// A batch of four slots.
struct Batch {
    slots: [UnsafeCell<u32>; 4],
    countdown: Countdown,
}

impl Batch {
    fn new() -> Arc<Batch> {
        let slots = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Batch { slots, countdown: Countdown::new(4) })
    }

    /// Fills slots and counts them down. Returns what the batch holds, if they were the last.
    fn fill(&self, slots: std::ops::Range<usize>) -> Option<u32> {
        for slot in slots.clone() {
            // SAFETY: each slot belongs to one worker until it is counted down; loom checks it.
            self.slots[slot].with_mut(|value| unsafe { *value = 1 << slot });
        }
        self.countdown.done(slots.len() as u32).then(|| {
            // SAFETY: all slots are counted down, so this worker owns the batch; loom checks it.
            self.slots.iter().map(|slot| slot.with(|value| unsafe { *value })).sum()
        })
    }
}

#[test]
fn exactly_one_worker_finishes_and_sees_every_slot() {
    explore(3, || {
        let batch = Batch::new();
        let workers: Vec<_> = [0..1, 1..2]
            .into_iter()
            .map(|slots| {
                let batch = Arc::clone(&batch);
                thread::spawn(move || batch.fill(slots))
            })
            .collect();
        // A group of two is counted at once.
        let mine = batch.fill(2..4);
        let others = workers.into_iter().map(|worker| worker.join().unwrap());
        let finishers: Vec<u32> = others.chain([mine]).flatten().collect();
        assert_eq!(finishers, [0b1111]);
    });
}
