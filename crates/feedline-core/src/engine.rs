//! The rooms wired together; nothing is decided or done here.
//!
//! ```text
//!   plan, state      open             schedule         work             assemble         flow          deliver
//!   which samples ─► block, jobs ───► who takes it ──► make samples ──► last one ──────► in turn ────► consumer
//!                       ▲                                  a batch                        │
//!                       └───────────────────── may the next one be opened? ◄──────────────┘
//! ```
//!
//! A worker repeats one [step](Engine::step): take a job and do it; else open the next batch if that is
//! allowed; else sleep until somebody wakes it. Without workers the consumer makes the same steps itself until its
//! batch is there.
//!
//! # Cancelling
//!
//! Everything in flight carries the generation it was opened in. Beginning another epoch, giving one up and
//! stopping raise the generation and clear the queues under the gate's lock, under which alone
//! jobs are submitted; so no job of the old generation is submitted afterwards. (A thief that
//! has some in hand may still queue them; whoever takes such a job finds it stale and lets go.) A
//! worker that is in the middle of one looks at the generation before each sample and lets go of it;
//! its drafts are dropped with their last job, which returns their blocks to the pool. A finished batch that arrives
//! late is refused by the gate.
//!
//! # Shutdown
//!
//! 1. [`Engine::stop`] raises the generation, marks the flow as stopped, takes finished batches and queued jobs out
//!    and wakes everybody; a waiting consumer leaves with `Closed`.
//! 2. A worker that is asleep wakes, finds `Stopped` and ends. A worker in a sample finishes that
//!    sample (user code cannot be interrupted), finds its generation gone and ends. A worker about to
//!    sleep has taken its ticket before it looked, so the wake-up is not lost on it.
//! 3. [`Crew::end`](crate::crew::Crew) waits for the threads; one that hangs in user code beyond a grace
//!    period is left behind with its share of the engine, which it frees when it returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::control::Controller;
use crate::crew::Seats;
use crate::deliver::{BatchResult, OrderLog};
use crate::error::BuildError;
use crate::flow::{Flow, Gate, Ticket};
use crate::measure::consumption::Consumption;
use crate::measure::tally::Idle;
use crate::open::{Opened, Opener};
use crate::plan::{Order, Plan, SampleIndex};
use crate::schedule::{Job, Policy};
use crate::state::{Course, PipelineIdentity, Start, State, StateError};
use crate::sync::lock_std as lock;
use crate::work::{Local, Ran, Runner, Work};

/// Shared by the loader and its workers.
pub(crate) struct Engine {
    pub(crate) pipeline: PipelineIdentity,
    /// The samples of the largest batch that blocks are made for.
    pub(crate) rows: u64,
    /// How many workers there are, or may be.
    pub(crate) workers: usize,
    pub(crate) io_workers: usize,
    /// Whether jobs may be held back for want of bytes.
    pub(crate) holds_jobs: bool,
    pub(crate) gate: Arc<Gate<BatchResult, Job<Work>>>,
    pub(crate) policy: Arc<dyn Policy<Work>>,
    pub(crate) opener: Opener,
    pub(crate) runner: Runner,
    pub(crate) orphans: Orphans,
    pub(crate) consumption: std::sync::Mutex<Consumption>,
    /// Where the number of workers, or the read-ahead, may change.
    pub(crate) control: Option<Control>,
}

/// Who decides how many work, and where the others are parked.
pub(crate) struct Control {
    pub(crate) controller: std::sync::Mutex<Controller>,
    pub(crate) seats: Seats,
}

/// Workers that are gone for good: others take the jobs that the policy has for them.
#[derive(Default)]
pub(crate) struct Orphans {
    /// Relaxed: whoever must not miss an orphan is woken after it was set.
    any: AtomicBool,
    workers: std::sync::Mutex<Vec<usize>>,
}

/// What a step came to.
pub(crate) enum Stepped {
    /// Something was done; come again.
    Worked,
    /// Nothing to do for now: sleep.
    Idle(Ticket, Idle),
    /// The loader is being dropped.
    Stopped,
    /// This worker was replaced while it hung in a sample.
    Retired,
}

impl Engine {
    /// How many workers there are, those that are parked included.
    pub(crate) fn hired(&self) -> usize {
        self.control.as_ref().map_or(self.workers, |control| control.seats.hired())
    }

    /// How many workers work.
    pub(crate) fn active(&self) -> usize {
        self.control.as_ref().map_or(self.workers, |control| control.seats.open())
    }

    /// One step of a worker that does all stages, or only loads if there are workers for the rest.
    pub(crate) fn step(&self, local: &mut Local) -> Stepped {
        let ticket = self.gate.ticket();
        if let Some(job) = self.next_job(local.worker) {
            return match self.runner.run(job, local) {
                Ran::Done => Stepped::Worked,
                Ran::Retired => Stepped::Retired,
            };
        }
        let expect = |indices: &[SampleIndex]| self.runner.expect(indices);
        match self.opener.open_next(|index| self.runner.hint(index), expect) {
            Opened::Something => Stepped::Worked,
            Opened::Full => Stepped::Idle(ticket, Idle::ForConsumer),
            Opened::Nothing => Stepped::Idle(ticket, Idle::WithoutWork),
            Opened::Stopped => Stepped::Stopped,
        }
    }

    /// A job that may be begun.
    fn next_job(&self, worker: usize) -> Option<Job<Work>> {
        if !self.holds_jobs {
            return self.policy.take(worker).or_else(|| self.orphaned());
        }
        if let Some(job) = self.gate.release() {
            return Some(job);
        }
        loop {
            let job = self.policy.take(worker).or_else(|| self.orphaned())?;
            if let Some(job) = self.gate.admit(job.work.lot.id, job) {
                return Some(job);
            }
        }
    }

    /// A job of a worker that is gone.
    fn orphaned(&self) -> Option<Job<Work>> {
        if !self.orphans.any.load(Ordering::Relaxed) {
            return None;
        }
        lock(&self.orphans.workers).iter().find_map(|worker| self.policy.take(*worker))
    }

    /// A worker is gone for good. Returns how many are.
    pub(crate) fn orphan(&self, worker: usize) -> usize {
        let mut workers = lock(&self.orphans.workers);
        workers.push(worker);
        self.orphans.any.store(true, Ordering::Relaxed);
        let gone = workers.len();
        drop(workers);
        if let Some(control) = &self.control {
            control.seats.open_all();
        }
        self.gate.wake_workers();
        gone
    }

    /// Begins the next epoch. Returns its token.
    pub(crate) fn begin_epoch(&self) -> u64 {
        self.gate.begin_epoch(|flow| self.clear(flow))
    }

    /// Ends the epoch early: drops what is in flight and begins nothing.
    pub(crate) fn cancel(&self, token: u64) {
        self.gate.cancel(token, |flow| self.clear(flow));
    }

    /// Which samples come when, at present.
    pub(crate) fn plan(&self) -> Plan {
        self.gate.look(|flow| flow.cursor().course.plan().clone())
    }

    /// The same plan with another order, if this engine can deliver it.
    pub(crate) fn planned(&self, order: Order) -> Result<Plan, BuildError> {
        if !self.opener.replay.is_empty() {
            let why =
                "logs are replayed in the order that the loader was built with; leave them out";
            return Err(BuildError::Conflict { first: "replay", second: "set_order", why });
        }
        if self.plan().is_unbounded() {
            let why = "its samples come as its iterator gives them";
            let (first, second) = ("set_order", "an iterable dataset");
            return Err(BuildError::Conflict { first, second, why });
        }
        let plan = self.plan().with_order(order)?;
        match plan.samples().min(plan.batch_size()) {
            got if got > self.rows => Err(BuildError::LargerBatch { got, limit: self.rows }),
            _ => Ok(plan),
        }
    }

    /// Drops what is in flight; the next epoch begun is a whole one by this plan.
    pub(crate) fn set_plan(&self, plan: &Plan) {
        let epoch = self.gate.look(|flow| flow.cursor().upcoming());
        self.gate.load(Course::whole(plan), &Start::at(epoch, 0), |flow| self.clear(flow));
    }

    /// Drops what is in flight; the next epoch begun is where a state was taken.
    pub(crate) fn load(&self, plan: &Plan, state: &State, forced: bool) -> Result<(), StateError> {
        let start = self.fit(plan, state, forced)?;
        let course = Course::new(plan, &start);
        self.gate.load(course, &start, |flow| self.clear(flow));
        if let Some(composer) = &self.runner.composer {
            composer.delivered_up_to(start.epoch);
        }
        Ok(())
    }

    /// Ends everything, perhaps because a thread of our own panicked with these words.
    pub(crate) fn stop(&self, panicked: Option<Arc<str>>) {
        self.gate.stop(panicked, |flow| self.clear(flow));
        self.runner.handoff.close();
        if let Some(control) = &self.control {
            control.seats.stop();
        }
        self.runner.maker.watchlist.close();
    }

    /// Forgets all that is queued, under the gate's lock. Returns what is to be dropped after it.
    fn clear<T, J>(&self, flow: &Flow<T, J>) -> impl Sized + use<T, J> {
        let cursor = flow.cursor();
        let restart = |composer: &Arc<crate::assemble::Composer>| {
            composer.restart(flow.generation(), cursor.place(), &cursor.course)
        };
        let leftovers = self.runner.composer.as_ref().map(restart);
        (self.policy.clear(), self.runner.handoff.clear(), leftovers)
    }

    /// Where this engine goes on from a state.
    fn fit(&self, plan: &Plan, state: &State, forced: bool) -> Result<Start, StateError> {
        let start = state.fit(plan, &self.pipeline, forced)?;
        if let Some(iterable) = self.runner.maker.dataset.iterable() {
            state.check_iterable(plan, &start, iterable.shares())?;
        }
        let batch_size = plan.batch_size();
        let check = |log: &OrderLog| log.check_start(&start, batch_size);
        self.opener.replay.iter().try_for_each(check)?;
        Ok(start)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::flow::Answer;
    use crate::work::{Cause, Dataset, Sample};
    use crate::{DType, Field, Loader, PolicyKind};

    struct Numbers;

    impl Dataset for Numbers {
        fn len(&self) -> u64 {
            8
        }
        fn fields(&self) -> Vec<Field> {
            vec![Field::fixed("number", DType::U64, [])]
        }
        fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
            let index = sample.index().0;
            Ok(sample.put(0, &[index])?)
        }
    }

    #[test]
    fn the_jobs_of_a_worker_that_is_gone_for_good_are_done_by_others() {
        for policy in PolicyKind::ALL {
            let builder = Loader::builder(Numbers).batch_size(8).workers(2).policy(policy);
            let engine = builder.prefetch(1).epochs(1).engine().unwrap();
            let token = engine.begin_epoch();
            assert_eq!(engine.orphan(1), 1);
            let mut local = Local::new(0);
            while matches!(engine.step(&mut local), Stepped::Worked) {}
            let Some(Answer::Batch(finished, _)) = engine.gate.try_take(token) else {
                panic!("{policy:?}")
            };
            finished.result.unwrap().mark_delivered();
            engine.stop(None);
        }
    }
}
