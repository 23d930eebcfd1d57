//! What the consumer's side counts: how long each batch took on which part of its way, and who
//! waited for whom.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::series::Series;
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
}

/// Counts of the consumer; behind the lock that serialises consumers.
pub(crate) struct Flow {
    pub(crate) batches: u64,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    pub(crate) wait_ns: u64,
    pub(crate) step_ns: u64,
    pub(crate) handover_ns: u64,
    pub(crate) waits: Histogram<u64>,
    pub(crate) parts: BatchTimes,
    pub(crate) recent: Vec<BatchTimes>,
    pub(crate) occupancy: Series,
    /// When the last batch was handed out; `None` between epochs.
    pub(crate) left_at_ns: Option<u64>,
}

/// How many batches' times are kept one by one.
const RECENT: usize = 256;

impl Flow {
    pub(crate) fn new() -> Flow {
        Flow {
            batches: 0,
            samples: 0,
            bytes: 0,
            wait_ns: 0,
            step_ns: 0,
            handover_ns: 0,
            waits: histogram(),
            parts: BatchTimes::default(),
            recent: Vec::with_capacity(RECENT),
            occupancy: Series::new(),
            left_at_ns: None,
        }
    }

    /// The consumer came back for more at `now_ns`.
    pub(crate) fn asked(&mut self, now_ns: u64) {
        if let Some(left) = self.left_at_ns.take() {
            self.step_ns += now_ns.saturating_sub(left);
        }
    }

    /// A batch goes out. `asked`, `taken` and `now` are the times the consumer asked, got it off the
    /// shelf, and leaves with it.
    pub(crate) fn delivered(
        &mut self,
        (asked, taken, now): (u64, u64, u64),
        times: BatchTimes,
        samples: u64,
        bytes: u64,
        shelved: usize,
    ) {
        let wait = taken.saturating_sub(asked);
        self.wait_ns += wait;
        self.waits.saturating_record(wait.max(1));
        self.handover_ns += now.saturating_sub(taken);
        self.parts.queued_ns += times.queued_ns;
        self.parts.building_ns += times.building_ns;
        self.parts.collating_ns += times.collating_ns;
        self.parts.shelved_ns += times.shelved_ns;
        let slot = (self.batches as usize) % RECENT;
        if slot < self.recent.len() {
            self.recent[slot] = times;
        } else {
            self.recent.push(times);
        }
        self.batches += 1;
        self.samples += samples;
        self.bytes += bytes;
        self.occupancy.push(now, shelved as u64);
        self.left_at_ns = Some(now);
    }
}
