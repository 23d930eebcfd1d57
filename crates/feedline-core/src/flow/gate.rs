//! The lock around the [`Flow`], and the only place where anybody sleeps for it or is woken by it.
//!
//! # Concurrency
//!
//! One mutex, one condition variable for the consumer, one [`EventCount`] for the workers. Each event is
//! told under the mutex; what it asks for is done after the mutex is released, since to wake somebody who then
//! has to wait for the lock costs both, and what is dropped may come back here as an event.
//!
//! * The consumer looks and goes to sleep under the mutex, and is notified by whoever changed what it waits for
//!   after that; so nothing falls in between.
//! * A worker takes its ticket, looks, and sleeps until somebody notified since; see [`EventCount`].
//! * What must happen together with an event, for others to see either both or none, is done by a closure under
//!   the mutex: submitting the jobs of a batch that was opened, clearing the queues for a new generation. These
//!   closures take the locks of queues, of the composer and that of the pool's list, whose holders never take the gate's.
//! * `generation` is a copy that workers read without the mutex. Relaxed: seeing a new one late costs
//!   one sample's work; whether a finished batch is wanted is decided under the mutex.
//!
//! Blocks know the gate, to tell when they are dropped, and the gate knows finished batches, which have blocks. So
//! nothing of it would ever be freed if batches stayed; [`Gate::stop`] takes them out, and after it none is accepted.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::state::{Course, Start};
use crate::sync::{Condvar, Mutex, MutexGuard, Ordering, lock};

use super::{Answer, BatchId, Effects, EventCount, Finished, Flow, Ledger, Opening, Ticket};

/// Shared by the consumer, the workers and the pool.
pub(crate) struct Gate<T, J> {
    flow: Mutex<Flow<T, J>>,
    consumer: Condvar,
    workers: EventCount,
    generation: AtomicU64,
    origin: Instant,
}

/// What waiting for a batch came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<T> {
    /// See [`Answer`]; never `Wait`.
    Answer(Answer<T>),
    /// The deadline passed.
    TimedOut,
}

impl<T, J> Gate<T, J> {
    pub(crate) fn new(flow: Flow<T, J>) -> Gate<T, J> {
        Gate {
            generation: AtomicU64::new(flow.generation()),
            flow: Mutex::new(flow),
            consumer: Condvar::new(),
            workers: EventCount::new(),
            origin: Instant::now(),
        }
    }

    /// Looks at the machine.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Flow<T, J>) -> R) -> R {
        look(&lock(&self.flow))
    }

    /// Nanoseconds since the gate was made.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether a generation is over, as far as is known here.
    pub(crate) fn is_stale(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Relaxed) != generation
    }

    // ---- the consumer

    /// Begins the next epoch. `clear` forgets what is queued of the last generation, if a new one is
    /// begun, and returns what is to be dropped.
    pub(crate) fn begin_epoch<D>(&self, clear: impl FnOnce(&Flow<T, J>) -> D) -> u64 {
        let mut flow = lock(&self.flow);
        let (token, restarts, effects) = flow.begin_epoch();
        let dropped = restarts.then(|| self.cleared(&flow, clear));
        self.carry_out(flow, effects);
        drop(dropped);
        token
    }

    /// The next batch if it is there; `None` if it is not.
    pub(crate) fn try_take(&self, token: u64) -> Option<Answer<T>> {
        let mut flow = lock(&self.flow);
        let (answer, effects) = flow.ask(token, 0);
        let answer = match answer {
            Answer::Wait { .. } => {
                flow.left(token);
                None
            }
            answer => Some(answer),
        };
        self.carry_out(flow, effects);
        answer
    }

    /// The next batch; waits for it until `deadline`.
    pub(crate) fn take(&self, token: u64, deadline: Option<Instant>) -> Taken<T> {
        let mut flow = lock(&self.flow);
        let (mut answer, effects) = flow.ask(token, self.now_ns());
        if effects.wake_workers > 0 {
            self.carry_out(flow, effects);
            flow = lock(&self.flow);
            if matches!(answer, Answer::Wait { .. }) {
                // It may have come while nobody held the lock.
                answer = self.again(&mut flow, token, answer);
            }
        }
        loop {
            let Answer::Wait { until_ns } = answer else { return Taken::Answer(answer) };
            let doze = until_ns.map(|until| self.origin + Duration::from_nanos(until));
            let until = match (deadline, doze) {
                (Some(deadline), Some(doze)) => Some(deadline.min(doze)),
                (deadline, doze) => deadline.or(doze),
            };
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            flow = match left {
                None => self.consumer.wait(flow).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => flow,
                Some(left) => {
                    let waited = self.consumer.wait_timeout(flow, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            answer = self.again(&mut flow, token, answer);
            let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if matches!(answer, Answer::Wait { .. }) && is_late() {
                flow.left(token);
                return Taken::TimedOut;
            }
        }
    }

    /// Asks again. A consumer that was woken for nothing while it waits for a bunch goes on doing so.
    fn again(
        &self,
        flow: &mut MutexGuard<'_, Flow<T, J>>,
        token: u64,
        before: Answer<T>,
    ) -> Answer<T> {
        let now_ns = self.now_ns();
        if let Answer::Wait { until_ns: Some(until) } = before
            && now_ns < until
            && flow.is_pending(token)
        {
            return before;
        }
        let (answer, effects) = flow.ask_again(token, now_ns);
        // Only delivery with a read-ahead of one lets go here; nothing is dropped or evicted by it.
        self.workers.notify(effects.wake_workers);
        answer
    }

    /// Ends the epoch early.
    pub(crate) fn cancel<D>(&self, token: u64, clear: impl FnOnce(&Flow<T, J>) -> D) {
        let mut flow = lock(&self.flow);
        if let Some(effects) = flow.cancel(token) {
            let dropped = self.cleared(&flow, clear);
            self.carry_out(flow, effects);
            drop(dropped);
        }
    }

    /// Goes on elsewhere with the next epoch that is begun.
    pub(crate) fn load<D>(
        &self,
        course: Course,
        start: &Start,
        clear: impl FnOnce(&Flow<T, J>) -> D,
    ) {
        let mut flow = lock(&self.flow);
        let effects = flow.load(course, start);
        let dropped = self.cleared(&flow, clear);
        self.carry_out(flow, effects);
        drop(dropped);
    }

    /// Ends everything.
    pub(crate) fn stop<D>(&self, panicked: Option<Arc<str>>, clear: impl FnOnce(&Flow<T, J>) -> D) {
        let mut flow = lock(&self.flow);
        let effects = flow.stop(panicked);
        let dropped = self.cleared(&flow, clear);
        self.carry_out(flow, effects);
        drop(dropped);
    }

    fn cleared<D>(&self, flow: &Flow<T, J>, clear: impl FnOnce(&Flow<T, J>) -> D) -> D {
        self.generation.store(flow.generation(), Ordering::Relaxed);
        clear(flow)
    }

    // ---- workers

    /// To be taken before looking for work.
    pub(crate) fn ticket(&self) -> Ticket {
        self.workers.ticket()
    }

    /// Sleeps until somebody has woken workers since the ticket was taken. A consumer that waits for a whole bunch
    /// learns that there will be no more.
    pub(crate) fn rest(&self, ticket: Ticket) {
        let mut flow = lock(&self.flow);
        let effects = flow.idle();
        self.carry_out(flow, effects);
        self.workers.wait(ticket);
    }

    /// Wakes all workers: something that is not the machine's business has changed for them.
    pub(crate) fn wake_workers(&self) {
        self.workers.notify(usize::MAX);
    }

    /// Reads so many batches ahead from now on.
    pub(crate) fn set_prefetch(&self, batches: usize) {
        let mut flow = lock(&self.flow);
        let effects = flow.set_prefetch(batches);
        self.carry_out(flow, effects);
    }

    /// Which batch may be opened.
    pub(crate) fn open(&self) -> Opening {
        lock(&self.flow).open()
    }

    /// What was set aside for a batch is not used.
    pub(crate) fn not_opened(&self) {
        let mut flow = lock(&self.flow);
        let effects = flow.not_opened();
        self.carry_out(flow, effects);
    }

    /// A batch is opened by `submit`, unless its generation is over. Returns whether it was. `jobs` is how many workers
    /// it is work for; who calls this does one of them.
    pub(crate) fn opened(
        &self,
        id: BatchId,
        samples: u64,
        jobs: usize,
        submit: impl FnOnce(),
    ) -> bool {
        let mut flow = lock(&self.flow);
        let Some(effects) = flow.opened(id, samples, jobs) else { return false };
        submit();
        self.carry_out(flow, effects);
        true
    }

    /// The samples of the batch that is about to be opened were taken from an iterator, which is then where it says.
    /// Returns how many bytes are booked for them, and how many idle ones should go.
    pub(crate) fn pulled(
        &self,
        id: BatchId,
        bytes: u64,
        largest: u64,
        iterator: Option<Arc<str>>,
    ) -> (u64, u64) {
        let mut flow = lock(&self.flow);
        let (booked, effects) = flow.pulled(id, bytes, largest, iterator);
        let evict = effects.evict;
        self.carry_out(flow, effects);
        (booked, evict)
    }

    /// The iterator has no more samples: its epoch has so many batches.
    pub(crate) fn found_end(&self, generation: u64, batches: u64) {
        let mut flow = lock(&self.flow);
        if let Some(effects) = flow.found_end(generation, batches) {
            self.carry_out(flow, effects);
        }
    }

    /// Something is queued again by `submit`, unless its generation is over.
    pub(crate) fn submit_again(&self, generation: u64, submit: impl FnOnce()) {
        let flow = lock(&self.flow);
        if flow.generation() == generation {
            submit();
            self.carry_out(flow, Effects { wake_workers: usize::MAX, ..Effects::default() });
        }
    }

    /// A batch could not be opened; it is delivered as an error.
    pub(crate) fn passed_over(&self, id: BatchId, failed: Finished<T>, also: impl FnOnce()) {
        let mut flow = lock(&self.flow);
        if flow.generation() == id.generation {
            also();
        }
        match flow.passed_over(id, failed) {
            Ok(effects) => self.carry_out(flow, effects),
            Err(unwanted) => {
                drop(flow);
                drop(unwanted);
            }
        }
    }

    /// A job to begin: this one, or none if it is held back for want of bytes.
    pub(crate) fn admit(&self, id: BatchId, job: J) -> Option<J> {
        lock(&self.flow).admit(id.generation, id.turn, job)
    }

    /// A job that was held back and may be begun now.
    pub(crate) fn release(&self) -> Option<J> {
        lock(&self.flow).release()
    }

    /// Samples of a batch were made, which took so many loose bytes, the largest of them so many. Returns how many
    /// are booked for them, and how many idle bytes should go.
    pub(crate) fn made(&self, id: BatchId, samples: u64, bytes: u64, largest: u64) -> (u64, u64) {
        let mut flow = lock(&self.flow);
        let (booked, effects) = flow.made((id.generation, id.turn), samples, bytes, largest);
        let evict = effects.evict;
        self.carry_out(flow, effects);
        (booked, evict)
    }

    /// A batch is finished. Whatever nobody wants any more is dropped.
    pub(crate) fn finished(&self, id: BatchId, finished: Finished<T>, batch_ns: f64) {
        let mut flow = lock(&self.flow);
        match flow.finished(id, finished, Some(batch_ns)) {
            Ok(effects) => self.carry_out(flow, effects),
            Err(unwanted) => {
                drop(flow);
                drop(unwanted);
            }
        }
    }

    /// Does what was decided, after the lock is released.
    fn carry_out(&self, flow: MutexGuard<'_, Flow<T, J>>, effects: Effects<T, J>) {
        drop(flow);
        if effects.wake_consumer {
            self.consumer.notify_all();
        }
        self.workers.notify(effects.wake_workers);
        drop(effects.dropped);
    }
}

impl<T: Send, J: Send> Ledger for Gate<T, J> {
    fn took(&self, capacity: u64, reused: bool, in_place_of: u64) -> u64 {
        lock(&self.flow).took(capacity, reused, in_place_of).evict
    }

    fn did_not_take(&self, capacity: u64) {
        let mut flow = lock(&self.flow);
        let effects = flow.did_not_take(capacity);
        self.carry_out(flow, effects);
    }

    fn freed(&self, bytes: u64) {
        let mut flow = lock(&self.flow);
        let effects = flow.freed(bytes);
        self.carry_out(flow, effects);
    }

    fn returned(&self, capacity: u64, delivered: bool, keep: &mut dyn FnMut()) -> bool {
        let mut flow = lock(&self.flow);
        let (is_kept, effects) = flow.returned(capacity, delivered);
        if is_kept {
            keep();
        }
        self.carry_out(flow, effects);
        is_kept
    }

    fn evicted(&self, bytes: u64) {
        lock(&self.flow).evicted(bytes);
    }

    fn reserve(&self, bytes: u64) -> u64 {
        lock(&self.flow).reserve(bytes).evict
    }

    fn unreserve(&self, bytes: u64) {
        lock(&self.flow).unreserve(bytes);
    }
}
