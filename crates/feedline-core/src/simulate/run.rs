//! The machinery of a simulation: it is set up, events happen, what came out is summed up.

use std::collections::VecDeque;

use crate::deliver::Delivery;
use crate::flow::{BatchId, Bunch, Effects, Rules};
use crate::plan::{Order, Plan};
use crate::schedule::grain::Grain;
use crate::schedule::{Job, MakePolicy, PolicyKind};
use crate::state::{Course, Start};

use super::clock::{Clock, Event, nanoseconds, seconds};
use super::rank::Rank;
use super::resource::Sharing;
use super::simulated::{Simulated, SimulatedRank, SimulatedStage};
use super::worker::{Portion, Worker};
use super::{Assignment, Simulation, SimulationError};

/// Some neighbouring samples of a batch.
pub(super) struct Neighbours {
    pub(super) id: BatchId,
    /// Their positions in the epoch.
    pub(super) first: u64,
    pub(super) end: u64,
    /// How long loading took and the bytes that are booked for it, where somebody else has loaded it.
    pub(super) load_ns: u64,
    pub(super) booked: u64,
}

pub(super) type Effect = Effects<(), Job<Neighbours>>;

pub(super) struct Run<'a> {
    pub(super) set: &'a Simulation,
    pub(super) clock: Clock,
    pub(super) workers: Vec<Worker>,
    pub(super) ranks: Vec<Rank>,
    /// One per resource and rank; of those that all ranks share only the first is used.
    pub(super) resources: Vec<Sharing>,
    /// Workers that were woken and look for work next.
    pub(super) woken: VecDeque<u32>,
    /// Ranks that wait for the others.
    pub(super) arrived: usize,
    /// Ranks that have batches to come.
    pub(super) running: usize,
    pub(super) stages: Vec<SimulatedStage>,
    pub(super) completions: u64,
    pub(super) batch_bytes: u64,
    pub(super) grain: Grain,
    /// Whether jobs can be held back for want of bytes.
    pub(super) holds_jobs: bool,
}

pub(super) fn run(set: &Simulation) -> Result<Simulated, SimulationError> {
    let mut run = Run::new(set)?;
    run.begin();
    while run.running > 0
        && let Some(event) = run.clock.next()
    {
        run.happen(event);
        run.work();
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
            loose: set.io_workers > 0,
            iterated: false,
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
        let takers = if set.io_workers > 0 { set.io_workers } else { set.workers };
        let start = Start::at(0, 0);
        let rank = |_| {
            let course = Course::new(&plan, &start);
            Rank::new(set, rules.clone(), course, &start, policy, takers)
        };
        let crew = set.crew();
        let worker = |index: usize| {
            let number = index % crew;
            let portion = match (set.io_workers, number) {
                (0, _) => Portion::All,
                (loading, number) if number < loading => Portion::Load,
                _ => Portion::Build,
            };
            let slow = set.slow_workers.iter().find(|(slow, _)| *slow == number);
            Worker::new(index / crew, number, portion, slow.map_or(1.0, |(_, factor)| *factor))
        };
        let resources = set
            .resources
            .iter()
            .flat_map(|resource| (0..set.ranks).map(|_| Sharing::new(*resource)));
        let stages = set.stages.iter().chain(&set.collate);
        let stages =
            stages.map(|stage| SimulatedStage { name: stage.name.clone(), ..Default::default() });
        Ok(Run {
            set,
            clock: Clock::new(),
            workers: (0..crew * set.ranks).map(worker).collect(),
            ranks: (0..set.ranks).map(rank).collect(),
            resources: resources.collect(),
            woken: VecDeque::new(),
            arrived: 0,
            running: set.ranks,
            stages: stages.collect(),
            completions: 0,
            batch_bytes,
            grain: Grain { alone: set.io_workers > 0, by_cost: policy.wants_costs() },
            holds_jobs: rules.loose,
        })
    }

    fn begin(&mut self) {
        for (number, death) in self.set.deaths.iter().enumerate() {
            self.clock.at(nanoseconds(death.at), Event::Dies { death: number as u32 });
        }
        self.woken.extend(0..self.workers.len() as u32);
        for rank in 0..self.ranks.len() {
            self.begin_epoch(rank);
        }
        self.work();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Done { worker, life } => {
                if self.workers[worker as usize].life == life {
                    self.stage_done(worker);
                }
            }
            Event::Reached { worker, life } => {
                if self.workers[worker as usize].life == life {
                    self.begin_sharing(worker);
                }
            }
            Event::Shared { resource, version } => {
                let sharing = &mut self.resources[resource as usize];
                if sharing.version == version {
                    let user = sharing.end(self.clock.now_ns());
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
            Event::Replaced { worker } => self.replaced(worker),
        }
    }

    /// Lets all who were woken look for work.
    fn work(&mut self) {
        while let Some(worker) = self.woken.pop_front() {
            self.look(worker);
        }
    }

    /// Does what the flow says.
    pub(super) fn carry_out(&mut self, rank: usize, effects: Effect) {
        if effects.evict > 0 {
            self.ranks[rank].evict(effects.evict, self.batch_bytes);
        }
        if effects.wake_workers > 0 {
            self.wake(rank, effects.wake_workers);
        }
        if effects.wake_consumer && self.ranks[rank].waiting {
            self.ask_again(rank);
        }
    }

    pub(super) fn wake(&mut self, rank: usize, most: usize) {
        let sleepers = &mut self.ranks[rank].sleepers;
        let awake = sleepers.len() - most.min(sleepers.len());
        for worker in sleepers.drain(awake..) {
            self.workers[worker as usize].sleeping = false;
            self.woken.push_back(worker);
        }
    }

    fn outcome(self) -> Simulated {
        let duration = seconds(self.clock.now_ns());
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
