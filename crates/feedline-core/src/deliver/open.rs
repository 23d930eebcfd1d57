//! Opening the next batch: its block, its samples, its jobs.
//!
//! Batches are opened one after the other in planned order, by whichever worker finds nothing else to do. It
//! holds the *opener's* lock all the while, so the number of the batch, its block and its jobs' place in the
//! queues all follow from the order in which that lock is taken, and the batch that is needed first is worked
//! on first.
//!
//! A consumer that has workers never takes the opener's lock: memory for a batch, and which samples it has, can
//! take longer than all that the consumer does for one. It shares [`Ahead`] with the opener, behind a lock that is held for
//! moments. The opener takes it twice: to see whether and which batch may be opened, and, when all is prepared,
//! to queue the jobs and count the batch. In between the consumer may deliver, let go and ask, which can only
//! make more room. It may also begin a new generation (or stop), which the opener sees the second time: then what was
//! prepared is dropped, outside that lock, and the worker comes again. Nobody else opens in between, so
//! within one generation the next batch is still the same.
//!
//! Locks are taken in the order opener, ahead, composer.
//!
//! An epoch's plan is made by whoever opens its first batch, without any lock; others who come meanwhile
//! sleep until it is there.
//!
//! When an epoch's last batch is opened the next epoch's first one follows, so that it fills while this
//! one drains.

use std::ops::Range;
use std::sync::Arc;

use crate::assemble::{Draft, Identity, countdown::Countdown};
use crate::engine::Engine;
use crate::plan::{EpochPlan, Position, SampleIndex};
use crate::schedule::{Job, grain::grain};
use crate::sync::{MutexGuard, lock};
use crate::work::{Lot, Positions, Work};

use super::{Ahead, Course, Delivery, Finished};

/// What whoever opens a batch has in hand.
#[derive(Default)]
pub(crate) struct Opener {
    /// An epoch's plan, and the course it is a plan of: what is left of an epoch has another plan.
    planned: Option<(Course, EpochPlan)>,
    /// Kept for its room.
    jobs: Vec<Job<Work>>,
}

impl Opener {
    /// Whether the plan of this epoch is there.
    fn has_planned(&self, course: &Course, epoch: u64) -> bool {
        let planned = self.planned.as_ref();
        planned.is_some_and(|(of, plan)| of.is(course) && plan.epoch() == epoch)
    }
}

/// What [`Engine::open_next`] came to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// A batch was opened, or what it takes was made: come again.
    Opened,
    /// Read-ahead or the budget is used up.
    Full,
    /// There is nothing to open.
    Nothing,
    /// The loader is being dropped.
    Stopped,
}

impl Engine {
    /// Opens the next batch and queues its jobs, if it may be opened.
    pub(crate) fn open_next(&self) -> Opening {
        let mut opener = lock(&self.opener);
        let mut ahead = lock(&self.ahead);
        if ahead.stopped {
            return Opening::Stopped;
        }
        let Some((epoch, number)) = self.next_wanted(&ahead) else { return Opening::Nothing };
        let is_last_hope = ahead.is_last_hope();
        if !ahead.has_room(self) || (!is_last_hope && self.is_over_budget()) {
            return Opening::Full;
        }
        if let Delivery::Ready { window } = self.settings.delivery {
            while ahead.unfinished.front().is_some_and(|lot| lot.countdown.is_done()) {
                ahead.unfinished.pop_front();
            }
            let oldest = ahead.unfinished.front().map_or(ahead.opened, |lot| lot.turn);
            if ahead.opened - oldest >= window as u64 {
                return Opening::Nothing;
            }
        }
        if !opener.has_planned(&ahead.course, epoch) {
            return self.plan_epoch(opener, ahead, epoch);
        }
        let identity = Identity { generation: ahead.generation, turn: ahead.opened, epoch, number };
        let range = ahead.course.batch_range(epoch, number);
        let slots = (range.end - range.start) as u32;
        drop(ahead);
        // The system, or a driver that page-locks, may take its time.
        let rows = match self.rows() {
            Ok(Rows::None) => Ok(None),
            Ok(Rows::Taken(block, layout)) => Ok(Some((block, layout))),
            Ok(Rows::Full) => return Opening::Full,
            // Somebody may have given memory back by the time the batches in flight are delivered.
            Err(_) if !is_last_hope => return Opening::Full,
            Err(error) => Err(error),
        };
        let (positions, indices) = self.members(&opener, epoch, number, slots);
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return self.pass_over(opener, identity, (positions, range), error),
        };
        let (draft, stock) = match self.settings.delivery {
            Delivery::InOrder => {
                let members = (indices.clone(), positions.listed());
                let (keeps, now) = (self.keeps_parcels(), self.now_ns());
                let draft = Draft::new(identity, members, slots, rows, keeps, now);
                (Some(Arc::new(draft)), None)
            }
            Delivery::Ready { .. } => (None, Some(rows)),
        };
        let lot = Arc::new(Lot {
            generation: identity.generation,
            turn: identity.turn,
            epoch,
            indices,
            positions,
            draft,
            countdown: Countdown::new(slots),
        });
        let jobs = self.cut(&mut opener.jobs, &lot, slots);
        let mut ahead = lock(&self.ahead);
        if ahead.generation != identity.generation {
            // What was prepared goes back to the pool, without the lock that the consumer needs.
            drop(ahead);
            opener.jobs.clear();
            return Opening::Opened;
        }
        if let Some(rows) = stock {
            lock(&self.composer).stock_up(rows);
            ahead.unfinished.push_back(lot);
        }
        self.policy.submit(&mut opener.jobs);
        self.step_past(&mut ahead, epoch, number);
        let is_roomy = ahead.is_roomy(self);
        drop((ahead, opener));
        if self.policy.anyone_may_take() {
            // The opener takes one job itself; one more is woken if another batch may be opened.
            self.bell.ring(jobs - 1 + usize::from(is_roomy));
        } else {
            self.bell.ring_all();
        }
        Opening::Opened
    }

    /// Whether values of varying length, which have no block yet, are expected to exceed the budget,
    /// or bytes that were loaded and not built yet do.
    fn is_over_budget(&self) -> bool {
        self.pool.bytes().undelivered + self.handoff.bytes() >= self.pool.budget()
    }

    /// Goes on without a batch for which there is no memory; the ones after it may fit again.
    fn pass_over(
        &self,
        opener: MutexGuard<'_, Opener>,
        identity: Identity,
        (positions, range): (Positions, Range<u64>),
        error: crate::Error,
    ) -> Opening {
        let Identity { generation, turn, epoch, number } = identity;
        let positions = match positions {
            Positions::From(_) if !self.lists_positions() => Vec::new(),
            Positions::From(_) => range.collect(),
            Positions::Listed(positions) => positions,
        };
        let mut ahead = lock(&self.ahead);
        if ahead.generation != generation {
            return Opening::Opened;
        }
        lock(&self.composer).pass_over(epoch, &positions);
        self.step_past(&mut ahead, epoch, number);
        drop((ahead, opener));
        let failed = Finished::failed(positions, error, self.now_ns());
        let _ = self.shelf.put(generation, turn, failed);
        Opening::Opened
    }

    /// Makes an epoch's plan. Some take their time (weights without replacement are sorted).
    fn plan_epoch(
        &self,
        mut opener: MutexGuard<'_, Opener>,
        mut ahead: MutexGuard<'_, Ahead>,
        epoch: u64,
    ) -> Opening {
        if ahead.planning {
            return Opening::Nothing;
        }
        ahead.planning = true;
        let course = ahead.course.clone();
        drop(ahead);
        // The old one goes first: an order may keep a table for its epoch.
        opener.planned = None;
        drop(opener);
        let plan = course.epoch(epoch);
        lock(&self.opener).planned = Some((course, plan));
        lock(&self.ahead).planning = false;
        self.bell.ring_all();
        Opening::Opened
    }

    /// Whether batches say which positions they have, because that need not be the next ones.
    fn lists_positions(&self) -> bool {
        matches!(self.settings.delivery, Delivery::Ready { .. })
    }

    /// The block of the next batch.
    fn rows(&self) -> Result<Rows, crate::Error> {
        let Some(layout) = &self.layout else { return Ok(Rows::None) };
        Ok(match self.pool.try_take(layout.bytes)? {
            Some(block) => Rows::Taken(block, layout.clone()),
            None => Rows::Full,
        })
    }

    /// Which samples the batch has: as planned, or as an earlier run delivered them.
    fn members(
        &self,
        opener: &Opener,
        epoch: u64,
        number: u64,
        slots: u32,
    ) -> (Positions, Vec<SampleIndex>) {
        let planned = opener.planned.as_ref();
        let (course, plan) = planned.expect("planned before a batch of it is opened");
        let log = self.settings.replay.iter().find(|log| log.epoch() == epoch);
        let positions = match log {
            None => course.positions(epoch, number),
            Some(log) => {
                let range = course.batch_range(epoch, number);
                let range = range.start as usize..range.end as usize;
                Positions::Listed(log.positions()[range].to_vec())
            }
        };
        let indices = match &positions {
            Positions::From(first) => {
                let mut indices = vec![SampleIndex(0); slots as usize];
                plan.fill(Position(*first), &mut indices);
                indices
            }
            Positions::Listed(positions) => {
                positions.iter().map(|p| plan.index(Position(*p))).collect()
            }
        };
        (positions, indices)
    }

    /// Cuts a lot into jobs. Returns how many.
    fn cut(&self, jobs: &mut Vec<Job<Work>>, lot: &Arc<Lot>, slots: u32) -> usize {
        let mean_ns = self.costs.mean_ns();
        // Under a time limit, and where loading is apart, each sample is on its own.
        let alone = self.settings.sample_timeout.is_some() || self.settings.io_workers > 0;
        let single = self.settings.policy.wants_costs() && mean_ns >= ORDER_SINGLY_NS;
        let grain = if alone || single { 1 } else { grain(mean_ns, slots as usize) as u32 };
        let mut start = 0;
        while start < slots {
            let end = (start + grain).min(slots);
            let cost = if self.settings.policy.wants_costs() {
                let costs = lot.indices[start as usize..end as usize].iter();
                costs.map(|i| self.costs.expect(i.0, || self.hint(*i))).sum()
            } else {
                mean_ns * f64::from(end - start)
            };
            let work = Work { lot: Arc::clone(lot), slots: start..end, attempt: 0 };
            jobs.push(Job { batch: lot.turn, cost_ns: cost as u64, samples: end - start, work });
            start = end;
        }
        jobs.len()
    }
}

/// Policies that order by cost get samples one by one from this mean cost on, so that a dear one is
/// not hidden among cheap ones.
const ORDER_SINGLY_NS: f64 = 2_000.0;

/// The block of a batch that is being opened.
enum Rows {
    /// It needs none.
    None,
    /// There it is.
    Taken(crate::assemble::Block, crate::assemble::Layout),
    /// The budget is used up.
    Full,
}
