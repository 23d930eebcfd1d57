//! A loader on a virtual clock: what would happen with 256 workers, 64 ranks, slower storage, longer steps.
//!
//! A discrete-event simulation in which the decisions are the engine's own: [`Flow`](crate::flow) says what may be
//! opened, whose batch is next and who is woken, the [policies](crate::schedule) say who takes which job, and
//! [`grain`](crate::schedule::grain) how many samples travel together. What threads, memory and user code do is
//! replaced by [costs](Cost) that are drawn, and a clock that jumps from event to event. A sample costs the same under
//! every policy and with any number of workers, so settings can be compared on the same work.
//!
//! ```text
//!   a worker:    take a job ─► each sample: stage 0, 1, 2… ─► the last one of a batch also collates
//!                     │ none: open the next batch │ not allowed: sleep until woken
//!   a rank's loop:    ask ─► wait ─► hand-over ─► step ─► wait for the other ranks ─► drop the batch, ask
//! ```
//!
//! A stage's cost is seconds of its own (a core to itself), or a demand on a [`Resource`] that many share: seconds of
//! cores or of an interpreter's lock, bytes of a disk; a latency may come before it. With
//! [`io_workers`](Simulation::io_workers) some only load and others build, as in the engine. Left out: the caches and the scheduler of the
//! machine, and what a wake-up costs.
//!
//! Uses `plan`, `schedule`, `flow` and `state`.

mod clock;
mod cost;
mod death;
mod rank;
mod resource;
mod run;
mod simulated;
#[cfg(all(test, not(loom)))]
mod test;
mod worker;

use crate::deliver::Delivery;
use crate::plan::PlanError;
use crate::schedule::PolicyKind;

pub use cost::Cost;
pub use resource::Resource;
pub use simulated::{Simulated, SimulatedRank, SimulatedStage};

/// One stage of a sample's way, or what is done once per batch.
#[derive(Clone, Debug, PartialEq)]
pub struct StageCost {
    /// Its name in the outcome.
    pub name: String,
    /// Seconds before anything of it is served: a seek, a round trip to storage.
    pub latency: Option<Cost>,
    /// Seconds, or a demand on the resource.
    pub cost: Cost,
    /// Which of the simulation's resources it uses; `None`: it takes its time whatever others do.
    pub uses: Option<usize>,
}

/// How the samples of a batch are given out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// As feedline's engine does: jobs of one or some samples, by the policy; all workers fill one batch together.
    Samples,
    /// As torch's DataLoader does: whole batches, in turn to each worker.
    Batches,
}

/// A worker that dies and is replaced; the samples it had in hand are made again.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Death {
    /// Of which rank.
    pub rank: usize,
    /// Which worker of it; with `io_workers` those who load come first, then those who build.
    pub worker: usize,
    /// When, in seconds.
    pub at: f64,
    /// After how many seconds another one takes its place.
    pub replaced_after: f64,
}

/// A loader and its training loop, in numbers.
///
/// ```
/// use feedline_core::simulate::{Cost, Simulation};
///
/// // The published experiment: samples of 10 ms in batches of 64, no training step.
/// let mut simulation = Simulation::new(3200, 64);
/// simulation.stage("load", Cost::constant(0.010)?);
/// simulation.workers = 256;
/// simulation.prefetch = 8;
/// let outcome = simulation.run()?;
/// assert!(outcome.throughput() > 20_000.0);
/// # Ok::<(), feedline_core::simulate::SimulationError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Samples of an epoch, of each rank.
    pub samples: u64,
    /// Samples of a batch.
    pub batch_size: u64,
    /// How many epochs.
    pub epochs: u64,
    /// Workers of each rank.
    pub workers: usize,
    /// Further workers of each rank that do the first stage alone, one sample at a time; `workers` then do the others.
    pub io_workers: usize,
    /// What a sample takes that is loaded and not built, with `io_workers`.
    pub raw_bytes: u64,
    /// How many batches are read ahead.
    pub prefetch: usize,
    /// The byte budget of each rank.
    pub memory: u64,
    /// What a sample takes in a batch.
    pub sample_bytes: u64,
    /// Who takes which job.
    pub policy: PolicyKind,
    /// By samples or by whole batches.
    pub assignment: Assignment,
    /// In order, or as samples become ready.
    pub delivery: Delivery,
    /// What is done to each sample, one after the other.
    pub stages: Vec<StageCost>,
    /// What the worker that finishes a batch does for it: collating, serialising.
    pub collate: Option<StageCost>,
    /// What the training loop's thread does for each batch before it has it: unpickling, a copy.
    pub handover: Cost,
    /// The training step.
    pub step: Cost,
    /// How many training loops there are, each with its own loader; each waits for all after every step.
    pub ranks: usize,
    /// What ranks need to exchange after each step, in seconds.
    pub exchange: f64,
    /// What workers share.
    pub resources: Vec<Resource>,
    /// Workers (of every rank) that take so many times as long for everything.
    pub slow_workers: Vec<(usize, f64)>,
    /// Workers that die.
    pub deaths: Vec<Death>,
    /// Draws other costs.
    pub seed: u64,
}

impl Simulation {
    /// One rank, one worker, two batches read ahead, no costs.
    #[must_use]
    pub fn new(samples: u64, batch_size: u64) -> Simulation {
        let nothing = || Cost::constant(0.0).expect("nothing is a cost");
        Simulation {
            samples,
            batch_size,
            epochs: 1,
            workers: 1,
            io_workers: 0,
            raw_bytes: 0,
            prefetch: 2,
            memory: u64::MAX,
            sample_bytes: 0,
            policy: PolicyKind::Steal,
            assignment: Assignment::Samples,
            delivery: Delivery::InOrder,
            stages: Vec::new(),
            collate: None,
            handover: nothing(),
            step: nothing(),
            ranks: 1,
            exchange: 0.0,
            resources: Vec::new(),
            slow_workers: Vec::new(),
            deaths: Vec::new(),
            seed: 0,
        }
    }

    /// Adds a stage that takes its time whatever others do.
    pub fn stage(&mut self, name: &str, cost: Cost) -> &mut Simulation {
        self.stages.push(StageCost { name: name.into(), latency: None, cost, uses: None });
        self
    }

    /// Adds a stage that uses a resource.
    pub fn stage_on(&mut self, name: &str, cost: Cost, resource: usize) -> &mut Simulation {
        let uses = Some(resource);
        self.stages.push(StageCost { name: name.into(), latency: None, cost, uses });
        self
    }

    /// Workers of a rank, those who load and those who build.
    fn crew(&self) -> usize {
        self.workers + self.io_workers
    }

    /// Runs it to the end.
    ///
    /// # Errors
    ///
    /// If a setting cannot be; the message says which and what to pass.
    pub fn run(&self) -> Result<Simulated, SimulationError> {
        self.check()?;
        run::run(self)
    }

    fn check(&self) -> Result<(), SimulationError> {
        let counts = [
            ("samples", self.samples),
            ("batch_size", self.batch_size),
            ("epochs", self.epochs),
            ("workers", self.workers as u64),
            ("prefetch", self.prefetch as u64),
            ("ranks", self.ranks as u64),
        ];
        for (what, got) in counts {
            if got == 0 {
                return Err(SimulationError::Zero { what });
            }
        }
        for (what, got, limit) in [
            (
                "workers of all ranks",
                self.workers.saturating_add(self.io_workers).saturating_mul(self.ranks),
                MOST_WORKERS,
            ),
            ("batch_size", usize::try_from(self.batch_size).unwrap_or(usize::MAX), MOST_BATCH),
        ] {
            if got > limit {
                return Err(SimulationError::TooMany { what, got, limit });
            }
        }
        let uses = self.stages.iter().chain(&self.collate).filter_map(|stage| stage.uses);
        for resource in uses {
            if resource >= self.resources.len() {
                let has = self.resources.len();
                return Err(SimulationError::NoSuchResource { resource, has });
            }
        }
        for resource in &self.resources {
            for (what, got) in [("capacity", resource.capacity), ("each", resource.each)] {
                if !(got.is_finite() && got > 0.0) {
                    return Err(SimulationError::NotPositive { what, got });
                }
            }
        }
        for (what, got) in self
            .deaths
            .iter()
            .flat_map(|death| [("at", death.at), ("replaced_after", death.replaced_after)])
            .chain(
                self.slow_workers
                    .iter()
                    .map(|(_, factor)| ("the factor of a slow worker", *factor)),
            )
            .chain([("exchange", self.exchange)])
        {
            if !(got.is_finite() && got >= 0.0) {
                return Err(SimulationError::NotACost { what, got });
            }
        }
        if self.io_workers > 0 && self.assignment == Assignment::Batches {
            return Err(SimulationError::Apart);
        }
        let batch = self.batch_size.min(self.samples).saturating_mul(self.sample_bytes);
        if batch > self.memory {
            return Err(SimulationError::TooSmall { batch, memory: self.memory });
        }
        Ok(())
    }
}

/// More than a simulation has room for.
const MOST_WORKERS: usize = 1 << 20;
const MOST_BATCH: usize = 1 << 24;

/// A setting that cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A count of nothing.
    #[error("{what} is 0; pass at least 1")]
    Zero {
        /// The setting.
        what: &'static str,
    },
    /// A cost that is no number of seconds or bytes.
    #[error("{what} is {got}; pass a finite number that is at least 0")]
    NotACost {
        /// Which.
        what: &'static str,
        /// Its value.
        got: f64,
    },
    /// A number that must be above 0.
    #[error("{what} of a resource is {got}; pass a finite number above 0")]
    NotPositive {
        /// Which.
        what: &'static str,
        /// Its value.
        got: f64,
    },
    /// A share outside 0 to 1.
    #[error("{what} is {got}; pass a share from 0 to 1")]
    NotAShare {
        /// Which.
        what: &'static str,
        /// Its value.
        got: f64,
    },
    /// No values to draw from.
    #[error("{what} are empty; give at least one")]
    Empty {
        /// Which.
        what: &'static str,
    },
    /// More than can be simulated.
    #[error("{what} are {got}; at most {limit} can be simulated")]
    TooMany {
        /// Which.
        what: &'static str,
        /// How many.
        got: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A stage uses what is not there.
    #[error("a stage uses resource {resource} and there are {has}; add it to `resources`")]
    NoSuchResource {
        /// Its number.
        resource: usize,
        /// How many there are.
        has: usize,
    },
    /// Not even one batch fits.
    #[error(
        "a batch takes {batch} bytes and the budget is {memory}; raise `memory` or make batches smaller"
    )]
    TooSmall {
        /// Bytes of a batch.
        batch: u64,
        /// The budget.
        memory: u64,
    },
    /// Whole batches are given out, but each sample is loaded by one and built by another.
    #[error("io_workers load samples one by one; give out samples, or set io_workers to 0")]
    Apart,
    /// The samples cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
