//! The virtual clock: what happens next.

/// What happens at some time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A worker (numbered over all ranks) has done what it was at, unless it died since.
    Done { worker: u32, life: u32 },
    /// A worker's request has reached the resource that serves it, unless it died since.
    Reached { worker: u32, life: u32 },
    /// The next user of a resource is done, unless somebody came or went since.
    Shared { resource: u32, version: u32 },
    /// A training loop has taken its batch over.
    TakenOver { rank: u32 },
    /// A training loop has done a step.
    Stepped { rank: u32 },
    /// All ranks may go on.
    Exchanged,
    /// A worker dies.
    Dies { death: u32 },
    /// Another one takes its place.
    Replaced { worker: u32 },
}

/// The time, and the events that are expected: the earliest first, those of one time in the order in which they were
/// caused.
///
/// A heap of four children each. Most events cause one other, so the place of the one that happens is left open, and
/// the next that is expected takes it: one way down the heap instead of two.
pub(super) struct Clock {
    now_ns: u64,
    caused: u64,
    heap: Vec<Expected>,
    /// Whether the first of the heap has happened.
    open: bool,
}

#[derive(Copy, Clone)]
struct Expected {
    /// When, and the how manieth it was to be caused.
    key: u128,
    event: Event,
}

const CHILDREN: usize = 4;

impl Clock {
    pub(super) fn new() -> Clock {
        Clock { now_ns: 0, caused: 0, heap: Vec::new(), open: false }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Expects an event at a time that is not over.
    pub(super) fn at(&mut self, ns: u64, event: Event) {
        self.caused += 1;
        let key = u128::from(ns) << 64 | u128::from(self.caused);
        let expected = Expected { key, event };
        if std::mem::take(&mut self.open) {
            return self.sink(expected);
        }
        let mut place = self.heap.len();
        self.heap.push(expected);
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent].key <= key {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = expected;
    }

    /// Expects an event after some seconds.
    pub(super) fn after(&mut self, seconds: f64, event: Event) {
        self.at(self.now_ns.saturating_add(nanoseconds(seconds)), event);
    }

    /// Goes on to the next event.
    pub(super) fn next(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.open) {
            let last = self.heap.pop().expect("the one that happened");
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        let first = self.heap.first()?;
        self.open = true;
        self.now_ns = (first.key >> 64) as u64;
        Some(first.event)
    }

    /// Puts something in the first place and lets it sink to where it belongs.
    fn sink(&mut self, expected: Expected) {
        let mut place = 0;
        loop {
            let first = place * CHILDREN + 1;
            let end = (first + CHILDREN).min(self.heap.len());
            let Some(child) = (first..end).min_by_key(|child| self.heap[*child].key) else { break };
            if self.heap[child].key >= expected.key {
                break;
            }
            self.heap[place] = self.heap[child];
            place = child;
        }
        self.heap[place] = expected;
    }
}

/// (Casts saturate: what takes longer than five centuries takes for ever.)
pub(super) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Against a sorted list: whatever is expected, and whenever, comes by time and then by cause.
    #[test]
    fn events_come_by_time_and_then_by_cause() {
        let mut clock = Clock::new();
        let (mut dice, mut expected) = (1u64, Vec::new());
        let mut caused = 0;
        for _ in 0..4000 {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // As many as zero to three are caused by each that happens; many at the same time.
            for _ in 0..[0, 1, 1, 1, 3][(dice >> 60) as usize % 5] {
                let at = clock.now_ns() + (dice >> 40) % 8;
                clock.at(at, Event::Replaced { worker: caused });
                expected.push((at, caused));
                caused += 1;
            }
            let Some(event) = clock.next() else {
                assert!(expected.is_empty());
                let at = clock.now_ns() + 1;
                clock.at(at, Event::Replaced { worker: caused });
                expected.push((at, caused));
                caused += 1;
                continue;
            };
            let first = *expected.iter().min().unwrap();
            expected.retain(|it| *it != first);
            assert_eq!((clock.now_ns(), event), (first.0, Event::Replaced { worker: first.1 }));
        }
        assert!(caused > 1000);
    }
}
