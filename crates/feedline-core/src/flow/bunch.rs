//! How many small batches one wake-up is for.
//!
//! To wake a sleeping thread costs some ten microseconds on either side, and where the kernel finds the two
//! on one core, they take turns at every batch. A batch that does not cost many times that is not worth a
//! wake-up of its own, so small batches go in bunches:
//! * a consumer that finds no batch sleeps until a whole bunch is there, or the workers have nothing left to do,
//!   or a short time is over;
//! * workers that have nothing left to do sleep until a whole bunch may be opened;
//! * unless the user says how many batches are read ahead, that many *bunches* are, within an epoch's length.
//!
//! Only sleeping and waking are bunched: what is there is taken at once, in order, batch by batch. Batches
//! that cost more are bunches of one.

/// What a bunch of batches should cost to make.
const TARGET_NS: f64 = 250_000.0;
/// So many batches are enough to spread a wake-up over.
const MOST: usize = 16;
/// So much memory may a bunch take.
const MOST_BYTES: usize = 512 << 10;

/// Of how many bunches a read-ahead consists at least, so that one is taken while others are made.
const PARTS: usize = 4;

/// How long the consumer waits for a whole bunch. (loom knows no time, and must not depend on it.)
pub(super) const DOZE_NS: u64 = if cfg!(loom) { 1 << 60 } else { 500_000 };

/// The size of a bunch, as far as it is known.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Bunch {
    least: usize,
    most: usize,
    size: usize,
}

impl Bunch {
    /// Bunches of batches of so many bytes, of which some have to fit into so many batches.
    pub(crate) fn new(batch_bytes: usize, within: u64, bunches: usize) -> Bunch {
        let share = usize::try_from(within).unwrap_or(usize::MAX) / bunches.max(PARTS);
        let most = MOST.min(MOST_BYTES / batch_bytes.max(1)).min(share).max(1);
        Bunch { least: 1, most, size: 1 }
    }

    /// Bunches of so many, whatever they cost: of one, where it is not known what a batch will take.
    pub(crate) fn of(size: usize) -> Bunch {
        Bunch { least: size, most: size, size }
    }

    /// Learns what a batch costs.
    pub(super) fn learn(&mut self, batch_ns: f64) {
        // Float-to-int casts saturate: what costs nothing makes the largest bunch.
        self.size = ((TARGET_NS / batch_ns) as usize).clamp(self.least, self.most);
    }

    /// How many batches go together.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn cheap_batches_go_together_and_dear_ones_alone() {
        let mut bunch = Bunch::new(1000, 10_000, 4);
        assert_eq!(bunch.size(), 1, "before anything is known");
        for (batch_ns, size) in [(1e6, 1), (1e5, 2), (0.0, MOST), (50_000.0, 5), (250_001.0, 1)] {
            bunch.learn(batch_ns);
            assert_eq!(bunch.size(), size);
        }
    }

    #[test]
    fn bunches_are_small_in_memory_and_a_part_of_what_is_read_ahead() {
        for (bytes, within, bunches, size) in [
            (0, u64::MAX, 4, MOST),
            (200_000, u64::MAX, 4, 2),
            (1 << 20, u64::MAX, 4, 1),
            (usize::MAX, u64::MAX, 1, 1),
            (1000, 9, 1, 2),
            (1000, 3, 4, 1),
            (1000, 100, 32, 3),
        ] {
            let mut bunch = Bunch::new(bytes, within, bunches);
            bunch.learn(1.0);
            assert_eq!(bunch.size(), size);
        }
    }
}
