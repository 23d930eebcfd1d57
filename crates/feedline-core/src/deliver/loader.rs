//! The loader as its user holds it.
//!
//! # Consumers
//!
//! A loader serves one epoch at a time. Each [`start_epoch`](Loader::start_epoch) gives out a new token
//! and makes older ones void: their next call gets [`Error::Superseded`]. Calls with one token from
//! several threads take turns at the *turnstile*, so each batch goes to one of them, in order. Starting
//! an epoch does not pass the turnstile; whoever waits with an older token leaves. Which token is the last one is looked
//! at in the same breath in which a batch is taken (see `flow`).
//!
//! # Half-way
//!
//! An epoch that is left half-way stays where delivery is, so that a state taken after the loop was left
//! says what was delivered; it is over when the next epoch is begun. A new state may be loaded at any
//! time: what is in flight is dropped, tokens become void, and the next epoch begun is the rest of the
//! one that the state is in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::assemble::{Batch, Field};
use crate::crew::{Crew, GRACE};
use crate::engine::{Engine, Stepped};
use crate::error::{BuildError, Error, SampleError};
use crate::flow::{Answer, Flow, Taken};
use crate::measure::BatchTimes;
use crate::measure::consumption::Delivered;
use crate::plan::{Order, Plan};
use crate::process::Process;
use crate::state::{Segment, State, StateError};
use crate::sync::lock_std as lock;
use crate::work::{Dataset, Local};

use super::builder::LoaderBuilder;
use super::{BatchResult, Epoch, OrderLog};

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
    pub(super) engine: Arc<Engine>,
    crew: Crew,
    turnstile: Mutex<Local>,
    home: Process,
    /// Tells its tokens from another loader's.
    number: u64,
}

/// The right to take batches of one epoch of one loader; void as soon as another is given out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpochToken {
    loader: u64,
    token: u64,
}

/// How many loaders there have been. Relaxed: only that numbers differ matters.
static LOADERS: AtomicU64 = AtomicU64::new(0);

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

    pub(crate) fn new(engine: Arc<Engine>, crew: Crew) -> Loader {
        Loader {
            engine,
            crew,
            turnstile: Mutex::new(Local::new(0)),
            home: Process::this(),
            number: LOADERS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// An iterator over the next epoch.
    ///
    /// Iterating to its end lets the workers go on with the epoch after it, which
    /// the next call then finds begun. Dropping the iterator before its end cancels what is in flight;
    /// the next call begins the epoch after it, unless nothing was delivered.
    pub fn epoch(&self) -> Epoch<'_> {
        Epoch::new(self, self.start_epoch())
    }

    /// Begins the next epoch. For iterators that cannot borrow the loader.
    pub fn start_epoch(&self) -> EpochToken {
        if self.home.is_left() {
            return EpochToken { loader: self.number, token: 0 };
        }
        let token = self.engine.begin_epoch();
        lock(&self.engine.consumption).begun(self.engine.gate.now_ns());
        EpochToken { loader: self.number, token }
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
        // Patience that outlasts the clock is for ever.
        self.next_until(token, Instant::now().checked_add(patience))
    }

    /// The next batch if it is there already, without waiting for anything or anybody; `None` if it
    /// is not, or cannot be told at once.
    ///
    /// For callers to whom waiting is dear to prepare: what this gives, [`next`](Loader::next) would
    /// have given. It never runs user code.
    pub fn next_ready(&self, token: EpochToken) -> Option<Next> {
        if self.home.is_left() || self.engine.workers == 0 {
            return None;
        }
        // Whoever is at the turnstile may wait there for long.
        let _turn = self.turnstile.try_lock().ok()?;
        let token = match self.check(token) {
            Ok(token) => token,
            Err(answer) => return Some(answer),
        };
        let asked_ns = self.ask();
        let answer = self.engine.gate.try_take(token)?;
        Some(self.answer(answer, asked_ns))
    }

    fn next_until(&self, token: EpochToken, deadline: Option<Instant>) -> Next {
        if self.home.is_left() {
            return Next::Batch(Err(self.home.error()));
        }
        let token = match self.check(token) {
            Ok(token) => token,
            Err(answer) => return answer,
        };
        let mut local = lock(&self.turnstile);
        let asked_ns = self.ask();
        let taken = match self.engine.workers {
            0 => self.work_until_ready(token, &mut local, deadline),
            _ => self.engine.gate.take(token, deadline),
        };
        match taken {
            Taken::Answer(answer) => self.answer(answer, asked_ns),
            Taken::TimedOut => Next::Pending,
        }
    }

    /// A token of another loader's is void here.
    fn check(&self, token: EpochToken) -> Result<u64, Next> {
        match token.loader == self.number {
            true => Ok(token.token),
            false => Err(Next::Batch(Err(Error::Superseded))),
        }
    }

    /// The consumer came back for more. Returns since when it waits.
    fn ask(&self) -> u64 {
        let now_ns = self.engine.gate.now_ns();
        lock(&self.engine.consumption).asked(now_ns)
    }

    fn answer(&self, answer: Answer<BatchResult>, asked_ns: u64) -> Next {
        if !matches!(answer, Answer::Batch(..)) {
            lock(&self.engine.consumption).left_without();
        }
        match answer {
            Answer::Batch(finished, ready) => Next::Batch(self.deliver(finished, ready, asked_ns)),
            Answer::Wait { .. } => Next::Pending,
            Answer::End => Next::End,
            Answer::Superseded => Next::Batch(Err(Error::Superseded)),
            Answer::NoMoreEpochs(epochs) => Next::Batch(Err(Error::NoMoreEpochs { epochs })),
            Answer::Closed(None) => Next::Batch(Err(Error::Closed)),
            Answer::Closed(Some(why)) => Next::Batch(Err(Error::Broken { why })),
        }
    }

    /// Without workers: the caller takes the steps a worker would.
    fn work_until_ready(
        &self,
        token: u64,
        local: &mut Local,
        deadline: Option<Instant>,
    ) -> Taken<BatchResult> {
        loop {
            if let Some(answer) = self.engine.gate.try_take(token) {
                return Taken::Answer(answer);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Taken::TimedOut;
            }
            match self.engine.step(local) {
                Stepped::Worked | Stepped::Retired => {}
                Stepped::Stopped => return Taken::Answer(Answer::Closed(None)),
                // Whatever was opened has been worked off and delivered, so there is always
                // room for the next; only another thread's restart can have changed that.
                Stepped::Idle(..) => std::thread::yield_now(),
            }
        }
    }

    fn deliver(&self, finished: BatchResult, ready: usize, asked_ns: u64) -> Result<Batch, Error> {
        let taken_ns = self.engine.gate.now_ns();
        let BatchResult { result, errors, times, finished_ns } = finished;
        if let Ok(batch) = &result {
            batch.mark_delivered();
        }
        let result = match self.engine.runner.maker.note(&errors) {
            Some(too_many) => Err(too_many),
            None => result,
        };
        let count = |batch: &Batch| (batch.len() as u64, batch.byte_len() as u64);
        let (samples, bytes) = result.as_ref().map_or((0, 0), count);
        if let Some(composer) = &self.engine.runner.composer {
            composer.delivered_up_to(self.current_epoch());
        }
        let times = BatchTimes { shelved_ns: taken_ns.saturating_sub(finished_ns), ..times };
        let left_ns = self.engine.gate.now_ns();
        let note = Delivered { asked_ns, taken_ns, left_ns, times, samples, bytes, shelved: ready };
        lock(&self.engine.consumption).delivered(note);
        result
    }

    /// Ends the epoch early: drops what is in flight and stops working ahead. A state still says where
    /// delivery was; the next epoch begun is the one after it, unless nothing was delivered.
    pub fn cancel(&self, token: EpochToken) {
        if self.home.is_left() {
            return;
        }
        if let Ok(token) = self.check(token) {
            self.engine.cancel(token);
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
        self.engine.stop(None);
        self.crew.end(patience)
    }

    /// Whether it was closed, or broke down.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        !self.home.is_left() && self.engine.gate.look(Flow::is_stopped)
    }

    /// Whether this process is the one the loader was built in. In a forked child its threads do not
    /// exist, and locks they held stay locked: only asking for batches (which answers with
    /// [`Error::Forked`]) and dropping are safe there.
    pub fn check_process(&self) -> Result<(), Error> {
        if self.home.is_left() { Err(self.home.error()) } else { Ok(()) }
    }

    /// Batches per epoch (on this rank); of an iterable dataset, where nobody knows, a number that is never reached.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.engine.gate.look(|flow| flow.cursor().course.plan().batches())
    }

    /// Never: a loader without a single batch cannot be built.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.engine.plan()
    }

    /// What each sample consists of.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        self.engine.runner.schema().fields()
    }

    /// How many threads make samples, at present; 0 means the caller does.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.engine.active()
    }

    /// Samples of delivered batches that could not be made, in the order of delivery (the first 10,000 are
    /// kept).
    #[must_use]
    pub fn errors(&self) -> Vec<SampleError> {
        self.engine.runner.maker.journal.list()
    }

    /// Delivered orders of the last epochs in `ready` order, oldest first.
    #[must_use]
    pub fn order_logs(&self) -> Vec<OrderLog> {
        self.engine.runner.composer.as_ref().map_or_else(Vec::new, |composer| composer.logs())
    }

    /// Where delivery is: everything before it has been delivered, nothing after it. It takes a few
    /// microseconds at most and may be asked for at any time.
    ///
    /// After an epoch's last batch that is the start of the next epoch.
    #[must_use]
    pub fn state(&self) -> State {
        self.engine.gate.look(|flow| {
            let cursor = flow.cursor();
            let plan = cursor.course.plan();
            let whole;
            let segment = match cursor.course.segment(cursor.epoch) {
                Some(segment) => segment,
                None => {
                    whole = Segment::whole(plan, cursor.epoch);
                    &whole
                }
            };
            let own = cursor.undelivered.remaining();
            let iterator = cursor.iterator.as_deref();
            State::new(plan, &self.engine.pipeline, segment, cursor.number, &own, iterator)
        })
    }

    /// The epoch of the next batch.
    #[must_use]
    pub fn current_epoch(&self) -> u64 {
        self.engine.gate.look(|flow| flow.cursor().epoch)
    }

    /// The epoch that is begun next: the current one, unless a batch of it was delivered.
    #[must_use]
    pub fn next_epoch(&self) -> u64 {
        self.engine.gate.look(|flow| flow.cursor().upcoming())
    }

    /// Arranges the epochs to come in another way: for samplers that decide anew before each epoch.
    /// Drops what is in flight; the next epoch begun is a whole one in this order. Its number is
    /// [`next_epoch`](Loader::next_epoch). Build the loader with
    /// [`epochs_apart`](LoaderBuilder::epochs_apart), or it works ahead in the order that is about to go.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] where no loader could be built with the order, or this one has no room for its batches. Nothing has
    /// changed then.
    pub fn set_order(&self, order: Order) -> Result<(), BuildError> {
        if self.home.is_left() {
            return Ok(());
        }
        self.engine.set_plan(&self.engine.planned(order)?);
        Ok(())
    }

    /// How many batches are left of the epoch that is next or running; `None` where the dataset is iterable and its
    /// end was not found yet.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        self.engine.gate.look(|flow| flow.cursor().left())
    }

    /// How many batches are left of the epoch of this token; none if it is void.
    pub(super) fn left_of(&self, token: EpochToken) -> Option<u64> {
        match self.check(token) {
            Ok(token) => self.engine.gate.look(|flow| flow.left_of(token)),
            Err(_) => Some(0),
        }
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
        self.engine.load(&self.engine.plan(), state, forced)
    }

    /// As [`load_state`](Loader::load_state), where the epoch of the state has an order of its own;
    /// see [`set_order`](Loader::set_order). It must be the one it had then, if a batch of it was delivered.
    ///
    /// # Errors
    ///
    /// As the two have. Nothing has changed then.
    pub fn load_state_in(
        &self,
        order: Order,
        state: &State,
        forced: bool,
    ) -> Result<(), BuildError> {
        if self.home.is_left() {
            return Ok(());
        }
        let plan = self.engine.planned(order)?;
        Ok(self.engine.load(&plan, &state.in_order_of(&plan), forced)?)
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
            .field("plan", &self.engine.plan())
            .field("workers", &self.engine.workers)
            .finish_non_exhaustive()
    }
}
