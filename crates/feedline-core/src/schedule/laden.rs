//! Which queues may have jobs: a bit each, so that a thief among a thousand workers need not look into all of them.
//!
//! A bit is set *after* a job was queued and cleared by a thief that holds the queue's lock and finds it empty. So a
//! queue that has jobs has its bit, but for the moment between the two in which whoever queued them is awake and has not
//! told anybody; a bit may be set for a queue that is empty, which costs one look.

use crate::sync::{AtomicU64, Ordering};

pub(super) struct Laden {
    /// Relaxed throughout: of one queue, clearing comes before setting by the queue's lock, and whoever must not miss a
    /// job is woken through the event count, which synchronises.
    words: Vec<AtomicU64>,
}

impl Laden {
    pub(super) fn new(queues: usize) -> Laden {
        Laden { words: (0..queues.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A job was queued.
    pub(super) fn set(&self, queue: usize) {
        let (word, bit) = (&self.words[queue / 64], 1 << (queue % 64));
        // Mostly it is set already, and nobody's cache need know.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The queue is empty; the caller holds its lock.
    pub(super) fn clear(&self, queue: usize) {
        self.words[queue / 64].fetch_and(!(1 << (queue % 64)), Ordering::Relaxed);
    }

    /// The first queue from `from` to before `end` that may have jobs.
    pub(super) fn first(&self, from: usize, end: usize) -> Option<usize> {
        let mut at = from;
        while at < end {
            let word = self.words[at / 64].load(Ordering::Relaxed) >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros() as usize;
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_one_that_a_search_finds() {
        let laden = Laden::new(200);
        let set = [0usize, 5, 63, 64, 130, 199];
        set.iter().for_each(|queue| laden.set(*queue));
        for from in 0..200 {
            for end in [from, from + 1, 64, 128, 199, 200] {
                let found = set.iter().copied().find(|queue| (from..end).contains(queue));
                assert_eq!(laden.first(from, end), found, "{from} {end}");
            }
        }
        laden.clear(64);
        assert_eq!(laden.first(64, 200), Some(130));
    }
}
