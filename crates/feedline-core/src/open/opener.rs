//! Opening the next batch: its block, its samples, its jobs.
//!
//! Batches are opened one after the other in planned order, by whichever worker finds nothing else to do. It
//! holds the *opener's* lock all the while, so the number of the batch, its block and its jobs' place in the
//! queues all follow from the order in which that lock is taken, and the batch that is needed first is worked
//! on first.
//!
//! A consumer that has workers never takes the opener's lock: memory for a batch, and which samples it has, can
//! take longer than all that the consumer does for one. The opener asks the [`Gate`] twice: whether and which
//! batch may be opened, and, when all is prepared, to queue its jobs. In between the consumer may deliver, let go
//! and ask, which can only make more room. It may also begin a new generation (or stop), which the gate answers with
//! the second time: then what was prepared is dropped, outside the gate's lock, and the worker comes again. Nobody else opens in
//! between, so within one generation the next batch is still the same.
//!
//! Locks are taken in the order opener, gate, composer, queues.
//!
//! An epoch's plan is made by whoever opens its first batch, without any lock; others who come meanwhile
//! sleep until it is there.
//!
//! When an epoch's last batch is opened the next epoch's first one follows, so that it fills while this
//! one drains.
//!
//! The samples of an iterable dataset are taken from its iterator ([`Iterating`]) by whoever opens their batch, without
//! any lock, too. There, nobody knows which batch is the last: the gate is told when the iterator has no more, and
//! nothing of the next epoch is opened before somebody wants it.

use std::sync::Arc;

use crate::assemble::{BatchLayout, Block, Composer, Draft, OutOfMemory, Pool};
use crate::deliver::{BatchResult, OrderLog};
use crate::flow::{BatchId, Charge, Finished, Gate, Ledger, Opening};
use crate::plan::{EpochPlan, Position, SampleIndex};
use crate::schedule::{Job, Policy, costs::Costs, grain::Grain};
use crate::state::{Course, Positions};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::work::{Attempt, Lot, Pulled, Work};

use super::iteration::{Iterating, Iteration, TakenSamples};

/// Opens batches.
pub(crate) struct Opener {
    pub(crate) gate: Arc<Gate<BatchResult, Job<Work>>>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) policy: Arc<dyn Policy<Work>>,
    pub(crate) costs: Arc<Costs>,
    pub(crate) grain: Grain,
    /// The layout of a full batch; `None` without fixed fields or with custom collation.
    pub(crate) layout: Option<BatchLayout>,
    pub(crate) keeps_parcels: bool,
    /// In ready order: where samples are placed.
    pub(crate) composer: Option<Arc<Composer>>,
    pub(crate) replay: Vec<OrderLog>,
    /// Where samples come from, of an iterable dataset.
    pub(crate) iterating: Option<Iterating>,
    /// How many samples before they are made the dataset is told of them.
    pub(crate) look_ahead: usize,
    pub(crate) prepared: Mutex<NextBatch>,
}

/// What whoever opens a batch has in hand.
#[derive(Default)]
pub(crate) struct NextBatch {
    /// An epoch's plan, and the course it is a plan of: what is left of an epoch has another plan.
    epoch: Option<(Course, EpochPlan)>,
    /// In which generation, of which epoch and up to which of its batches the dataset was told what comes.
    told: (u64, u64, u64),
    /// Whether somebody is making the next epoch's plan.
    planning: bool,
    /// The pass over an iterable dataset that is under way, and whether somebody takes samples from it.
    pass: Option<Iteration>,
    pulling: bool,
    /// Kept for its room.
    jobs: Vec<Job<Work>>,
}

impl NextBatch {
    /// Whether the plan of this epoch is there.
    fn has(&self, course: &Course, epoch: u64) -> bool {
        self.epoch.as_ref().is_some_and(|(of, plan)| of.is(course) && plan.epoch() == epoch)
    }
}

/// What [`Opener::open_next`] came to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// A batch was opened, or what it takes was made: come again.
    Something,
    /// Read-ahead or the budget is used up.
    Full,
    /// There is nothing to open.
    Nothing,
    /// The loader is being dropped.
    Stopped,
}

/// Which samples a batch has.
struct BatchSamples {
    positions: Positions,
    indices: Vec<SampleIndex>,
    repeats: Vec<u64>,
}

impl Opener {
    /// Opens the next batch and queues its jobs, if it may be opened. `hint` is the dataset's cost hint, `expect` tells it
    /// what comes.
    pub(crate) fn open_next(
        &self,
        hint: impl Fn(SampleIndex) -> Option<u64>,
        expect: impl Fn(&[SampleIndex]),
    ) -> Opened {
        let mut prepared = lock(&self.prepared);
        if prepared.pulling {
            // Whoever takes samples wakes the others when there are some, but may be at it when all is over.
            let is_stopped = self.gate.look(|flow| flow.is_stopped());
            return if is_stopped { Opened::Stopped } else { Opened::Nothing };
        }
        let (id, course, last_hope, iterator) = match self.gate.open() {
            Opening::Batch { id, course, last_hope, iterator } => (id, course, last_hope, iterator),
            Opening::Full => return Opened::Full,
            Opening::Nothing => return Opened::Nothing,
            Opening::Stopped => return Opened::Stopped,
        };
        if !prepared.has(&course, id.epoch) {
            self.gate.not_opened();
            return self.plan_epoch(prepared, course, id.epoch);
        }
        let range = course.batch_range(id.epoch, id.number);
        let mut slots = (range.end - range.start) as u32;
        let members = match self.members(&prepared, id, slots) {
            Ok(members) => members,
            Err(error) => {
                self.gate.not_opened();
                return self.pass_over(prepared, id, range.collect(), error);
            }
        };
        if self.look_ahead > 0 {
            self.tell(&mut prepared, id, expect);
        }
        // The system, or a driver that page-locks, may take its time.
        let rows = match self.block() {
            Ok(rows) => rows,
            // Somebody may have given memory back by the time the batches in flight are delivered.
            Err(_) if !last_hope => return Opened::Full,
            Err(error) => {
                let positions = match members.positions {
                    Positions::From(_) if self.composer.is_none() => Vec::new(),
                    Positions::From(_) => range.collect(),
                    Positions::Listed(positions) => positions,
                };
                return self.pass_over(prepared, id, positions, error);
            }
        };
        let BatchSamples { positions, mut indices, repeats } = members;
        let (mut pulled, mut ended) = (None, false);
        if let Some(iterating) = &self.iterating {
            let taken;
            (prepared, taken) = self.pull(iterating, prepared, id, iterator.as_deref(), &indices);
            slots = taken.samples.len() as u32;
            indices.truncate(slots as usize);
            ended = taken.ended;
            if slots == 0 {
                // (Or somebody began something else meanwhile, and this is not wanted.) Said before anybody else may
                // open: they would find the same end, and say it a second time.
                self.gate.found_end(id.generation, id.number);
                drop(prepared);
                return Opened::Something;
            }
            pulled = Some(self.book(id, taken));
        }
        let (draft, stock) = match &self.composer {
            None => {
                let members = (indices.clone(), positions.listed());
                let ledger: Arc<dyn Ledger> = Arc::clone(&self.gate) as _;
                let charge = Charge::of(&ledger, 0);
                let (keeps, now) = (self.keeps_parcels, self.gate.now_ns());
                let draft = Draft::new(id, members, slots, rows, keeps, now, charge);
                (Some(Arc::new(draft)), None)
            }
            Some(composer) => (None, Some((composer, rows))),
        };
        let lot = Arc::new(Lot { id, indices, repeats, positions, draft, pulled });
        let jobs = self.cut(&mut prepared.jobs, &lot, slots, hint);
        // If not any worker may take any job, all must be woken to find out whom a job concerns.
        let wakes = if self.policy.anyone_may_take() { jobs } else { usize::MAX };
        let jobs = &mut prepared.jobs;
        let is_opened = self.gate.opened(id, u64::from(slots), wakes, || {
            if let Some((composer, rows)) = stock {
                composer.stock_up(rows);
            }
            self.policy.submit(jobs);
        });
        if !is_opened {
            jobs.clear();
        }
        if ended {
            self.gate.found_end(id.generation, id.number + 1);
        }
        Opened::Something
    }

    /// Tells the dataset of the samples of this batch and of those after it, as far as it wants to look ahead and was not
    /// told already.
    fn tell(&self, prepared: &mut NextBatch, id: BatchId, expect: impl Fn(&[SampleIndex])) {
        let Some((course, _)) = &prepared.epoch else { return };
        let batches = (self.look_ahead as u64).div_ceil(course.plan().batch_size().max(1));
        let end = (id.number + 1).saturating_add(batches).min(course.batches(id.epoch));
        let from = match prepared.told {
            (generation, epoch, told) if (generation, epoch) == (id.generation, id.epoch) => {
                told.max(id.number)
            }
            _ => id.number,
        };
        for number in from..end {
            let range = course.batch_range(id.epoch, number);
            let slots = (range.end - range.start) as u32;
            // Without memory for a list of numbers nobody is told; the batch itself will say so.
            let Ok(members) = self.members(prepared, BatchId { number, ..id }, slots) else {
                break;
            };
            expect(&members.indices);
        }
        prepared.told = (id.generation, id.epoch, from.max(end));
    }

    /// Takes the samples of a batch from the dataset's iterator. Who comes meanwhile finds nothing to open.
    fn pull<'a>(
        &'a self,
        iterating: &Iterating,
        mut prepared: MutexGuard<'a, NextBatch>,
        id: BatchId,
        iterator: Option<&str>,
        indices: &[SampleIndex],
    ) -> (MutexGuard<'a, NextBatch>, TakenSamples) {
        prepared.pulling = true;
        let mut pass = prepared.pass.take();
        drop(prepared);
        let is_stale = || self.gate.is_stale(id.generation);
        let taken = iterating.take(&mut pass, id, iterator, indices, is_stale);
        let mut prepared = lock(&self.prepared);
        prepared.pass = pass;
        prepared.pulling = false;
        (prepared, taken)
    }

    /// Books what was taken from an iterator.
    fn book(&self, id: BatchId, taken: TakenSamples) -> Pulled {
        let sizes = || taken.samples.iter().flatten().map(|bytes| bytes.capacity() as u64);
        let (bytes, largest) = (sizes().sum(), sizes().max().unwrap_or(0));
        let (_, evict) = self.gate.pulled(id, bytes, largest, taken.iterator);
        self.pool.evict(evict);
        let ledger: Arc<dyn Ledger> = Arc::clone(&self.gate) as _;
        Pulled::new(taken.samples.into_iter().map(|sample| {
            let bytes = sample.as_ref().map_or(0, Vec::capacity) as u64;
            (sample, Charge::of(&ledger, bytes))
        }))
    }

    /// Goes on without a batch for which there is no memory; the ones after it may fit again.
    fn pass_over(
        &self,
        prepared: MutexGuard<'_, NextBatch>,
        id: BatchId,
        positions: Vec<u64>,
        error: OutOfMemory,
    ) -> Opened {
        let passed = positions.clone();
        let batch = BatchResult::failed(error.into(), self.gate.now_ns());
        let failed = Finished { batch, positions, bytes: 0 };
        self.gate.passed_over(id, failed, || {
            if let Some(composer) = &self.composer {
                composer.pass_over(id.epoch, &passed);
            }
        });
        drop(prepared);
        Opened::Something
    }

    /// Makes an epoch's plan. Some take their time (weights without replacement are sorted).
    fn plan_epoch(
        &self,
        mut prepared: MutexGuard<'_, NextBatch>,
        course: Course,
        epoch: u64,
    ) -> Opened {
        if prepared.planning {
            return Opened::Nothing;
        }
        prepared.planning = true;
        // The old one goes first: an order may keep a table for its epoch.
        let old = prepared.epoch.take();
        drop(prepared);
        drop(old);
        let plan = course.epoch(epoch);
        let mut prepared = lock(&self.prepared);
        prepared.epoch = Some((course, plan));
        prepared.planning = false;
        drop(prepared);
        self.gate.wake_workers();
        Opened::Something
    }

    /// The block of the next batch, in place of what the gate has set aside for it.
    fn block(&self) -> Result<Option<(Block, BatchLayout)>, OutOfMemory> {
        let Some(layout) = &self.layout else { return Ok(None) };
        let set_aside = self.gate.look(|flow| flow.rules().batch_bytes);
        let block = self.pool.take(layout.bytes, set_aside)?;
        Ok(Some((block, layout.clone())))
    }

    /// Which samples the batch has: as planned, or as an earlier run delivered them.
    fn members(
        &self,
        prepared: &NextBatch,
        id: BatchId,
        slots: u32,
    ) -> Result<BatchSamples, OutOfMemory> {
        let planned = prepared.epoch.as_ref();
        let (course, plan) = planned.expect("planned before a batch of it is opened");
        let mut indices = Vec::new();
        let bytes = slots as usize * size_of::<SampleIndex>();
        indices.try_reserve_exact(slots as usize).map_err(|_| OutOfMemory { bytes })?;
        let log = self.replay.iter().find(|log| log.epoch() == id.epoch);
        let positions = match log {
            None => course.positions(id.epoch, id.number),
            Some(log) => {
                let range = course.batch_range(id.epoch, id.number);
                let range = range.start as usize..range.end as usize;
                Positions::Listed(log.positions()[range].to_vec())
            }
        };
        match &positions {
            Positions::From(first) => {
                indices.resize(slots as usize, SampleIndex(0));
                plan.fill(Position(*first), &mut indices);
            }
            Positions::Listed(positions) => {
                indices.extend(positions.iter().map(|p| plan.index(Position(*p))));
            }
        }
        let mut repeats = Vec::new();
        if plan.repeats() {
            repeats.try_reserve_exact(slots as usize).map_err(|_| OutOfMemory { bytes })?;
            match &positions {
                Positions::From(first) => {
                    repeats.extend((0..u64::from(slots)).map(|i| plan.repeat(Position(first + i))));
                }
                Positions::Listed(positions) => {
                    repeats.extend(positions.iter().map(|p| plan.repeat(Position(*p))));
                }
            }
        }
        Ok(BatchSamples { positions, indices, repeats })
    }

    /// Cuts a lot into jobs. Returns how many.
    fn cut(
        &self,
        jobs: &mut Vec<Job<Work>>,
        lot: &Arc<Lot>,
        slots: u32,
        hint: impl Fn(SampleIndex) -> Option<u64>,
    ) -> usize {
        let mean_ns = self.costs.mean_ns();
        let together = self.grain.together(mean_ns, slots as usize) as u32;
        let mut start = 0;
        while start < slots {
            let end = (start + together).min(slots);
            let cost = if self.grain.by_cost {
                let costs = lot.indices[start as usize..end as usize].iter();
                costs.map(|i| self.costs.expect(i.0, || hint(*i))).sum()
            } else {
                mean_ns * f64::from(end - start)
            };
            let work =
                Work { lot: Arc::clone(lot), slots: start..end, attempt: Attempt::default() };
            jobs.push(Job { batch: lot.id.turn, cost_ns: cost as u64, samples: end - start, work });
            start = end;
        }
        jobs.len()
    }
}
