//! CPU time and memory of this process together with its descendants.
//!
//! # How CPU time is counted
//!
//! Each living process has used some time itself and has inherited the time of every child it waited
//! for. The sum of both over all living members is the tree's total; a run has used the difference of
//! two such totals:
//!
//! * A child that lived before the run and lives after it counts with what it used in between.
//! * A child that came and went counts in full once its parent has waited for it. If it lived before
//!   the run, what it had used by then is in the first total and drops out.
//! * A child that went without being waited for (its parent ignores SIGCHLD, or died first) takes its
//!   time along. It counts with the last value that a sample saw, which may be one interval short.
//! * A child that outlives its parent stays a member as long as one sample saw it before.
//!
//! Not seen: a process whose parent ends before the first sample finds either of them.

use std::collections::HashMap;
use std::time::Duration;

use crate::kernel::{self, IoReading, ProcessId, ProcessReading};

/// CPU time that the calling thread has used since it started; `None` where the system does not tell.
pub fn thread_cpu() -> Option<Duration> {
    kernel::thread_cpu()
}

/// Adds up what a tree has used from one reading to the next.
#[derive(Debug, Default)]
pub(crate) struct TreeUsage {
    members: HashMap<i32, ProcessReading>,
    /// CPU time of members that vanished with nobody to inherit it.
    lost: Duration,
    opening_cpu: Duration,
    opening_io: IoReading,
}

impl TreeUsage {
    /// Starts counting at the given reading.
    pub(crate) fn open(readings: &[ProcessReading]) -> Self {
        let mut usage = Self::default();
        usage.update(readings);
        usage.opening_cpu = usage.total_cpu();
        usage.opening_io = usage.total_io().unwrap_or_default();
        usage
    }

    /// Takes in the next reading.
    pub(crate) fn update(&mut self, readings: &[ProcessReading]) {
        let now: HashMap<i32, ProcessReading> =
            readings.iter().map(|it| (it.id.number, *it)).collect();
        let lives =
            |then: &ProcessReading| now.get(&then.id.number).is_some_and(|it| it.id == then.id);

        // Time of the vanished, by the nearest ancestor that is still there to have inherited it.
        let mut vanished: HashMap<Option<i32>, Duration> = HashMap::new();
        for gone in self.members.values().filter(|then| !lives(then)) {
            let mut heir = self.members.get(&gone.parent);
            // Bounded by the number of members: stale parent numbers could form a circle.
            for _ in 0..self.members.len() {
                heir = match heir {
                    Some(ancestor) if !lives(ancestor) => self.members.get(&ancestor.parent),
                    found => found,
                };
            }
            let heir = heir.filter(|it| lives(it)).map(|it| it.id.number);
            *vanished.entry(heir).or_default() += gone.own_cpu + gone.reaped_cpu;
        }
        for (heir, used) in vanished {
            let inherited = heir.map_or(Duration::ZERO, |number| {
                now[&number].reaped_cpu.saturating_sub(self.members[&number].reaped_cpu)
            });
            self.lost += used.saturating_sub(inherited);
        }
        self.members = now;
    }

    /// Replaces the CPU time of this process itself: its clock is read right at the edge of the run,
    /// before or after the costly part of a reading.
    pub(crate) fn set_own_cpu(&mut self, own_cpu: Duration) {
        let own = i32::try_from(std::process::id()).ok();
        if let Some(member) = own.and_then(|number| self.members.get_mut(&number)) {
            member.own_cpu = own_cpu;
        }
    }

    /// Counts from here on: whatever was used so far is the opening total.
    pub(crate) fn reopen_cpu(&mut self) {
        self.opening_cpu = self.total_cpu();
    }

    /// CPU time used since the opening.
    pub(crate) fn cpu(&self) -> Duration {
        self.total_cpu().saturating_sub(self.opening_cpu)
    }

    /// Storage traffic since the opening; `None` if no member could be read. Traffic of a child that
    /// nobody waited for is not in it.
    pub(crate) fn io(&self) -> Option<IoReading> {
        let total = self.total_io()?;
        Some(IoReading {
            read_bytes: total.read_bytes.saturating_sub(self.opening_io.read_bytes),
            written_bytes: total.written_bytes.saturating_sub(self.opening_io.written_bytes),
        })
    }

    /// Everyone who lives, for the next reading.
    pub(crate) fn members(&self) -> Vec<ProcessId> {
        self.members.values().map(|it| it.id).collect()
    }

    fn total_cpu(&self) -> Duration {
        self.members.values().map(|it| it.own_cpu + it.reaped_cpu).sum::<Duration>() + self.lost
    }

    fn total_io(&self) -> Option<IoReading> {
        self.members.values().filter_map(|it| it.io).reduce(|a, b| IoReading {
            read_bytes: a.read_bytes + b.read_bytes,
            written_bytes: a.written_bytes + b.written_bytes,
        })
    }
}

/// Memory of a tree over time: start, peak and mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MemoryTrack {
    samples: u64,
    start_bytes: u64,
    peak_bytes: u64,
    last: Option<(Duration, u64)>,
    /// Byte-seconds under the line through the samples.
    area: f64,
    covered: Duration,
}

impl MemoryTrack {
    /// Takes in one sample; `at` never goes back.
    pub(crate) fn add(&mut self, at: Duration, bytes: u64) {
        match self.last {
            None => self.start_bytes = bytes,
            Some((before, then)) => {
                let span = at.saturating_sub(before);
                self.area += span.as_secs_f64() * (then as f64 + bytes as f64) / 2.0;
                self.covered += span;
            }
        }
        self.peak_bytes = self.peak_bytes.max(bytes);
        self.last = Some((at, bytes));
        self.samples += 1;
    }

    /// Latest sample.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last.map(|(_, bytes)| bytes)
    }

    /// Number of samples taken in.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// First sample.
    pub(crate) fn start(&self) -> Option<u64> {
        self.last.map(|_| self.start_bytes)
    }

    /// Largest sample. A peak between two samples is not seen.
    pub(crate) fn peak(&self) -> Option<u64> {
        self.last.map(|_| self.peak_bytes)
    }

    /// Mean over time, with straight lines between samples: they are closer together at the beginning
    /// of a run, so the plain mean of samples would weigh the beginning too much.
    pub(crate) fn mean(&self) -> Option<u64> {
        let (_, last) = self.last?;
        let covered = self.covered.as_secs_f64();
        Some(if covered > 0.0 { (self.area / covered) as u64 } else { last })
    }
}

#[cfg(test)]
#[path = "process_tree_test.rs"]
mod tests;
