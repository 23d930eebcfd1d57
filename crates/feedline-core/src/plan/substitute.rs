//! Which sample to take instead of one that failed.

use super::epoch::EpochPlan;
use super::key::{Key, Purpose};
use super::shuffle::Shuffle;
use super::{Position, SampleIndex};

/// Positions tried at random before the order is searched.
const TRIES: usize = 64;

impl EpochPlan {
    /// The sample to take instead of the one at `position`, which failed; `attempt` counts from 0 when
    /// substitutes fail too.
    ///
    /// It depends on seed, epoch, rank, position and attempt only. It is the sample at another random
    /// position of the same epoch, so it obeys the order: uniform over the dataset where every sample
    /// comes once, by weight where samples are weighted, and never from outside a subset. Where every
    /// sample comes once, attempts do not repeat each other before all samples have been tried. The
    /// failed sample itself comes back only if the order offers no other.
    pub fn substitute(&self, position: Position, attempt: u32) -> SampleIndex {
        let positions = self.plan().positions();
        let own = self.place(position.0);
        let failed = self.arrangement().at(own);
        let global = self.global(position.0);
        let key = |purpose| Key::of(self.plan().seed(), purpose, self.epoch()).index(global as u64);
        let other = |place| Some(self.arrangement().at(place)).filter(|&sample| sample != failed);
        if positions > 1 {
            let others = Shuffle::compact(positions - 1, key(Purpose::Substitute));
            let place = others.apply(u64::from(attempt));
            if let Some(sample) = other(place + u64::from(place >= own)) {
                return sample;
            }
        }
        let mut stream = key(Purpose::SubstituteRetry).lane(u64::from(attempt)).stream();
        (0..TRIES)
            .find_map(|_| other(stream.below(positions)))
            .or_else(|| self.arrangement().other_than(failed, stream.next_u64(), positions))
            .unwrap_or(failed)
    }
}
