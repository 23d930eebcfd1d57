//! How far ahead of the consumer work is begun, and opening the next batch.
//!
//! Batches are opened one after the other in planned order, by whichever worker finds nothing else to
//! do, under one lock: the number of the batch, its block and its jobs' place in the queues all follow
//! from the order in which the lock is taken, so the batch that is needed first is worked on first.
//!
//! A batch may be opened while
//! * fewer than `prefetch` batches are opened and not let go, and
//! * its block fits the byte budget (or nothing else could make room), and
//! * in `ready` order, the oldest sample that is not done is within the window.
//!
//! A batch is let go when it is delivered and then either the user gives a batch back or asks for the next
//! one. A loop like `for batch in loader` holds one batch while it takes the next, and drops it right
//! after: to open the next batch in between would cost memory for one more batch, for good, and begin it in
//! memory that no cache knows. A loop that keeps its batches lets each go when it asks for another. Why this
//! cannot stop delivery: who waits for a batch has asked for it, so all that were delivered are let go, and
//! the batch it waits for is open or may be opened. (With a read-ahead of one, a batch is let go at once, or
//! a loop that keeps its batches would never find one begun.) Where memory is dear, what was delivered is
//! not let go by asking for a batch that is open already, unless the [spare](super::spare) batch pays.
//!
//! An epoch's plan is made by whoever opens its first batch, outside the lock.
//!
//! When an epoch's last batch is opened the next epoch's first one follows, so that it fills while this
//! one drains.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::assemble::{Draft, Identity, countdown::Countdown};
use crate::engine::{Engine, Settings};
use crate::plan::{EpochPlan, Position, SampleIndex};
use crate::schedule::{Job, grain::grain};
use crate::sync::{MutexGuard, lock};
use crate::work::{Lot, Positions, Work};

use super::spare::{Spare, pays};
use super::{Course, Delivery, Finished};

/// What is opened next, and how much is under way.
pub(crate) struct Ahead {
    generation: u64,
    course: Course,
    /// Where the next batch is; `None` while nothing is wanted.
    next: Option<(u64, u64)>,
    opened: u64,
    delivered: u64,
    /// At most `delivered`.
    let_go: u64,
    /// Whether the consumer waits for a batch.
    asked: bool,
    spare: Spare,
    stopped: bool,
    epoch: Option<EpochPlan>,
    /// Whether somebody is making the next epoch's plan, outside the lock.
    planning: bool,
    /// `ready` order: lots with samples that are not done, oldest first.
    unfinished: VecDeque<Arc<Lot>>,
    jobs: Vec<Job<Work>>,
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

impl Ahead {
    pub(crate) fn new(course: Course) -> Ahead {
        Ahead {
            generation: 0,
            course,
            next: None,
            opened: 0,
            delivered: 0,
            let_go: 0,
            asked: false,
            spare: Spare::default(),
            stopped: false,
            epoch: None,
            planning: false,
            unfinished: VecDeque::new(),
            jobs: Vec::new(),
        }
    }

    /// Takes another course, with the next generation. The plan of a whole epoch is not the plan of
    /// what is left of it.
    pub(crate) fn take_course(&mut self, course: Course) {
        self.course = course;
        self.epoch = None;
    }

    /// The arrangement of an epoch, for those who need it rarely.
    pub(crate) fn course(&self) -> &Course {
        &self.course
    }

    /// Begins a new generation at `next`. Returns its number.
    pub(crate) fn restart(&mut self, next: Option<(u64, u64)>) -> u64 {
        self.generation += 1;
        self.next = next;
        self.opened = 0;
        self.delivered = 0;
        self.let_go = 0;
        self.asked = false;
        self.spare = Spare::default();
        self.unfinished.clear();
        self.generation
    }

    /// Whether read-ahead allows for one more.
    fn has_room(&self, settings: &Settings) -> bool {
        self.opened - self.let_go < settings.prefetch as u64
    }

    /// Whether nothing else can make room for the next batch: none is in work, and the consumer gives none
    /// back, since it waits for this one.
    fn is_last_hope(&self) -> bool {
        self.opened == if self.asked { self.delivered } else { self.let_go }
    }

    /// Ends everything. Returns the last generation, of which there is nothing.
    pub(crate) fn stop(&mut self) -> u64 {
        self.stopped = true;
        self.restart(None)
    }
}

impl Engine {
    /// Opens the next batch and queues its jobs, if it may be opened.
    pub(crate) fn open_next(&self) -> Opening {
        let mut ahead = lock(&self.ahead);
        if ahead.stopped {
            return Opening::Stopped;
        }
        let Some((epoch, number)) = self.next_wanted(&ahead) else { return Opening::Nothing };
        let is_last_hope = ahead.is_last_hope();
        if !ahead.has_room(&self.settings) || (!is_last_hope && self.is_over_budget()) {
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
        if ahead.epoch.as_ref().is_none_or(|plan| plan.epoch() != epoch) {
            return self.plan_epoch(ahead, epoch);
        }
        let identity = Identity { generation: ahead.generation, turn: ahead.opened, epoch, number };
        let range = ahead.course.batch_range(epoch, number);
        let slots = (range.end - range.start) as u32;
        let rows = match self.rows() {
            Ok(Rows::None) => None,
            Ok(Rows::Taken(block, layout)) => Some((block, layout)),
            Ok(Rows::Full) => return Opening::Full,
            // Somebody may have given memory back by the time the batches in flight are delivered.
            Err(_) if !is_last_hope => return Opening::Full,
            Err(error) => {
                // The batch fails, the ones after it may fit again.
                let positions = match self.members(&ahead, epoch, number, slots).0 {
                    Positions::From(_) if !self.lists_positions() => Vec::new(),
                    Positions::From(_) => range.collect(),
                    Positions::Listed(positions) => positions,
                };
                lock(&self.composer).pass_over(epoch, &positions);
                self.step_past(&mut ahead, epoch, number);
                drop(ahead);
                let failed = Finished::failed(positions, error, self.now_ns());
                let _ = self.shelf.put(identity.generation, identity.turn, failed);
                return Opening::Opened;
            }
        };
        let (positions, indices) = self.members(&ahead, epoch, number, slots);
        let draft = match self.settings.delivery {
            Delivery::InOrder => {
                let members = indices.clone();
                let now = self.now_ns();
                let keeps = self.keeps_parcels();
                let members = (members, positions.listed());
                Some(Arc::new(Draft::new(identity, members, slots, rows, keeps, now)))
            }
            Delivery::Ready { .. } => {
                lock(&self.composer).stock_up(rows);
                None
            }
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
        if lot.draft.is_none() {
            ahead.unfinished.push_back(Arc::clone(&lot));
        }
        let jobs = self.cut(&mut ahead.jobs, &lot, slots);
        self.policy.submit(&mut ahead.jobs);
        self.step_past(&mut ahead, epoch, number);
        let room = ahead.has_room(&self.settings);
        drop(ahead);
        if self.policy.anyone_may_take() {
            // The opener takes one job itself; one more is woken if another batch may be opened.
            self.bell.ring(jobs - 1 + usize::from(room));
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

    /// Makes an epoch's plan. Some take their time (weights without replacement are sorted), and the
    /// consumer needs the lock to take the batches that are ready; so it is made without. Others who
    /// come meanwhile sleep until it is there.
    fn plan_epoch(&self, mut ahead: MutexGuard<'_, Ahead>, epoch: u64) -> Opening {
        if ahead.planning {
            return Opening::Nothing;
        }
        ahead.planning = true;
        // The old one goes first: an order may keep a table for its epoch.
        ahead.epoch = None;
        let (generation, course) = (ahead.generation, ahead.course.clone());
        drop(ahead);
        let plan = course.epoch(epoch);
        let mut ahead = lock(&self.ahead);
        ahead.planning = false;
        // The plan is still right after a restart, unless another course was taken.
        if ahead.generation == generation || course.is(&ahead.course) {
            ahead.epoch = Some(plan);
        }
        drop(ahead);
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
        ahead: &Ahead,
        epoch: u64,
        number: u64,
        slots: u32,
    ) -> (Positions, Vec<SampleIndex>) {
        let plan = ahead.epoch.as_ref().expect("planned before a batch of it is opened");
        let log = self.settings.replay.iter().find(|log| log.epoch() == epoch);
        let positions = match log {
            None => ahead.course.positions(epoch, number),
            Some(log) => {
                let range = ahead.course.batch_range(epoch, number);
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

    /// Moves on to the batch after (`epoch`, `number`).
    fn step_past(&self, ahead: &mut Ahead, epoch: u64, number: u64) {
        ahead.opened += 1;
        ahead.next = Some(match number + 1 < ahead.course.batches(epoch) {
            true => (epoch, number + 1),
            false => (epoch + 1, 0),
        });
    }

    /// Queues a job again, unless its generation is over.
    pub(crate) fn submit_again(&self, generation: u64, job: Job<Work>) {
        let ahead = lock(&self.ahead);
        if ahead.generation == generation {
            self.policy.submit(&mut vec![job]);
            drop(ahead);
            self.bell.ring_all();
        }
    }

    /// The consumer took a batch, which took so long to fill.
    pub(crate) fn count_delivered(&self, generation: u64, building_ns: u64) {
        let mut ahead = lock(&self.ahead);
        if ahead.generation == generation {
            ahead.delivered += 1;
            ahead.asked = false;
            if self.settings.prefetch == 1 {
                self.let_go(ahead, 1);
            } else if self.settings.frugal {
                let busy = self.settings.workers.min(self.settings.cores);
                let pays = pays(busy, self.plan.batch_size(), building_ns as f64);
                ahead.spare.delivered(self.now_ns(), pays);
            }
        }
    }

    /// The consumer asks for a batch: whatever it took before is let go, or only what comes back.
    pub(crate) fn count_asked(&self, generation: u64) {
        let mut ahead = lock(&self.ahead);
        if ahead.generation != generation {
            return;
        }
        ahead.asked = true;
        if self.settings.frugal && !ahead.spare.is_used() {
            if ahead.opened > ahead.delivered {
                return;
            }
            if ahead.has_room(&self.settings) {
                drop(ahead);
                // Who looked before had reason to wait for what the consumer holds.
                return self.bell.ring(1);
            }
            ahead.spare.found_nothing();
        }
        self.let_go(ahead, u64::MAX);
    }

    /// The user gave memory back. (Of whichever generation: to let go of one too many too early only
    /// costs memory.)
    pub(crate) fn count_returned(&self) {
        let mut ahead = lock(&self.ahead);
        if self.settings.frugal && ahead.delivered - ahead.let_go > 1 {
            ahead.spare.came_back(self.now_ns());
        }
        self.let_go(ahead, 1);
    }

    /// As many batches may be opened, if there are any to open.
    fn let_go(&self, mut ahead: MutexGuard<'_, Ahead>, most: u64) {
        let batches = most.min(ahead.delivered - ahead.let_go);
        ahead.let_go += batches;
        let is_wanted = self.next_wanted(&ahead).is_some();
        drop(ahead);
        // To wake somebody costs this thread, the training loop's, more than all the rest here.
        if is_wanted {
            self.bell.ring(batches as usize);
        }
    }

    /// Which batch is opened next: none after the last epoch, and while nothing is asked for.
    fn next_wanted(&self, ahead: &Ahead) -> Option<(u64, u64)> {
        let limit = self.settings.epochs.unwrap_or(u64::MAX);
        ahead.next.filter(|(epoch, _)| *epoch < limit)
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
