//! The hallway that joins the rooms: everything a worker or the consumer needs, shared by all.
//!
//! ```text
//!            opener, ahead (locks)          policy              draft             shelf (lock)
//!   plan ──► open a batch: block, jobs ──► take a job ──► write slots ──► last one ──► in turn ──► consumer
//!                 ▲                                                                                │
//!                 └────────────────────────── let go, ring if need be ◄────────────────────────────┘
//! ```
//!
//! A worker repeats one [step](Engine::step): take a job and do it; else open the next batch if
//! read-ahead allows; else [rest](Engine::rest), mostly until the bell rings. Without workers the consumer makes the same
//! steps itself until its batch is there.
//!
//! # Cancelling
//!
//! Everything in flight carries the generation it was opened in. [`Engine::restart`] and
//! [`Engine::pause`] raise the generation and clear the queues under the `ahead` lock, under which
//! alone jobs are submitted; so no job of the old generation is submitted afterwards. (A thief that
//! has some in hand may still queue them; whoever takes such a job finds it stale and lets go.) A
//! worker that is in the middle of one looks at the generation before each sample and lets go of it;
//! its drafts are dropped with their last job, which returns their blocks to the pool. A finished batch that arrives
//! late is refused by the shelf.
//!
//! # Shutdown
//!
//! 1. [`Engine::stop`] raises the generation, marks `ahead` as stopped, clears the policy, closes the
//!    shelf (a waiting consumer leaves with `Closed`) and rings both bells.
//! 2. A worker that is asleep wakes, finds `Stopped` and ends. A worker in a sample finishes that
//!    sample (user code cannot be interrupted), finds its generation gone and ends. A worker about to
//!    sleep has taken its ticket before it looked, so the ring is not lost on it.
//! 3. [`Crew::end`](crate::work::Crew) waits for the threads; one that hangs in user code beyond a grace
//!    period is left behind with its share of the engine, which it frees when it returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::assemble::{Alter, Collate, Depot, Layout, Pool, Schema};
use crate::deliver::{
    Ahead, Bunch, Composer, Course, Delivery, Finished, Opener, Opening, OrderLog, Shelf, Taken,
};
use crate::error::OnError;
use crate::measure::tally::{Idle, Tally};
use crate::plan::Plan;
use crate::schedule::{Policy, PolicyKind, costs::Costs};
use crate::state::{Pipeline, Start, State, StateError};
use crate::sync::{Mutex, lock};
use crate::work::{Bell, Dataset, Desk, Handoff, Journal, Ticket, Watchlist, Work};

/// What the user decided.
pub(crate) struct Settings {
    pub(crate) workers: usize,
    pub(crate) io_workers: usize,
    pub(crate) policy: PolicyKind,
    pub(crate) prefetch: usize,
    /// Whether that many bunches are read ahead rather than batches.
    pub(crate) elastic: bool,
    /// Whether memory is dear: see [`spare`](crate::deliver::spare).
    pub(crate) frugal: bool,
    pub(crate) cores: usize,
    pub(crate) delivery: Delivery,
    pub(crate) replay: Vec<OrderLog>,
    pub(crate) on_error: OnError,
    pub(crate) max_errors: Option<u64>,
    pub(crate) sample_timeout: Option<Duration>,
    pub(crate) epochs: Option<u64>,
    pub(crate) collate: Option<Arc<dyn Collate>>,
    pub(crate) alters: Vec<Arc<dyn Alter>>,
}

/// Shared by the loader and its workers.
pub(crate) struct Engine {
    pub(crate) dataset: Box<dyn Dataset>,
    pub(crate) schema: Schema,
    /// The layout of a full batch; `None` without fixed fields or with custom collation.
    pub(crate) layout: Option<Layout>,
    pub(crate) plan: Plan,
    pub(crate) pipeline: Pipeline,
    pub(crate) settings: Settings,
    pub(crate) policy: Box<dyn Policy<Work>>,
    pub(crate) costs: Costs,
    pub(crate) pool: Arc<Pool>,
    pub(crate) depot: Depot,
    pub(crate) opener: Mutex<Opener>,
    pub(crate) ahead: Mutex<Ahead>,
    pub(crate) composer: Mutex<Composer>,
    pub(crate) shelf: Shelf<Finished>,
    pub(crate) bunch: Bunch,
    pub(crate) bell: Bell,
    pub(crate) handoff: Handoff,
    pub(crate) watchlist: Watchlist,
    pub(crate) journal: Journal,
    pub(crate) tallies: Vec<CachePadded<Tally>>,
    /// A copy of `ahead.generation`, so that workers can look without the lock. Relaxed: seeing a
    /// raise late costs one sample's work; the shelf, behind its lock, decides.
    pub(crate) generation: AtomicU64,
    /// The first epoch that is not delivered to its end. Relaxed: it only ages logs.
    pub(crate) delivered_epochs: AtomicU64,
    pub(crate) origin: Instant,
}

/// What a step came to.
pub(crate) enum Step {
    /// Something was done; come again.
    Worked,
    /// Nothing to do for now: [rest](Engine::rest).
    Idle(Ticket, Idle),
    /// The loader is being dropped.
    Stopped,
    /// This worker was replaced while it hung in a sample.
    Retired,
}

impl Engine {
    /// One step of a worker that does all stages, or only loads if there are workers for the rest.
    pub(crate) fn step(&self, desk: &mut Desk) -> Step {
        let ticket = self.bell.ticket();
        if let Some(job) = self.policy.take(desk.worker) {
            return self.run(job, desk);
        }
        match self.open_next() {
            Opening::Opened => Step::Worked,
            Opening::Full => Step::Idle(ticket, Idle::ForConsumer),
            Opening::Nothing => Step::Idle(ticket, Idle::WithoutWork),
            Opening::Stopped => Step::Stopped,
        }
    }

    /// Sleeps until the bell rings, or until a regular consumer should have made room. A consumer that waits for
    /// more than there is learns that there will be no more.
    pub(crate) fn rest(&self, ticket: Ticket, why: Idle) {
        self.shelf.nudge();
        let nap = match why {
            Idle::ForConsumer => self.keep_lookout(),
            Idle::WithoutWork => None,
        };
        match nap {
            None => self.bell.wait(ticket),
            Some(nap) => {
                self.bell.wait_at_most(ticket, nap);
                self.end_lookout();
            }
        }
    }

    /// The next batch; the consumer waits for it until `deadline`.
    pub(crate) fn take(&self, generation: u64, deadline: Option<Instant>) -> Taken<Finished> {
        match self.try_take(generation) {
            Some(taken) => taken,
            None => self.shelf.take(generation, deadline, self.bunch.size()),
        }
    }

    /// Nanoseconds since the engine was built.
    pub(crate) fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Whether workers write into the batch's slots, or samples are placed when they are done.
    ///
    /// A worker that is given up on may still be writing when its batch has long been delivered, so
    /// under a time limit samples are made aside, as they are where the slot is not known yet.
    pub(crate) fn writes_in_place(&self) -> bool {
        self.layout.is_some()
            && self.settings.sample_timeout.is_none()
            && matches!(self.settings.delivery, Delivery::InOrder)
    }

    /// Whether whole parcels are kept until their batch is put together.
    pub(crate) fn keeps_parcels(&self) -> bool {
        self.schema.variable() > 0 || self.settings.collate.is_some()
    }

    pub(crate) fn is_stale(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Relaxed) != generation
    }

    /// Drops what is in flight and begins at batch `number` of `epoch`. Returns the new generation.
    pub(crate) fn restart(&self, epoch: u64, number: u64) -> u64 {
        let mut ahead = lock(&self.ahead);
        let generation = ahead.restart(Some((epoch, number)));
        self.cancel(generation);
        let course = ahead.course().clone();
        lock(&self.composer).restart(generation, epoch, number, course);
        let dropped = self.shelf.restart(generation);
        drop(ahead);
        drop(dropped);
        self.bell.ring_all();
        generation
    }

    /// Where this engine goes on from a state.
    pub(crate) fn fit(&self, state: &State, forced: bool) -> Result<Start, StateError> {
        let start = state.fit(&self.plan, &self.pipeline, forced)?;
        let batch_size = self.plan.batch_size();
        self.settings.replay.iter().try_for_each(|log| log.check_start(&start, batch_size))?;
        Ok(start)
    }

    /// Drops what is in flight and takes another course, which begins with the next restart.
    pub(crate) fn take_course(&self, course: Course) {
        self.pause();
        lock(&self.ahead).take_course(course);
    }

    /// Drops what is in flight and begins nothing.
    pub(crate) fn pause(&self) {
        let mut ahead = lock(&self.ahead);
        let generation = ahead.restart(None);
        self.cancel(generation);
        lock(&self.composer).clear(generation);
        let dropped = self.shelf.restart(generation);
        drop(ahead);
        drop(dropped);
    }

    /// Ends everything.
    pub(crate) fn stop(&self) {
        let mut ahead = lock(&self.ahead);
        let generation = ahead.stop();
        self.cancel(generation);
        lock(&self.composer).clear(generation);
        let dropped = self.shelf.close();
        drop(ahead);
        drop(dropped);
        self.bell.ring_all();
        self.handoff.close();
        self.watchlist.close();
    }

    /// Called under the `ahead` lock, under which alone jobs are submitted.
    fn cancel(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
        self.policy.clear();
        self.handoff.clear();
    }
}
