//! The loader as its user holds it, and the iterator over one epoch.
//!
//! # Consumers
//!
//! A loader serves one epoch at a time. Each [`start_epoch`](Loader::start_epoch) gives out a new token
//! and makes older ones void: their next call gets [`Error::Superseded`]. Calls with one token from
//! several threads take turns at the *turnstile*, so each batch goes to one of them, in order. Starting
//! an epoch does not pass the turnstile; it raises the generation, and whoever waits for the old one
//! leaves. The cursor has a lock of its own that is never held while waiting.
//!
//! # Half-way
//!
//! An epoch that is left half-way stays where delivery is, so that a state taken after the loop was left
//! says what was delivered; it is over when the next epoch is begun. A new state may be loaded at any
//! time: what is in flight is dropped, tokens become void, and the next epoch begun is the rest of the
//! one that the state is in.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::assemble::{Batch, Field};
use crate::engine::{Engine, Step};
use crate::error::{Error, SampleError};
use crate::measure::flow::{Flow, Note};
use crate::measure::{BatchTimes, ConsumerStats, StageStats, Stats, Times, WorkerStats, stats};
use crate::plan::Plan;
use crate::process::Process;
use crate::state::{Segment, Start, State, StateError, Undelivered};
use crate::sync::lock as engine_lock;
use crate::work::{Crew, Dataset, Desk, GRACE, Stage};

use super::builder::LoaderBuilder;
use super::{Course, Finished, OrderLog, Taken};

/// Loads a dataset in parallel and delivers it in batches, epoch by epoch.
///
/// ```
/// # use feedline_core::{Cause, DType, Dataset, Field, Sample};
/// # struct Squares;
/// # impl Dataset for Squares {
/// #     fn len(&self) -> u64 { 1000 }
/// #     fn fields(&self) -> Vec<Field> { vec![Field::fixed("square", DType::U64, [])] }
/// #     fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
/// #         let i = sample.index().0;
/// #         Ok(sample.put(0, &[i * i])?)
/// #     }
/// # }
/// use feedline_core::Loader;
///
/// let loader = Loader::builder(Squares).batch_size(64).shuffle(7).workers(2).build()?;
/// let mut sum = 0;
/// for batch in loader.epoch() {
///     sum += batch?.get("square").unwrap().as_slice::<u64>()?.iter().sum::<u64>();
/// }
/// assert_eq!(sum, (0..1000).map(|i| i * i).sum());
/// println!("{}", loader.stats().explain());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loader {
    engine: Arc<Engine>,
    crew: Crew,
    cursor: Mutex<Cursor>,
    turnstile: Mutex<Desk>,
    home: Process,
}

/// Where delivery is, and what it came to so far.
struct Cursor {
    token: u64,
    generation: u64,
    /// The epoch being delivered or, between epochs, the next one.
    epoch: u64,
    /// The next batch of it.
    number: u64,
    course: Course,
    /// Which positions of the epoch are not delivered.
    undelivered: Undelivered,
    /// Whether a batch of the epoch was delivered since it was begun or resumed.
    begun: bool,
    /// Whether the engine works towards (`epoch`, `number`).
    running: bool,
    /// The token whose epoch was delivered to its end.
    ended: Option<u64>,
    started_ns: Option<u64>,
    flow: Flow,
}

/// The right to take batches of one epoch; void as soon as another is given out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EpochToken(u64);

/// What [`Loader::next_within`] came back with.
#[derive(Debug)]
pub enum Next {
    /// The next batch, or why there is none; the one after it may be asked for either way.
    Batch(Result<Batch, Error>),
    /// The epoch is over.
    End,
    /// The time is over, the batch is not there yet.
    Pending,
}

impl Loader {
    /// Begins to describe a loader.
    pub fn builder(dataset: impl Dataset) -> LoaderBuilder {
        LoaderBuilder::new(Box::new(dataset))
    }

    pub(crate) fn new(engine: Arc<Engine>, crew: Crew, start: &Start) -> Loader {
        let course = Course::new(&engine.plan, start);
        let cursor = Cursor {
            token: 0,
            generation: 0,
            epoch: start.epoch,
            number: start.number,
            undelivered: undelivered(&course, start),
            course,
            begun: false,
            running: false,
            ended: None,
            started_ns: None,
            flow: Flow::new(),
        };
        Loader {
            engine,
            crew,
            cursor: Mutex::new(cursor),
            turnstile: Mutex::new(Desk::new(0)),
            home: Process::this(),
        }
    }

    /// An iterator over the next epoch.
    ///
    /// Iterating to its end lets the workers go on with the epoch after it, which
    /// the next call then finds begun. Dropping the iterator before its end cancels what is in flight;
    /// the next call begins the epoch after it, unless nothing was delivered.
    pub fn epoch(&self) -> Epoch<'_> {
        Epoch { loader: self, token: self.start_epoch(), over: false }
    }

    /// Begins the next epoch. For iterators that cannot borrow the loader.
    pub fn start_epoch(&self) -> EpochToken {
        if self.home.is_left() {
            return EpochToken(0);
        }
        let mut cursor = lock(&self.cursor);
        cursor.token += 1;
        if cursor.begun {
            // Left half-way.
            cursor.next_epoch();
            cursor.running = false;
        }
        if !cursor.running {
            cursor.generation = self.engine.restart(cursor.epoch, cursor.number);
            cursor.running = true;
        }
        cursor.started_ns.get_or_insert_with(|| self.engine.now_ns());
        EpochToken(cursor.token)
    }

    /// The next batch of the epoch; waits for it.
    pub fn next(&self, token: EpochToken) -> Option<Result<Batch, Error>> {
        match self.next_until(token, None) {
            Next::Batch(batch) => Some(batch),
            Next::End | Next::Pending => None,
        }
    }

    /// The next batch of the epoch; waits for it at most `patience`, so that the caller can look after
    /// other things. (Without workers the caller works, and the sample it is at is finished first.)
    pub fn next_within(&self, token: EpochToken, patience: Duration) -> Next {
        self.next_until(token, Some(Instant::now() + patience))
    }

    /// The next batch if it is there already, without waiting for anything or anybody; `None` if it
    /// is not, or cannot be told at once.
    ///
    /// For callers to whom waiting is dear to prepare: what this gives, [`next`](Loader::next) would
    /// have given. It never runs user code.
    pub fn next_ready(&self, token: EpochToken) -> Option<Next> {
        if self.home.is_left() || self.engine.settings.workers == 0 {
            return None;
        }
        // Whoever is at the turnstile may wait there for long.
        let _turn = self.turnstile.try_lock().ok()?;
        let asked_ns = self.engine.now_ns();
        let generation = match self.ask(token, asked_ns) {
            Ok(generation) => generation,
            Err(answer) => return Some(answer),
        };
        let taken = self.engine.try_take(generation)?;
        Some(self.answer(token, generation, taken, asked_ns))
    }

    fn next_until(&self, token: EpochToken, deadline: Option<Instant>) -> Next {
        if self.home.is_left() {
            return Next::Batch(Err(self.home.error()));
        }
        let asked_ns = self.engine.now_ns();
        let mut desk = lock(&self.turnstile);
        let generation = match self.ask(token, asked_ns) {
            Ok(generation) => generation,
            Err(answer) => return answer,
        };
        let taken = match self.engine.settings.workers {
            0 => self.work_until_ready(generation, &mut desk, deadline),
            _ => self.engine.take(generation, deadline),
        };
        self.answer(token, generation, taken, asked_ns)
    }

    /// The generation to take from, or what there is to say instead of a batch.
    fn ask(&self, token: EpochToken, asked_ns: u64) -> Result<u64, Next> {
        let mut cursor = lock(&self.cursor);
        cursor.flow.asked(asked_ns);
        if cursor.token != token.0 {
            return Err(Next::Batch(Err(Error::Superseded)));
        }
        if !cursor.running || cursor.ended == Some(token.0) {
            return Err(Next::End);
        }
        match self.engine.settings.epochs {
            // An epoch that the loader was told not to begin: said once, then the epoch ends.
            Some(epochs) if cursor.epoch >= epochs => {
                cursor.ended = Some(token.0);
                Err(Next::Batch(Err(Error::NoMoreEpochs { epochs })))
            }
            _ => {
                let generation = cursor.generation;
                drop(cursor);
                self.engine.count_asked(generation, asked_ns);
                Ok(generation)
            }
        }
    }

    fn answer(
        &self,
        token: EpochToken,
        generation: u64,
        taken: Taken<Finished>,
        asked_ns: u64,
    ) -> Next {
        match taken {
            Taken::Item(finished, shelved) => {
                let taken_ns = self.engine.now_ns();
                let moments = (asked_ns, taken_ns);
                Next::Batch(self.deliver(token, generation, finished, shelved, moments))
            }
            Taken::TimedOut => Next::Pending,
            Taken::Superseded => Next::Batch(Err(Error::Superseded)),
            Taken::Closed => Next::Batch(Err(Error::Closed)),
        }
    }

    /// Without workers: the caller takes the steps a worker would.
    fn work_until_ready(
        &self,
        generation: u64,
        desk: &mut Desk,
        deadline: Option<Instant>,
    ) -> Taken<Finished> {
        loop {
            if let Some(taken) = self.engine.shelf.try_take(generation) {
                return taken;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Taken::TimedOut;
            }
            match self.engine.step(desk) {
                Step::Worked | Step::Retired => {}
                Step::Stopped => return Taken::Closed,
                // Whatever was opened has been worked off and delivered, so there is always
                // room for the next; only another thread's restart can have changed that.
                Step::Idle(..) => std::thread::yield_now(),
            }
        }
    }

    fn deliver(
        &self,
        token: EpochToken,
        generation: u64,
        finished: Finished,
        shelved: usize,
        (asked_ns, taken_ns): (u64, u64),
    ) -> Result<Batch, Error> {
        let Finished { result, positions, times, finished_ns } = finished;
        if let Ok(batch) = &result {
            batch.hand_over();
        }
        self.engine.count_delivered(generation, times.building_ns, taken_ns);
        let times = BatchTimes { shelved_ns: taken_ns.saturating_sub(finished_ns), ..times };
        let (samples, bytes) = match &result {
            Ok(batch) => (batch.len() as u64, batch.byte_len() as u64),
            Err(_) => (0, 0),
        };
        let left_ns = self.engine.now_ns();
        let mut cursor = lock(&self.cursor);
        if cursor.token == token.0 {
            cursor.step_past(&positions);
            if cursor.number == cursor.course.batches(cursor.epoch) {
                cursor.next_epoch();
                cursor.ended = Some(token.0);
                self.engine.delivered_epochs.store(cursor.epoch, Ordering::Relaxed);
            }
        }
        cursor.flow.delivered(Note { asked_ns, taken_ns, left_ns, times, samples, bytes, shelved });
        result
    }

    /// Ends the epoch early: drops what is in flight and stops working ahead. A state still says where
    /// delivery was; the next epoch begun is the one after it, unless nothing was delivered.
    pub fn cancel(&self, token: EpochToken) {
        if self.home.is_left() {
            return;
        }
        let mut cursor = lock(&self.cursor);
        if cursor.token == token.0 && cursor.running && cursor.ended != Some(token.0) {
            self.engine.pause();
            cursor.running = false;
        }
    }

    /// Ends all work and waits for the workers; whoever asks for a batch afterwards gets
    /// [`Error::Closed`]. Dropping the loader does the same.
    ///
    /// A thread that hangs in user code is left behind after some seconds; it frees its share when it
    /// returns.
    pub fn close(&self) {
        self.close_within(GRACE);
    }

    /// As [`close`](Loader::close), but waits at most `patience`. Returns whether all workers have
    /// ended; those that have not are not waited for again. With a patience of zero they are told to
    /// end, and can be waited for later.
    pub fn close_within(&self, patience: Duration) -> bool {
        if self.home.is_left() {
            return true;
        }
        self.engine.stop();
        self.crew.end(patience)
    }

    /// Whether this process is the one the loader was built in. In a forked child its threads do not
    /// exist, and locks they held stay locked: only asking for batches (which answers with
    /// [`Error::Forked`]) and dropping are safe there.
    pub fn check_process(&self) -> Result<(), Error> {
        if self.home.is_left() { Err(self.home.error()) } else { Ok(()) }
    }

    /// Batches per epoch (on this rank).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.engine.plan.batches()
    }

    /// Never: a loader without a single batch cannot be built.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.engine.plan
    }

    /// What each sample consists of.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        self.engine.schema.fields()
    }

    /// How many threads make samples; 0 means the caller does.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.engine.settings.workers
    }

    /// Samples that could not be made so far, oldest first (at most 10,000 are kept). Samples made
    /// ahead count, too, those of the next epoch included: [`SampleError::epoch`] tells them apart.
    #[must_use]
    pub fn errors(&self) -> Vec<SampleError> {
        self.engine.journal.list()
    }

    /// Delivered orders of the last epochs in `ready` order, oldest first.
    #[must_use]
    pub fn order_logs(&self) -> Vec<OrderLog> {
        engine_lock(&self.engine.composer).logs().cloned().collect()
    }

    /// Where delivery is: everything before it has been delivered, nothing after it. It takes a few
    /// microseconds at most and may be asked for at any time.
    ///
    /// After an epoch's last batch that is the start of the next epoch.
    #[must_use]
    pub fn state(&self) -> State {
        let cursor = lock(&self.cursor);
        let plan = &self.engine.plan;
        let whole;
        let segment = match cursor.course.segment(cursor.epoch) {
            Some(segment) => segment,
            None => {
                whole = Segment::whole(plan, cursor.epoch);
                &whole
            }
        };
        let own = cursor.undelivered.remaining();
        State::new(plan, &self.engine.pipeline, segment, cursor.number, &own)
    }

    /// The epoch of the next batch.
    #[must_use]
    pub fn current_epoch(&self) -> u64 {
        lock(&self.cursor).epoch
    }

    /// How many batches are left of the epoch that is next or running.
    #[must_use]
    pub fn left(&self) -> u64 {
        let cursor = lock(&self.cursor);
        cursor.course.batches(cursor.epoch) - cursor.number
    }

    /// Goes on where a state was taken: drops what is in flight, and begins the next epoch there.
    ///
    /// The state may come from a loader with another number of workers, other read-ahead, another
    /// order of delivery, another batch size or another number of ranks; what is left of the epoch is
    /// then dealt out anew. With `forced`, from one with another plan or pipeline as well.
    ///
    /// # Errors
    ///
    /// A [`StateError`] that says what differs. Nothing has changed then.
    pub fn load_state(&self, state: &State, forced: bool) -> Result<(), StateError> {
        if self.home.is_left() {
            return Ok(());
        }
        let start = self.engine.fit(state, forced)?;
        let mut cursor = lock(&self.cursor);
        let course = Course::new(&self.engine.plan, &start);
        self.engine.take_course(course.clone());
        cursor.token += 1;
        cursor.epoch = start.epoch;
        cursor.number = start.number;
        cursor.undelivered = undelivered(&course, &start);
        cursor.course = course;
        cursor.begun = false;
        cursor.running = false;
        cursor.ended = None;
        self.engine.delivered_epochs.store(start.epoch, Ordering::Relaxed);
        Ok(())
    }

    /// Everything that was measured so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let engine = &self.engine;
        let tallies = engine.tallies.iter().map(|tally| (tally, tally.stages()));
        let mut totals = [const { None }; 3];
        let mut workers = Vec::with_capacity(engine.tallies.len());
        for (worker, (tally, stages)) in tallies.enumerate() {
            workers.push(WorkerStats {
                worker,
                samples: tally.samples.load(Ordering::Relaxed),
                jobs: tally.jobs.load(Ordering::Relaxed),
                busy_ns: tally.busy_ns.load(Ordering::Relaxed),
                idle_for_consumer_ns: tally.idle_for_consumer_ns.load(Ordering::Relaxed),
                idle_without_work_ns: tally.idle_without_work_ns.load(Ordering::Relaxed),
                stages: Stage::ALL.into_iter().zip(&stages).map(stage_stats).collect(),
            });
            for (total, stage) in totals.iter_mut().zip(stages) {
                match total {
                    None => *total = Some(stage),
                    Some(total) => {
                        total.bytes += stage.bytes;
                        total.total_ns += stage.total_ns;
                        let _ = total.times.add(&stage.times);
                    }
                }
            }
        }
        let (imbalance, efficiency) = stats::balance(workers.iter().map(|w| w.busy_ns));
        let mut cursor = lock(&self.cursor);
        cursor.flow.fold();
        let flow = &cursor.flow;
        Stats {
            elapsed_ns: cursor.started_ns.map_or(0, |started| engine.now_ns() - started),
            batches: flow.batches,
            samples: flow.samples,
            bytes: flow.bytes,
            errors: engine.journal.count(),
            lost_workers: engine.watchlist.lost.load(Ordering::Relaxed),
            consumer: ConsumerStats {
                step_ns: flow.step_ns,
                wait_ns: flow.wait_ns,
                handover_ns: flow.handover_ns,
                waits: Times::from(&flow.waits),
            },
            stages: Stage::ALL.into_iter().zip(totals.iter().flatten()).map(stage_stats).collect(),
            workers,
            batch_parts: flow.parts,
            recent_batches: flow.recent.clone(),
            occupancy: flow.occupancy.points().to_vec(),
            imbalance,
            efficiency,
            steals: engine.policy.steals(),
            memory: engine.pool.bytes(),
            prefetch: engine.read_ahead(),
            ready: engine.shelf.full(),
        }
    }
}

impl Cursor {
    /// A batch with these positions, or simply with the next ones, was delivered.
    fn step_past(&mut self, positions: &[u64]) {
        match positions {
            [] => {
                let range = self.course.batch_range(self.epoch, self.number);
                self.undelivered.up_to(range.end);
            }
            positions => self.undelivered.mark(positions),
        }
        self.number += 1;
        self.begun = true;
    }

    fn next_epoch(&mut self) {
        self.epoch += 1;
        self.number = 0;
        self.begun = false;
        self.undelivered = Undelivered::default();
    }
}

/// What is not delivered where a loader begins.
fn undelivered(course: &Course, start: &Start) -> Undelivered {
    match &start.segment {
        Some(segment) => Undelivered::from(&segment.own),
        None => {
            let mut undelivered = Undelivered::default();
            undelivered.up_to(course.batch_range(start.epoch, start.number).start);
            undelivered
        }
    }
}

fn stage_stats((stage, tally): (Stage, &crate::measure::tally::StageTally)) -> StageStats {
    StageStats {
        stage,
        bytes: tally.bytes,
        total_ns: tally.total_ns,
        times: Times::from(&tally.times),
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("plan", &self.engine.plan)
            .field("workers", &self.engine.settings.workers)
            .finish_non_exhaustive()
    }
}

/// The batches of one epoch. Dropping it half-way cancels the rest.
#[derive(Debug)]
pub struct Epoch<'a> {
    loader: &'a Loader,
    token: EpochToken,
    /// Set by errors that end the epoch, as opposed to those that cost a batch.
    over: bool,
}

impl Iterator for Epoch<'_> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.loader.next(self.token);
        if let Some(Err(Error::Superseded | Error::Closed | Error::Forked { .. })) = &next {
            self.over = true;
        }
        next
    }
}

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        self.loader.cancel(self.token);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
