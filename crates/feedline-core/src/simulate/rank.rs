//! One training loop and its loader's books: asking, taking over, stepping, waiting for the others.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::flow::{Answer, BatchId, Flow, Rules};
use crate::schedule::costs::Costs;
use crate::schedule::{Job, MakePolicy, Policy, PolicyKind};
use crate::state::{Course, Start};

use super::Simulation;
use super::clock::{Event, seconds};
use super::cost::key;
use super::run::{Effect, Neighbours, Run};
use super::simulated::SimulatedRank;

/// A batch that is not delivered.
#[derive(Copy, Clone)]
pub(super) struct Open {
    pub(super) id: BatchId,
    /// Samples that are not made.
    pub(super) left: u64,
    pub(super) opened_ns: u64,
}

pub(super) struct Rank {
    pub(super) flow: Flow<(), Job<Neighbours>>,
    pub(super) policy: Arc<dyn Policy<Neighbours>>,
    pub(super) costs: Costs,
    token: u64,
    /// By turn, from the oldest that has samples left.
    pub(super) open: VecDeque<Open>,
    /// Kept for its room.
    pub(super) jobs: Vec<Job<Neighbours>>,
    /// Samples that were loaded and that nobody builds yet.
    pub(super) loaded: VecDeque<Job<Neighbours>>,
    /// Sleeping workers; the last one to sleep is the first to be woken. Those who build sleep apart.
    pub(super) sleepers: Vec<u32>,
    pub(super) sleeping_builders: Vec<u32>,
    asked_ns: u64,
    pub(super) waiting: bool,
    /// Whether the loop has a batch in hand.
    holds: bool,
    pub(super) idle_blocks: u64,
    pub(super) batches: u64,
    pub(super) samples: u64,
    pub(super) outcome: SimulatedRank,
    /// The integral of waiting batches over time, and since when they are as many as they are.
    pub(super) ready: (f64, u64),
}

impl Rank {
    pub(super) fn new(
        set: &Simulation,
        rules: Rules,
        course: Course,
        start: &Start,
        policy: PolicyKind,
        takers: usize,
    ) -> Rank {
        Rank {
            flow: Flow::new(rules, course, start),
            policy: policy.make(takers),
            costs: Costs::new(set.samples, policy.wants_costs()),
            token: 0,
            open: VecDeque::new(),
            jobs: Vec::new(),
            loaded: VecDeque::new(),
            sleepers: Vec::new(),
            sleeping_builders: Vec::new(),
            asked_ns: 0,
            waiting: false,
            holds: false,
            idle_blocks: 0,
            batches: 0,
            samples: 0,
            outcome: SimulatedRank::default(),
            ready: (0.0, 0),
        }
    }

    /// Frees idle blocks, so many bytes at least.
    pub(super) fn evict(&mut self, bytes: u64, batch_bytes: u64) {
        let blocks = bytes.div_ceil(batch_bytes.max(1)).min(self.idle_blocks);
        self.idle_blocks -= blocks;
        self.flow.evicted(blocks * batch_bytes);
    }

    /// One more or fewer finished batch waits.
    pub(super) fn count_ready(&mut self, now_ns: u64, change: f64) {
        let was = self.flow.ready() as f64 - change;
        self.ready.0 += was * seconds(now_ns - self.ready.1);
        self.ready.1 = now_ns;
    }
}

impl Run<'_> {
    pub(super) fn begin_epoch(&mut self, rank: usize) {
        let (token, _, effects) = self.ranks[rank].flow.begin_epoch();
        self.ranks[rank].token = token;
        self.carry_out(rank, effects);
        self.ask(rank);
    }

    fn ask(&mut self, rank: usize) {
        let now = self.clock.now_ns();
        let own = &mut self.ranks[rank];
        own.asked_ns = now;
        let (answer, effects) = own.flow.ask(own.token, now);
        self.answered(rank, answer, effects);
    }

    pub(super) fn ask_again(&mut self, rank: usize) {
        let own = &mut self.ranks[rank];
        let (answer, effects) = own.flow.ask_again(own.token, self.clock.now_ns());
        self.answered(rank, answer, effects);
    }

    fn answered(&mut self, rank: usize, answer: Answer<()>, effects: Effect) {
        self.ranks[rank].waiting = false;
        match answer {
            Answer::Batch((), _) => {
                self.ranks[rank].count_ready(self.clock.now_ns(), -1.0);
                self.carry_out(rank, effects);
                self.took(rank);
            }
            // Bunches are for sparing wake-ups, which cost nothing here; so nobody waits for more than a batch.
            Answer::Wait { .. } => {
                self.ranks[rank].waiting = true;
                self.carry_out(rank, effects);
            }
            Answer::End => {
                self.carry_out(rank, effects);
                self.begin_epoch(rank);
            }
            // There are no other loops, and nobody closes the loader; so it was told to begin no further epoch.
            Answer::NoMoreEpochs(_) | Answer::Superseded | Answer::Closed(_) => {
                self.running -= 1;
                self.drop_held(rank);
            }
        }
    }

    /// A batch was handed out: the one before it is dropped, as a `for` loop does.
    fn took(&mut self, rank: usize) {
        let now = self.clock.now_ns();
        let own = &mut self.ranks[rank];
        own.outcome.wait += seconds(now - own.asked_ns);
        if own.batches == 0 {
            own.outcome.first_batch = seconds(now);
        }
        let number = own.batches;
        let range = batch_range(self.set, number % self.set.samples.div_ceil(self.set.batch_size));
        own.samples += range.end - range.start;
        own.batches += 1;
        self.drop_held(rank);
        self.ranks[rank].holds = true;
        let handover = self.set.handover.draw(self.batch_key(rank, number, 1), number);
        self.ranks[rank].outcome.handover += handover;
        if handover > 0.0 {
            self.clock.after(handover, Event::TakenOver { rank: rank as u32 });
        } else {
            self.step(rank);
        }
    }

    fn drop_held(&mut self, rank: usize) {
        let own = &mut self.ranks[rank];
        if std::mem::take(&mut own.holds) {
            let (kept, effects) = own.flow.returned(self.batch_bytes, true);
            own.idle_blocks += u64::from(kept);
            self.carry_out(rank, effects);
        }
    }

    pub(super) fn step(&mut self, rank: usize) {
        let number = self.ranks[rank].batches - 1;
        let step = self.set.step.draw(self.batch_key(rank, number, 2), number);
        self.ranks[rank].outcome.step += step;
        self.clock.after(step, Event::Stepped { rank: rank as u32 });
    }

    /// Waits for the other ranks, if there are some. All of them have the same number of batches.
    pub(super) fn stepped(&mut self, rank: usize) {
        if self.ranks.len() == 1 {
            return self.go_on(rank);
        }
        self.ranks[rank].asked_ns = self.clock.now_ns();
        self.arrived += 1;
        if self.arrived == self.ranks.len() {
            self.arrived = 0;
            self.clock.after(self.set.exchange, Event::Exchanged);
        }
    }

    pub(super) fn go_on(&mut self, rank: usize) {
        if self.ranks.len() > 1 {
            let waited = seconds(self.clock.now_ns() - self.ranks[rank].asked_ns);
            self.ranks[rank].outcome.exchange += waited;
        }
        self.ask(rank);
    }

    fn batch_key(&self, rank: usize, number: u64, what: u64) -> u64 {
        key([self.set.seed, rank as u64, number, u64::MAX - what])
    }
}

/// The positions of a batch of an epoch.
pub(super) fn batch_range(set: &Simulation, number: u64) -> std::ops::Range<u64> {
    let first = number * set.batch_size;
    first..first.saturating_add(set.batch_size).min(set.samples)
}
