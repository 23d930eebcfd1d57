//! The clock, the events, and what happens at each.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::deliver::Delivery;
use crate::flow::{Answer, BatchId, Bunch, Effects, Finished, Flow, Opening, Rules};
use crate::plan::{Order, Plan};
use crate::schedule::costs::Costs;
use crate::schedule::grain::grain;
use crate::schedule::{Job, MakePolicy, Policy, PolicyKind};
use crate::state::{Course, Start};

use super::cost::key;
use super::resource::Sharing;
use super::simulated::{Simulated, SimulatedRank, SimulatedStage};
use super::{Assignment, Simulation, SimulationError};

/// Some neighbouring samples of a batch.
struct Work {
    id: BatchId,
    /// Their positions in the epoch.
    first: u64,
    end: u64,
}

type Effect = Effects<(), Job<Work>>;

/// What happens at some time.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker (numbered over all ranks) has done what it was at, unless it died since.
    Done { worker: u32, life: u32 },
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

/// What a worker is at.
struct Worker {
    rank: usize,
    /// Its number within its rank.
    number: usize,
    job: Option<Job<Work>>,
    /// Which sample of the job, and which of its stages.
    at: (u64, usize),
    /// Batches that it collates after its job.
    collating: Vec<Open>,
    began_ns: u64,
    job_began_ns: u64,
    busy_ns: u64,
    /// Raised by death.
    life: u32,
    alive: bool,
    slowness: f64,
    sleeping: bool,
}

/// A batch that is not finished.
struct Open {
    id: BatchId,
    left: u64,
    opened_ns: u64,
}

/// One training loop and its loader.
struct Rank {
    flow: Flow<(), Job<Work>>,
    policy: Arc<dyn Policy<Work>>,
    costs: Costs,
    token: u64,
    open: VecDeque<Open>,
    /// Sleeping workers; the last one to sleep is the first to be woken.
    sleepers: Vec<u32>,
    asked_ns: u64,
    waiting: bool,
    holds: u64,
    idle_blocks: u64,
    batches: u64,
    samples: u64,
    over: bool,
    outcome: SimulatedRank,
    /// The integral of waiting batches over time, and since when they are as many as they are.
    ready: (f64, u64),
}

struct Run<'a> {
    set: &'a Simulation,
    now_ns: u64,
    /// Raised with each event, so that those of one time come in the order in which they were caused.
    sequence: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    workers: Vec<Worker>,
    ranks: Vec<Rank>,
    /// One per resource that is shared by all ranks, or one per rank.
    resources: Vec<Sharing>,
    /// Workers that were woken and look for work next.
    woken: VecDeque<u32>,
    arrived: usize,
    stages: Vec<SimulatedStage>,
    completions: u64,
    batch_bytes: u64,
}

pub(super) fn run(set: &Simulation) -> Result<Simulated, SimulationError> {
    let mut run = Run::new(set)?;
    run.begin();
    while let Some(Reverse((at, _, event))) = run.events.pop() {
        run.now_ns = at;
        run.happen(event);
        run.work();
        if run.ranks.iter().all(|rank| rank.over) {
            break;
        }
    }
    Ok(run.outcome())
}

impl<'a> Run<'a> {
    fn new(set: &'a Simulation) -> Result<Run<'a>, SimulationError> {
        let plan = Plan::builder(set.samples).order(Order::Sequential).batch_size(set.batch_size);
        let plan = plan.build()?;
        let batch_bytes = set.batch_size.min(set.samples).saturating_mul(set.sample_bytes);
        let window = match set.delivery {
            Delivery::InOrder => None,
            Delivery::Ready { window } => Some(window as u64),
        };
        let rules = Rules {
            prefetch: set.prefetch,
            elastic: false,
            frugal: false,
            bunch: Bunch::of(1),
            budget: set.memory,
            batch_bytes,
            loose: false,
            padded: false,
            window,
            epochs: Some(set.epochs),
            apart: false,
            batch_size: set.batch_size,
        };
        let policy = match set.assignment {
            Assignment::Samples => set.policy,
            Assignment::Batches => PolicyKind::RoundRobin,
        };
        let start = Start::at(0, 0);
        let rank = |_| Rank {
            flow: Flow::new(rules.clone(), Course::new(&plan, &start), &start),
            policy: policy.make(set.workers),
            costs: Costs::new(set.samples, policy.wants_costs()),
            token: 0,
            open: VecDeque::new(),
            sleepers: Vec::new(),
            asked_ns: 0,
            waiting: false,
            holds: 0,
            idle_blocks: 0,
            batches: 0,
            samples: 0,
            over: false,
            outcome: SimulatedRank::default(),
            ready: (0.0, 0),
        };
        let worker = |index: usize| {
            let number = index % set.workers;
            let slow = set.slow_workers.iter().find(|(slow, _)| *slow == number);
            Worker {
                rank: index / set.workers,
                number,
                job: None,
                at: (0, 0),
                collating: Vec::new(),
                began_ns: 0,
                job_began_ns: 0,
                busy_ns: 0,
                life: 0,
                alive: true,
                slowness: slow.map_or(1.0, |(_, factor)| *factor),
                sleeping: false,
            }
        };
        let resources = set
            .resources
            .iter()
            .flat_map(|resource| (0..set.ranks).map(|_| Sharing::new(*resource)));
        let stages = set.stages.iter().chain(&set.collate);
        Ok(Run {
            set,
            now_ns: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            workers: (0..set.workers * set.ranks).map(worker).collect(),
            ranks: (0..set.ranks).map(rank).collect(),
            resources: resources.collect(),
            woken: VecDeque::new(),
            arrived: 0,
            stages: stages
                .map(|s| SimulatedStage { name: s.name.clone(), ..Default::default() })
                .collect(),
            completions: 0,
            batch_bytes,
        })
    }

    fn begin(&mut self) {
        for (number, death) in self.set.deaths.iter().enumerate() {
            self.at(nanoseconds(death.at), Event::Dies { death: number as u32 });
        }
        self.woken.extend(0..self.workers.len() as u32);
        for rank in 0..self.ranks.len() {
            self.begin_epoch(rank);
        }
        self.work();
    }

    fn at(&mut self, ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((ns, self.sequence, event)));
    }

    fn after(&mut self, seconds: f64, event: Event) {
        self.at(self.now_ns.saturating_add(nanoseconds(seconds)), event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Done { worker, life } => {
                if self.workers[worker as usize].life == life {
                    self.stage_done(worker);
                }
            }
            Event::Shared { resource, version } => {
                let sharing = &mut self.resources[resource as usize];
                if sharing.version == version {
                    let user = sharing.end(self.now_ns);
                    self.expect(resource);
                    if let Some(worker) = user {
                        self.stage_done(worker);
                    }
                }
            }
            Event::TakenOver { rank } => self.step(rank as usize),
            Event::Stepped { rank } => self.stepped(rank as usize),
            Event::Exchanged => {
                for rank in 0..self.ranks.len() {
                    self.go_on(rank);
                }
            }
            Event::Dies { death } => self.die(death as usize),
            Event::Replaced { worker } => {
                self.workers[worker as usize].alive = true;
                match self.workers[worker as usize].job {
                    // What it collated is collated again.
                    Some(_) => self.begin_stage(worker),
                    None => self.woken.push_back(worker),
                }
            }
        }
    }

    // ---- the training loop

    fn begin_epoch(&mut self, rank: usize) {
        let (token, _, effects) = self.ranks[rank].flow.begin_epoch();
        self.ranks[rank].token = token;
        self.carry_out(rank, effects);
        self.ask(rank);
    }

    fn ask(&mut self, rank: usize) {
        let now = self.now_ns;
        let own = &mut self.ranks[rank];
        own.asked_ns = now;
        let (answer, effects) = own.flow.ask(own.token, now);
        self.answered(rank, answer, effects);
    }

    fn ask_again(&mut self, rank: usize) {
        let own = &mut self.ranks[rank];
        let (answer, effects) = own.flow.ask_again(own.token, self.now_ns);
        self.answered(rank, answer, effects);
    }

    fn answered(&mut self, rank: usize, answer: Answer<()>, effects: Effect) {
        self.ranks[rank].waiting = false;
        match answer {
            Answer::Batch((), _) => {
                self.count_ready(rank, -1.0);
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
                self.ranks[rank].over = true;
                self.release_held(rank);
            }
        }
    }

    /// A batch was handed out: the one before it is dropped, as a `for` loop does.
    fn took(&mut self, rank: usize) {
        let wait = seconds(self.now_ns - self.ranks[rank].asked_ns);
        let own = &mut self.ranks[rank];
        own.outcome.wait += wait;
        if own.batches == 0 {
            own.outcome.first_batch = seconds(self.now_ns);
        }
        let range = batch_range(self.set, own.batches % batches_of(self.set));
        own.samples += range.end - range.start;
        own.batches += 1;
        let number = own.batches;
        self.release_held(rank);
        self.ranks[rank].holds = 1;
        let handover = self.set.handover.draw(self.batch_key(rank, number, 1));
        self.ranks[rank].outcome.handover += handover;
        if handover > 0.0 {
            self.after(handover, Event::TakenOver { rank: rank as u32 });
        } else {
            self.step(rank);
        }
    }

    fn release_held(&mut self, rank: usize) {
        let own = &mut self.ranks[rank];
        if own.holds > 0 {
            own.holds -= 1;
            let (kept, effects) = own.flow.returned(self.batch_bytes, true);
            own.idle_blocks += u64::from(kept);
            self.carry_out(rank, effects);
        }
    }

    fn step(&mut self, rank: usize) {
        let step = self.set.step.draw(self.batch_key(rank, self.ranks[rank].batches, 2));
        self.ranks[rank].outcome.step += step;
        self.after(step, Event::Stepped { rank: rank as u32 });
    }

    /// Waits for the other ranks, if there are some. All of them have the same number of batches.
    fn stepped(&mut self, rank: usize) {
        if self.ranks.len() == 1 {
            return self.go_on(rank);
        }
        self.ranks[rank].asked_ns = self.now_ns;
        self.arrived += 1;
        if self.arrived == self.ranks.len() {
            self.arrived = 0;
            self.after(self.set.exchange, Event::Exchanged);
        }
    }

    fn go_on(&mut self, rank: usize) {
        if self.ranks.len() > 1 {
            let waited = seconds(self.now_ns - self.ranks[rank].asked_ns);
            self.ranks[rank].outcome.exchange += waited;
        }
        self.ask(rank);
    }

    fn batch_key(&self, rank: usize, number: u64, what: u64) -> u64 {
        key([self.set.seed, rank as u64, number, u64::MAX - what])
    }

    // ---- workers

    /// Lets all who were woken look for work.
    fn work(&mut self) {
        while let Some(worker) = self.woken.pop_front() {
            self.look(worker);
        }
    }

    /// As the engine's step: take a job, else open the next batch, else sleep.
    fn look(&mut self, worker: u32) {
        let Worker { rank, number, alive, sleeping, .. } = self.workers[worker as usize];
        if !alive || self.workers[worker as usize].job.is_some() {
            return;
        }
        debug_assert!(!sleeping);
        loop {
            if let Some(job) = self.ranks[rank].policy.take(number) {
                return self.begin_job(worker, job);
            }
            if !self.open_next(rank) {
                break;
            }
        }
        self.workers[worker as usize].sleeping = true;
        self.ranks[rank].sleepers.push(worker);
        let effects = self.ranks[rank].flow.idle();
        self.carry_out(rank, effects);
    }

    /// Opens the next batch, if it may be opened.
    fn open_next(&mut self, rank: usize) -> bool {
        let set = self.set;
        let own = &mut self.ranks[rank];
        let Opening::Batch { id, course, .. } = own.flow.open() else { return false };
        let range = course.batch_range(id.epoch, id.number);
        let reused = own.idle_blocks > 0;
        own.idle_blocks -= u64::from(reused);
        let evict = own.flow.took(self.batch_bytes, reused, self.batch_bytes).evict;
        if evict > 0 {
            let blocks = evict.div_ceil(self.batch_bytes.max(1)).min(own.idle_blocks);
            own.idle_blocks -= blocks;
            own.flow.evicted(blocks * self.batch_bytes);
        }
        let slots = range.end - range.start;
        let mean = own.costs.mean_ns();
        let together = match set.assignment {
            Assignment::Batches => slots,
            Assignment::Samples => grain(mean, slots as usize) as u64,
        };
        let by_cost = set.policy.wants_costs();
        let mut jobs = Vec::with_capacity(slots.div_ceil(together) as usize);
        let mut first = range.start;
        while first < range.end {
            let end = (first + together).min(range.end);
            let cost: f64 = match by_cost {
                true => (first..end).map(|sample| own.costs.expect(sample, || None)).sum(),
                false => mean * (end - first) as f64,
            };
            let work = Work { id, first, end };
            let samples = (end - first) as u32;
            jobs.push(Job { batch: id.turn, cost_ns: cost as u64, samples, work });
            first = end;
        }
        let wakes = if own.policy.anyone_may_take() { jobs.len() } else { usize::MAX };
        let Some(effects) = own.flow.opened(id, slots, wakes) else { return false };
        own.policy.submit(&mut jobs);
        own.open.push_back(Open { id, left: slots, opened_ns: self.now_ns });
        self.carry_out(rank, effects);
        true
    }

    fn begin_job(&mut self, worker: u32, job: Job<Work>) {
        let own = &mut self.workers[worker as usize];
        own.at = (job.work.first, 0);
        own.job_began_ns = self.now_ns;
        own.job = Some(job);
        self.begin_stage(worker);
    }

    /// Begins the stage the worker is at.
    fn begin_stage(&mut self, worker: u32) {
        let set = self.set;
        let own = &mut self.workers[worker as usize];
        own.began_ns = self.now_ns;
        let (sample, stage) = own.at;
        let collates = !own.collating.is_empty();
        let what = if collates { set.collate.as_ref() } else { set.stages.get(stage) };
        let Some(what) = what else {
            // No stages at all: a sample is made in no time.
            let life = own.life;
            return self.at(self.now_ns, Event::Done { worker, life });
        };
        let job = own.job.as_ref().expect("it has a job");
        // A sample costs the same whoever makes it; another epoch draws anew.
        let (place, stage) = match collates {
            true => (job.work.id.number, set.stages.len()),
            false => (sample, stage),
        };
        let about = (own.rank as u64) << 32 | job.work.id.epoch;
        let mut demand = what.cost.draw(key([set.seed, about, place, stage as u64]));
        demand *= own.slowness;
        match what.uses {
            None => {
                let life = own.life;
                self.after(demand, Event::Done { worker, life });
            }
            Some(resource) => {
                let resource = self.instance(resource, self.workers[worker as usize].rank);
                self.resources[resource as usize].begin(self.now_ns, worker, demand);
                self.expect(resource);
            }
        }
    }

    /// Which instance of a resource a rank uses.
    fn instance(&self, resource: usize, rank: usize) -> u32 {
        let shared = self.set.resources[resource].shared_by_ranks;
        (resource * self.set.ranks + if shared { 0 } else { rank }) as u32
    }

    /// Expects the next user of a resource to be done.
    fn expect(&mut self, resource: u32) {
        let sharing = &self.resources[resource as usize];
        let version = sharing.version;
        if let Some(at) = sharing.next_ns() {
            self.at(at.max(self.now_ns), Event::Shared { resource, version });
        }
    }

    fn stage_done(&mut self, worker: u32) {
        self.completions += 1;
        let stages = self.set.stages.len();
        let own = &mut self.workers[worker as usize];
        let collates = !own.collating.is_empty();
        let (sample, stage) = own.at;
        let took = self.now_ns - own.began_ns;
        if let Some(outcome) = self.stages.get_mut(if collates { stages } else { stage }) {
            outcome.count += 1;
            outcome.busy += seconds(took);
        }
        if collates {
            let rank = own.rank;
            for batch in std::mem::take(&mut own.collating) {
                self.finished(rank, batch);
            }
            return self.free(worker);
        }
        if stage + 1 < stages {
            own.at.1 += 1;
            return self.begin_stage(worker);
        }
        if sample + 1 < own.job.as_ref().expect("it has a job").work.end {
            own.at = (sample + 1, 0);
            return self.begin_stage(worker);
        }
        self.job_done(worker);
    }

    /// All samples of a job are made. Whoever makes the last of a batch collates it.
    fn job_done(&mut self, worker: u32) {
        let own = &self.workers[worker as usize];
        let (rank, number) = (own.rank, own.number);
        let elapsed = self.now_ns - own.job_began_ns;
        let job = own.job.as_ref().expect("it has a job");
        let (samples, id, first) = (job.samples, job.work.id, job.work.first);
        let costs = &self.ranks[rank].costs;
        if samples == 1 {
            costs.learn(first, elapsed, || None);
        } else {
            costs.learn_mean(elapsed as f64 / f64::from(samples));
        }
        let full = self.place(rank, id, u64::from(samples));
        if self.ranks[rank].policy.finished(number, samples, elapsed) {
            self.wake(rank, usize::MAX);
        }
        if self.set.collate.is_some() && !full.is_empty() {
            self.workers[worker as usize].collating = full;
            return self.begin_stage(worker);
        }
        for batch in full {
            self.finished(rank, batch);
        }
        self.free(worker);
    }

    /// Counts samples into their batch, or in ready order into the oldest that are not full. Takes out those that are
    /// full now.
    fn place(&mut self, rank: usize, id: BatchId, samples: u64) -> Vec<Open> {
        let open = &mut self.ranks[rank].open;
        let mut full = Vec::new();
        if self.set.delivery == Delivery::InOrder {
            let at = open.iter().position(|open| open.id.turn == id.turn).expect("it is open");
            open[at].left -= samples;
            if open[at].left == 0 {
                full.extend(open.remove(at));
            }
            return full;
        }
        let mut left = samples;
        while left > 0 {
            let at = open.iter().position(|open| open.id.epoch == id.epoch);
            let at = at.expect("an epoch has as many places as samples");
            let placed = left.min(open[at].left);
            open[at].left -= placed;
            left -= placed;
            if open[at].left == 0 {
                full.extend(open.remove(at));
            }
        }
        let (_, effects) = self.ranks[rank].flow.made((id.generation, id.turn), samples, 0, 0);
        self.carry_out(rank, effects);
        full
    }

    fn finished(&mut self, rank: usize, batch: Open) {
        let own = &mut self.ranks[rank];
        let positions = match self.set.delivery {
            Delivery::InOrder => Vec::new(),
            // Which ones does not matter here, as long as each comes once.
            Delivery::Ready { .. } => batch_range(self.set, batch.id.number).collect(),
        };
        let done = Finished { batch: (), positions, bytes: self.batch_bytes };
        let batch_ns = (self.now_ns - batch.opened_ns) as f64;
        if let Ok(effects) = own.flow.finished(batch.id, done, Some(batch_ns)) {
            self.count_ready(rank, 1.0);
            self.carry_out(rank, effects);
        }
    }

    /// A worker has done its job and looks for another.
    fn free(&mut self, worker: u32) {
        let own = &mut self.workers[worker as usize];
        own.busy_ns += self.now_ns - own.job_began_ns;
        own.job = None;
        self.woken.push_back(worker);
    }

    fn die(&mut self, death: usize) {
        let death = self.set.deaths[death];
        if death.rank >= self.set.ranks || death.worker >= self.set.workers {
            return;
        }
        let worker = (death.rank * self.set.workers + death.worker) as u32;
        let own = &mut self.workers[worker as usize];
        if !own.alive {
            return;
        }
        own.alive = false;
        own.life += 1;
        if std::mem::take(&mut own.sleeping) {
            self.ranks[death.rank].sleepers.retain(|sleeper| *sleeper != worker);
        }
        let own = &mut self.workers[worker as usize];
        if own.job.is_some() {
            own.busy_ns += self.now_ns - own.job_began_ns;
            let stage = match own.collating.is_empty() {
                true => self.set.stages.get(own.at.1),
                false => self.set.collate.as_ref(),
            };
            if let Some(resource) = stage.and_then(|stage| stage.uses) {
                let resource = self.instance(resource, death.rank);
                self.resources[resource as usize].leave(self.now_ns, worker);
                self.expect(resource);
            }
            let own = &mut self.workers[worker as usize];
            if own.collating.is_empty() {
                // What it has made of the job is lost with it.
                let job = own.job.take();
                self.ranks[death.rank].policy.submit(&mut job.into_iter().collect());
                self.wake(death.rank, usize::MAX);
            }
        }
        self.after(death.replaced_after, Event::Replaced { worker });
    }

    // ---- what the flow says

    fn carry_out(&mut self, rank: usize, effects: Effect) {
        if effects.wake_workers > 0 {
            self.wake(rank, effects.wake_workers);
        }
        if effects.wake_consumer && self.ranks[rank].waiting {
            self.ask_again(rank);
        }
    }

    fn wake(&mut self, rank: usize, most: usize) {
        let sleepers = &mut self.ranks[rank].sleepers;
        let awake = sleepers.len() - most.min(sleepers.len());
        for worker in sleepers.drain(awake..) {
            self.workers[worker as usize].sleeping = false;
            self.woken.push_back(worker);
        }
    }

    /// One more or fewer finished batch waits.
    fn count_ready(&mut self, rank: usize, change: f64) {
        let now = self.now_ns;
        let own = &mut self.ranks[rank];
        let was = own.flow.ready() as f64 - change;
        own.ready.0 += was * seconds(now - own.ready.1);
        own.ready.1 = now;
    }

    fn outcome(self) -> Simulated {
        let duration = seconds(self.now_ns);
        let busy: Vec<f64> = self.workers.iter().map(|worker| seconds(worker.busy_ns)).collect();
        let (total, longest) = (busy.iter().sum::<f64>(), busy.iter().copied().fold(0.0, f64::max));
        let mean = total / busy.len() as f64;
        let samples = self.ranks.iter().map(|rank| rank.samples).sum();
        let batches = self.ranks.iter().map(|rank| rank.batches).sum();
        let ranks = self.ranks.into_iter().map(|rank| SimulatedRank {
            ready: if duration > 0.0 { rank.ready.0 / duration } else { 0.0 },
            peak_bytes: rank.flow.memory().peak,
            ..rank.outcome
        });
        Simulated {
            duration,
            samples,
            batches,
            ranks: ranks.collect(),
            stages: self.stages,
            utilisation: if duration > 0.0 { mean / duration } else { 0.0 },
            imbalance: if mean > 0.0 { longest / mean } else { 1.0 },
            completions: self.completions,
        }
    }
}

/// How many batches an epoch has.
fn batches_of(set: &Simulation) -> u64 {
    set.samples.div_ceil(set.batch_size)
}

/// The positions of a batch of an epoch.
fn batch_range(set: &Simulation, number: u64) -> std::ops::Range<u64> {
    let first = number * set.batch_size;
    first..first.saturating_add(set.batch_size).min(set.samples)
}

/// (Casts saturate: what takes longer than five centuries takes for ever.)
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}
