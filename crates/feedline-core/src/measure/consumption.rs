//! What the consumer's side counts: how long each batch took on which part of its way, and who
//! waited for whom.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::series::TimeSeries;
use super::tally::histogram;

/// The way of one batch: four stretches of time, end to end.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchTimes {
    /// From being opened until the first worker began on it.
    pub queued_ns: u64,
    /// Until its last sample was there.
    pub building_ns: u64,
    /// Until it was put together.
    pub collating_ns: u64,
    /// Until the consumer took it.
    pub shelved_ns: u64,
}

impl BatchTimes {
    /// From being opened until the consumer took it.
    #[must_use]
    pub fn wall_ns(&self) -> u64 {
        self.queued_ns + self.building_ns + self.collating_ns + self.shelved_ns
    }

    pub(crate) fn plus(&self, other: &BatchTimes) -> BatchTimes {
        BatchTimes {
            queued_ns: self.queued_ns + other.queued_ns,
            building_ns: self.building_ns + other.building_ns,
            collating_ns: self.collating_ns + other.collating_ns,
            shelved_ns: self.shelved_ns + other.shelved_ns,
        }
    }
}

/// Counts of the consumer; behind the lock that serialises consumers.
///
/// The consumer only notes each batch, and counts are made of the notes some dozen at a time: after a
/// training step its caches are cold, and each of the tables below would be another miss.
pub(crate) struct Consumption {
    pub(crate) batches: u64,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    pub(crate) wait_ns: u64,
    pub(crate) step_ns: u64,
    pub(crate) handover_ns: u64,
    pub(crate) waits: Histogram<u64>,
    pub(crate) parts: BatchTimes,
    pub(crate) recent: Vec<BatchTimes>,
    pub(crate) occupancy: TimeSeries,
    /// When the first epoch was begun.
    pub(crate) begun_ns: Option<u64>,
    /// When the last batch that was counted was taken.
    pub(crate) taken_ns: u64,
    /// When the last batch was handed out; `None` between epochs.
    pub(crate) left_at_ns: Option<u64>,
    /// Since when it waits for the next batch, though it may have looked after other things in between; `None` while it does not.
    asked_at_ns: Option<u64>,
    /// How many steps there were, and how many of them were so long that the loop was elsewhere meanwhile.
    steps: u64,
    absences: u64,
    noted: Vec<Delivered>,
}

/// A note about one batch: the times the consumer asked, got it, and left with it; its
/// way until then; how much it was, and how many waited behind it.
pub(crate) struct Delivered {
    pub(crate) asked_ns: u64,
    pub(crate) taken_ns: u64,
    pub(crate) left_ns: u64,
    pub(crate) times: BatchTimes,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    pub(crate) shelved: usize,
}

/// How many batches' times are kept one by one.
pub(crate) const RECENT: usize = 256;
/// No shorter step is taken for an absence.
const ABSENCE_NS: u64 = 1_000_000_000;
/// How many batches are noted before they are counted.
const NOTED: usize = 32;

impl Consumption {
    pub(crate) fn new() -> Consumption {
        Consumption {
            batches: 0,
            samples: 0,
            bytes: 0,
            wait_ns: 0,
            step_ns: 0,
            handover_ns: 0,
            waits: histogram(),
            parts: BatchTimes::default(),
            recent: Vec::with_capacity(RECENT),
            occupancy: TimeSeries::new(),
            begun_ns: None,
            taken_ns: 0,
            left_at_ns: None,
            asked_at_ns: None,
            steps: 0,
            absences: 0,
            noted: Vec::with_capacity(NOTED),
        }
    }

    /// An epoch was begun.
    pub(crate) fn begun(&mut self, now_ns: u64) {
        self.begun_ns.get_or_insert(now_ns);
        self.asked_at_ns = None;
    }

    /// The consumer came back for more at `now_ns`. Returns when it asked for the next batch first.
    pub(crate) fn asked(&mut self, now_ns: u64) -> u64 {
        if let Some(left) = self.left_at_ns.take() {
            let step_ns = now_ns.saturating_sub(left);
            self.absences += u64::from(self.is_absence(step_ns));
            self.step_ns += step_ns;
            self.steps += 1;
        }
        *self.asked_at_ns.get_or_insert(now_ns)
    }

    /// There is no batch for it.
    pub(crate) fn left_without(&mut self) {
        self.asked_at_ns = None;
    }

    /// Whether a step is no step: the loop validates, saves, or was left.
    fn is_absence(&self, step_ns: u64) -> bool {
        step_ns > ABSENCE_NS.max(8 * self.step_ns / self.steps.max(1))
    }

    /// How often the loop was elsewhere, this time included if it is.
    pub(crate) fn absences_until(&self, now_ns: u64) -> u64 {
        let lasts = self.left_at_ns.map_or(0, |left| now_ns.saturating_sub(left));
        self.absences + u64::from(self.is_absence(lasts))
    }

    /// How long it has waited until now, for the batch that it waits for too.
    pub(crate) fn waited_until(&self, now_ns: u64) -> u64 {
        let lasts = self.asked_at_ns.map_or(0, |asked| now_ns.saturating_sub(asked));
        self.wait_ns + lasts
    }

    /// A batch goes out.
    pub(crate) fn delivered(&mut self, note: Delivered) {
        if self.noted.len() == NOTED {
            self.fold();
        }
        self.left_at_ns = Some(note.left_ns);
        self.asked_at_ns = None;
        self.noted.push(note);
    }

    /// Counts what was noted; before anybody looks at the counts.
    pub(crate) fn fold(&mut self) {
        let mut noted = std::mem::take(&mut self.noted);
        for note in noted.drain(..) {
            self.count(&note);
        }
        self.noted = noted;
    }

    fn count(&mut self, note: &Delivered) {
        let Delivered { asked_ns, taken_ns, left_ns, times, samples, bytes, shelved } = *note;
        let wait = taken_ns.saturating_sub(asked_ns);
        self.wait_ns += wait;
        self.waits.saturating_record(wait.max(1));
        self.handover_ns += left_ns.saturating_sub(taken_ns);
        self.parts = self.parts.plus(&times);
        let slot = (self.batches as usize) % RECENT;
        if slot < self.recent.len() {
            self.recent[slot] = times;
        } else {
            self.recent.push(times);
        }
        self.batches += 1;
        self.taken_ns = taken_ns;
        self.samples += samples;
        self.bytes += bytes;
        self.occupancy.push(left_ns, shelved as u64);
    }
}
