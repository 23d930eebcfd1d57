//! Bytes: which jobs may be begun beside what is under way, and what the pool takes and gives back.
//!
//! A part of the [machine](Flow), apart because nothing else looks at the bytes of samples.

use super::effects::ALL;
use super::{Effects, Flow};

impl<T, J> Flow<T, J> {
    // ---- samples of which nobody knows beforehand how many bytes they take

    /// Whether a job of the batch of this turn may be begun.
    fn admits(&self, turn: u64) -> bool {
        let is_oldest = self.unfinished.front().is_none_or(|oldest| turn <= oldest.turn);
        is_oldest || self.to_come(turn, 0).is_some_and(|loose| self.bytes.fits(loose))
    }

    /// What the samples of batches up to this turn, and some more, may still take. `None` while nobody knows.
    pub(super) fn to_come(&self, turn: u64, more: u64) -> Option<u64> {
        if !self.rules.loose {
            return Some(0);
        }
        let largest = self.bytes.largest_sample()?;
        let older = self.unfinished.iter().take_while(|unfinished| unfinished.turn <= turn);
        let samples: u64 = older.map(|unfinished| unfinished.samples_left).sum();
        Some(samples.saturating_add(more).saturating_mul(largest))
    }

    /// A worker has a job of the batch of this turn in hand. If it may not begin it, the job is held back.
    pub(crate) fn admit(&mut self, generation: u64, turn: u64, job: J) -> Option<J> {
        if generation != self.generation || self.admits(turn) {
            // A stale job is let go of by whoever has it.
            return Some(job);
        }
        self.wants_bytes = true;
        self.ever_held += 1;
        self.held.insert((turn, self.ever_held), job);
        None
    }

    /// A job that was held back and may be begun now.
    pub(crate) fn release(&mut self) -> Option<J> {
        let turn = self.held.first_key_value()?.0.0;
        if !self.admits(turn) {
            self.wants_bytes = true;
            return None;
        }
        self.held.pop_first().map(|(_, job)| job)
    }

    /// So many samples of a batch were made; they took so many bytes that have no place in its block, the
    /// largest of them so many. Returns how many are booked.
    pub(crate) fn made(
        &mut self,
        (generation, turn): (u64, u64),
        samples: u64,
        bytes: u64,
        largest: u64,
    ) -> (u64, Effects<T, J>) {
        let was_known = self.bytes.largest_sample().is_some();
        if self.rules.loose {
            self.bytes.learn(samples, largest);
        }
        let bytes = match self.bytes.largest_sample() {
            Some(largest) if self.rules.padded => bytes.max(samples.saturating_mul(largest)),
            _ => bytes,
        };
        let evict = self.bytes.add(bytes);
        let oldest = self.unfinished.front().map(|oldest| oldest.turn);
        if generation == self.generation {
            let at = oldest.and_then(|oldest| turn.checked_sub(oldest));
            if let Some(unfinished) = at.and_then(|at| self.unfinished.get_mut(at as usize)) {
                unfinished.samples_left = unfinished.samples_left.saturating_sub(samples);
            }
            self.drop_finished();
        }
        let moved = oldest != self.unfinished.front().map(|oldest| oldest.turn);
        let wakes = moved || !was_known;
        let wake_workers = if wakes { self.wake_for_bytes() } else { 0 };
        (bytes, Effects { wake_workers, evict, ..Effects::default() })
    }

    // ---- the pool

    /// A value of so many bytes is about to be made, for a sample that was not told of yet.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Effects<T, J> {
        Effects { evict: self.bytes.reserve(bytes), ..Effects::default() }
    }

    /// Its sample is made, and told of; or it is given up.
    pub(crate) fn unreserve(&mut self, bytes: u64) {
        self.bytes.unreserve(bytes);
    }

    /// A block was taken, new or idle before, for bytes that were counted already.
    pub(crate) fn took(&mut self, capacity: u64, reused: bool, in_place_of: u64) -> Effects<T, J> {
        self.bytes.took(capacity, reused);
        self.bytes.remove(in_place_of);
        Effects { evict: self.bytes.add(capacity), ..Effects::default() }
    }

    /// The system refused the block just taken.
    pub(crate) fn did_not_take(&mut self, capacity: u64) -> Effects<T, J> {
        self.bytes.did_not_take();
        let effects = self.freed(capacity);
        // Whoever asked for it tries again when something was freed.
        self.wants_bytes = true;
        effects
    }

    /// Loose bytes are no more.
    pub(crate) fn freed(&mut self, bytes: u64) -> Effects<T, J> {
        self.bytes.remove(bytes);
        Effects::wake(self.wake_for_bytes())
    }

    /// A block is no longer used. Returns whether it is kept for the next batch.
    pub(crate) fn returned(&mut self, capacity: u64, delivered: bool) -> (bool, Effects<T, J>) {
        let keep = self.bytes.give_back(capacity, delivered, !self.stopped);
        // (Of whichever generation: to let go of one too many too early only costs memory.)
        let let_go = if delivered { self.let_go(1) } else { 0 };
        (keep, Effects::wake(let_go.max(self.wake_for_bytes())))
    }

    /// Idle blocks were freed.
    pub(crate) fn evicted(&mut self, bytes: u64) {
        self.bytes.evicted(bytes);
    }

    /// How many workers to wake because bytes are free, or another batch is the oldest.
    pub(super) fn wake_for_bytes(&mut self) -> usize {
        if !std::mem::take(&mut self.wants_bytes) {
            return 0;
        }
        // Held jobs, and the window, may concern all; room for a batch one, who wakes others in turn.
        if self.held.is_empty() && self.rules.window.is_none() { 1 } else { ALL }
    }
}
