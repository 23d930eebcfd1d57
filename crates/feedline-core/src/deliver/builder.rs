//! Describing a loader.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::assemble::{
    Alter, Assembler, BatchLayout, Collate, Composer, Depot, PageLock, Pool, Schema, block_size,
};
use crate::crew::{Crew, usable_cores};
use crate::engine::{Engine, Orphans};
use crate::error::{BuildError, OnError};
use crate::flow::{Bunch, Flow, Gate, Ledger, Rules};
use crate::measure::tally::Tally;
use crate::open::{Grain, Iterating, Opener};
use crate::plan::{Boundary, Order, Plan};
use crate::schedule::{MakePolicy, Policy, PolicyKind, costs::Costs};
use crate::state::{Course, PipelineIdentity, Start, State};
use crate::work::{Dataset, Handoff, Iterable, Journal, Maker, Runner, Watchlist, Work};

use super::{Delivery, Loader, OrderLog};

/// Threads beyond this are a mistake, not a wish.
const MOST_THREADS: usize = 4096;
/// The byte budget where none is given.
const DEFAULT_BUDGET: u64 = 2 << 30;
/// What a slot of a batch takes besides its values.
const SLOT_BYTES: usize = 48;

/// Settings of a [`Loader`]. Everything but the dataset has a default.
#[must_use = "a builder does nothing until `build` is called"]
pub struct LoaderBuilder {
    dataset: Box<dyn Dataset>,
    batch_size: u64,
    order: Order,
    seed: u64,
    boundary: Boundary,
    rank: (u64, u64),
    workers: Option<usize>,
    io_workers: usize,
    pin: bool,
    policy: Box<dyn Fn(usize) -> Arc<dyn Policy<Work>> + Send>,
    /// Whether the policy orders by cost.
    by_cost: bool,
    prefetch: Option<usize>,
    frugal: bool,
    bunch: Option<usize>,
    memory: Option<u64>,
    delivery: Delivery,
    replay: Vec<OrderLog>,
    on_error: OnError,
    max_errors: Option<u64>,
    sample_timeout: Option<Duration>,
    epochs: Option<u64>,
    epochs_apart: bool,
    collate: Option<Arc<dyn Collate>>,
    alters: Vec<Arc<dyn Alter>>,
    page_lock: Option<Arc<dyn PageLock>>,
    copies_strings: bool,
    resume: Option<(State, bool)>,
    recipe: String,
}

impl LoaderBuilder {
    pub(crate) fn new(dataset: Box<dyn Dataset>) -> LoaderBuilder {
        LoaderBuilder {
            dataset,
            batch_size: 1,
            order: Order::Sequential,
            seed: 0,
            boundary: Boundary::Keep,
            rank: (0, 1),
            workers: None,
            io_workers: 0,
            pin: false,
            policy: Box::new(|workers| PolicyKind::default().make(workers)),
            by_cost: PolicyKind::default().wants_costs(),
            prefetch: None,
            frugal: false,
            bunch: None,
            memory: None,
            delivery: Delivery::InOrder,
            replay: Vec::new(),
            on_error: OnError::Raise,
            max_errors: None,
            sample_timeout: None,
            epochs: None,
            epochs_apart: false,
            collate: None,
            alters: Vec::new(),
            page_lock: None,
            copies_strings: false,
            resume: None,
            recipe: String::new(),
        }
    }

    /// Samples per batch. Default 1.
    pub fn batch_size(mut self, samples: u64) -> Self {
        self.batch_size = samples;
        self
    }

    /// A new random order each epoch, the same for the same seed.
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.order = Order::Shuffled;
        self.seed = seed;
        self
    }

    /// Which samples, in which order. Default: all, one after the other.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// What every random decision depends on. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What happens where the samples do not fill the last batch. Default: it is short.
    pub fn boundary(mut self, boundary: Boundary) -> Self {
        self.boundary = boundary;
        self
    }

    /// Deliver the share of process `rank` of `world`.
    pub fn rank(mut self, rank: u64, world: u64) -> Self {
        self.rank = (rank, world);
        self
    }

    /// Threads that make samples. Default: the cores this process may use, less one for the training
    /// loop, at least one. With 0 the caller makes them.
    pub fn workers(mut self, threads: usize) -> Self {
        self.workers = Some(threads);
        self
    }

    /// Threads that only load, so that many reads can be under way while few cores compute. Default
    /// 0: each worker does all stages of a sample.
    pub fn io_workers(mut self, threads: usize) -> Self {
        self.io_workers = threads;
        self
    }

    /// Bind each worker to a core. Default: no; the kernel mostly knows better.
    pub fn pin_workers(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// Who does what. Default: work stealing, [`PolicyKind::Steal`].
    pub fn policy(mut self, policy: impl MakePolicy + Send + 'static) -> Self {
        self.by_cost = policy.wants_costs();
        self.policy = Box::new(move |workers| policy.make(workers));
        self
    }

    /// How many batches may be begun ahead of the one the consumer waits for. Default: 4, or the
    /// number of workers if that is more; fewer where they would take over 96 MiB, but 2, and enough to
    /// keep all workers busy; unless [`memory`](LoaderBuilder::memory) says how much they may take. Where
    /// that leaves 2, the batch in the consumer's hands is one of them, unless workers are many for so few samples.
    /// Batches of fixed size that cost little (up to a tenth of a millisecond, and some kilobytes) are begun up
    /// to 16 times as many, at most an epoch ahead. Say how many if the data changes between epochs.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = Some(batches);
        self
    }

    /// Two batches ahead, of which the one in the user's hands is one.
    #[cfg(loom)]
    pub(crate) fn frugal(mut self) -> Self {
        self.frugal = true;
        self.prefetch(2)
    }

    /// Two [bunches](crate::flow::Bunch) of so many batches ahead, whatever those cost.
    #[cfg(loom)]
    pub(crate) fn bunches_of(mut self, batches: usize) -> Self {
        self.bunch = Some(batches);
        self.prefetch(2)
    }

    /// How many bytes may be on their way: batches that are not delivered, values and loaded bytes that are not in a
    /// batch yet, blocks that wait to be used again. Default 2 GiB, or one batch if that is more. Besides, each worker has
    /// the sample that it is at.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Which samples a batch is made of. Default: those that were planned for it.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Deliver an epoch as an earlier run in `ready` order did. May be given for several epochs.
    pub fn replay(mut self, log: OrderLog) -> Self {
        self.replay.push(log);
        self
    }

    /// What is done about a sample that cannot be made. Default: its batch is an error.
    pub fn on_error(mut self, policy: OnError) -> Self {
        self.on_error = policy;
        self
    }

    /// How many samples may be skipped or replaced before that is an error itself. Default: any number.
    pub fn max_errors(mut self, samples: u64) -> Self {
        self.max_errors = Some(samples);
        self
    }

    /// How long one sample may take before it is given up. Needs workers. Samples are then made aside
    /// and copied into their batch, since one that is given up may still be written to.
    pub fn sample_timeout(mut self, limit: Duration) -> Self {
        self.sample_timeout = Some(limit);
        self
    }

    /// Begin no epoch after this many. Default: the next epoch is always begun while one drains.
    pub fn epochs(mut self, count: u64) -> Self {
        self.epochs = Some(count);
        self
    }

    /// Begin nothing of an epoch before it is asked for: where the data or the
    /// [order](Loader::set_order) changes between epochs. Default: an epoch fills while the one before it drains.
    pub fn epochs_apart(mut self, apart: bool) -> Self {
        self.epochs_apart = apart;
        self
    }

    /// Put batches together in another way than field by field.
    pub fn collate(mut self, collate: impl Collate) -> Self {
        self.collate = Some(Arc::new(collate));
        self
    }

    /// Change each batch as a whole once its samples are in place; several in the order they were given.
    pub fn alter(mut self, alter: impl Alter) -> Self {
        self.alters.push(Arc::new(alter));
        self
    }

    /// Page-lock the blocks that batches live in.
    pub fn page_lock(mut self, page_lock: Arc<dyn PageLock>) -> Self {
        self.page_lock = Some(page_lock);
        self
    }

    /// Says that the consumer copies text and bytes out of each batch and drops their arrays at once; so the byte budget
    /// covers them until then. For bindings to languages with strings of their own. Default: no.
    pub fn copies_strings(mut self, copies: bool) -> Self {
        self.copies_strings = copies;
        self
    }

    /// Go on where a state was taken; see [`Loader::load_state`].
    pub fn resume(mut self, state: State) -> Self {
        self.resume = Some((state, false));
        self
    }

    /// Go on at the place where a state was taken, even if plan or pipeline were others then. Samples may
    /// come twice or not at all until the epoch ends.
    pub fn resume_forced(mut self, state: State) -> Self {
        self.resume = Some((state, true));
        self
    }

    /// What makes the samples, in words: part of every state, so that one of another pipeline is
    /// noticed. Leave out what differs between machines, such as paths. Default: nothing; the fields
    /// and the number of samples are compared in any case.
    pub fn recipe(mut self, recipe: impl Into<String>) -> Self {
        self.recipe = recipe.into();
        self
    }

    /// Checks everything and starts the workers. They sleep until the first epoch is begun.
    pub fn build(self) -> Result<Loader, BuildError> {
        let (pin, limit) = (self.pin, self.sample_timeout);
        let engine = self.engine()?;
        let crew = Crew::start(&engine, pin, limit)?;
        Ok(Loader::new(engine, crew))
    }

    /// All but the threads.
    pub(crate) fn engine(self) -> Result<Arc<Engine>, BuildError> {
        let schema = Arc::new(Schema::new(self.dataset.fields())?);
        let iterable = self.dataset.iterable().map(Iterable::shares);
        let samples = match iterable {
            None => Plan::builder(self.dataset.len()),
            Some(_) => Plan::unbounded(),
        };
        self.check_iterable()?;
        let plan = samples
            .order(self.order.clone())
            .seed(self.seed)
            .batch_size(self.batch_size)
            .boundary(self.boundary)
            .rank(self.rank.0, self.rank.1)
            .build()?;
        self.check(&plan)?;
        let workers = self.workers.unwrap_or_else(|| usable_cores().saturating_sub(1).max(1));
        let layout = self.layout(&schema, &plan)?;
        let batch = layout.as_ref().map_or(0, |layout| layout.bytes);
        let block = if layout.is_some() { block_size(batch).unwrap_or(usize::MAX) } else { 0 };
        let budget = self.memory.unwrap_or(DEFAULT_BUDGET).max(block as u64);
        let pipeline = PipelineIdentity::new(schema.fields(), &self.recipe);
        let start = match &self.resume {
            Some((state, forced)) => state.fit(&plan, &pipeline, *forced)?,
            None => Start::at(0, 0),
        };
        if let (Some((state, _)), Some(shares)) = (&self.resume, iterable) {
            state.check_iterable(&plan, &start, shares)?;
        }
        for log in &self.replay {
            log.check_start(&start, self.batch_size)?;
        }
        let keeps_parcels = schema.variable() > 0 || self.collate.is_some();
        let window = match self.delivery {
            Delivery::InOrder => None,
            Delivery::Ready { window } => Some(window as u64),
        };
        let (prefetch, frugal) = self.read_ahead(workers, batch as u64);
        let rules = Rules {
            prefetch,
            elastic: (self.prefetch.is_none() && workers > 0) || self.bunch.is_some(),
            frugal,
            bunch: self.bunch(workers, prefetch, &schema, layout.as_ref(), &plan),
            budget,
            batch_bytes: block as u64,
            loose: keeps_parcels || self.io_workers > 0 || iterable.is_some(),
            padded: schema.is_padded(),
            window,
            epochs: self.epochs,
            apart: self.epochs_apart,
            batch_size: self.batch_size,
        };
        let (loose, tells) = (rules.loose, rules.loose || window.is_some());
        let course = Course::new(&plan, &start);
        let gate = Arc::new(Gate::new(Flow::new(rules, course.clone(), &start)));
        let ledger: Arc<dyn Ledger> = Arc::clone(&gate) as _;
        let pool = Pool::new(budget, Arc::clone(&ledger), self.page_lock);
        let composer =
            window.map(|_| Arc::new(Composer::new(course, self.batch_size, keeps_parcels, ledger)));
        let takers = if self.io_workers > 0 { self.io_workers } else { workers }.max(1);
        let threads = takers + if self.io_workers > 0 { workers } else { 0 };
        let policy = (self.policy)(takers);
        let by_cost = self.by_cost;
        let costs = Arc::new(Costs::new(plan.dataset_len(), by_cost));
        // Kept for reuse, beside what is booked: a few hundredths of the budget.
        let spare = usize::try_from(budget / 64).unwrap_or(usize::MAX).min(16 << 20);
        let is_limited = self.sample_timeout.is_some();
        let dataset: Arc<dyn Dataset> = Arc::from(self.dataset);
        let iterating = iterable.map(|_| Iterating {
            dataset: Arc::clone(&dataset),
            seed: self.seed,
            rank: plan.rank(),
            world: plan.world(),
            boundary: self.boundary,
        });
        let maker = Maker {
            dataset,
            schema: Arc::clone(&schema),
            gate: Arc::clone(&gate),
            seed: self.seed,
            on_error: self.on_error,
            max_errors: self.max_errors,
            is_limited,
            // A worker that is given up on may still be writing when its batch has long been delivered, so
            // under a time limit samples are made aside, as they are where the slot is not known yet.
            in_place: layout.is_some() && !is_limited && window.is_none(),
            watchlist: Watchlist::new(threads),
            journal: Journal::default(),
        };
        let assembler = Assembler {
            schema,
            pool: Arc::clone(&pool),
            depot: Depot::new(spare),
            collate: self.collate,
            alters: self.alters,
            on_error: self.on_error,
            seed: self.seed,
            copies_strings: self.copies_strings,
        };
        let runner = Runner {
            gate: Arc::clone(&gate),
            policy: Arc::clone(&policy),
            costs: Arc::clone(&costs),
            pool: Arc::clone(&pool),
            maker,
            assembler,
            composer: composer.clone(),
            handoff: Handoff::new(spare),
            loads_only: self.io_workers > 0,
            by_cost,
            tells,
            batch_size: self.batch_size,
            tallies: (0..threads).map(|_| CachePadded::new(Tally::new())).collect(),
        };
        let opener = Opener {
            gate: Arc::clone(&gate),
            pool,
            policy: Arc::clone(&policy),
            costs,
            grain: Grain { alone: is_limited || self.io_workers > 0, by_cost },
            layout,
            keeps_parcels,
            composer,
            replay: self.replay,
            iterating,
            prepared: crate::sync::Mutex::default(),
        };
        Ok(Arc::new(Engine {
            pipeline,
            rows: self.batch_size.min(plan.samples()),
            workers,
            io_workers: self.io_workers,
            holds_jobs: loose,
            gate,
            policy,
            opener,
            runner,
            orphans: Orphans::default(),
        }))
    }

    /// Where the fixed fields of a full batch are; `None` if there are none, or another way to put batches together.
    fn layout(&self, schema: &Schema, plan: &Plan) -> Result<Option<BatchLayout>, BuildError> {
        let rows = usize::try_from(self.batch_size.min(plan.samples())).unwrap_or(usize::MAX);
        let layout = schema.layout(rows);
        // Besides its values, each slot takes some bytes for which sample it has.
        let bytes = layout
            .as_ref()
            .and_then(|layout| rows.checked_mul(SLOT_BYTES)?.checked_add(layout.bytes));
        let bytes = bytes.map_or(u64::MAX, |bytes| bytes as u64);
        let limit = machine_memory().unwrap_or(u64::MAX);
        if bytes > limit {
            return Err(BuildError::MachineTooSmall { batch: bytes, memory: limit });
        }
        match layout {
            _ if self.collate.is_some() => Ok(None),
            Some(layout) if layout.bytes == 0 && schema.variable() > 0 => Ok(None),
            Some(layout) if self.memory.is_none_or(|memory| layout.bytes as u64 <= memory) => {
                Ok(Some(layout))
            }
            too_large => {
                let batch = too_large.map_or(u64::MAX, |layout| layout.bytes as u64);
                let budget = self.memory.unwrap_or(DEFAULT_BUDGET);
                Err(BuildError::BudgetTooSmall { batch, budget })
            }
        }
    }

    /// How many batches are read ahead, and whether the one in the user's hands is one of them.
    fn read_ahead(&self, workers: usize, batch_bytes: u64) -> (usize, bool) {
        match (self.prefetch, self.memory) {
            _ if workers == 0 => (1, false),
            (Some(prefetch), _) => (prefetch, self.frugal),
            (None, Some(_)) => (workers.max(4), false),
            (None, None) => {
                let prefetch = default_prefetch(workers, self.batch_size as usize, batch_bytes);
                // In ready order, the next batch's samples take the place of those that are slow.
                let in_order = self.delivery == Delivery::InOrder;
                let busy = workers.min(usable_cores());
                (prefetch, prefetch == 2 && in_order && is_frugal(busy, self.batch_size))
            }
        }
    }

    /// How many small batches go together.
    fn bunch(
        &self,
        workers: usize,
        prefetch: usize,
        schema: &Schema,
        layout: Option<&BatchLayout>,
        plan: &Plan,
    ) -> Bunch {
        match (self.bunch, layout) {
            (Some(size), _) => Bunch::of(size),
            // Nothing but what a worker writes into the batch's slots is known beforehand.
            (_, Some(layout))
                if workers > 0
                    && !plan.is_unbounded()
                    && self.io_workers == 0
                    && schema.variable() == 0
                    && self.alters.is_empty() =>
            {
                match self.prefetch {
                    Some(prefetch) => Bunch::new(layout.bytes, prefetch as u64, 1),
                    None => Bunch::new(layout.bytes, plan.batches(), prefetch),
                }
            }
            _ => Bunch::of(1),
        }
    }

    /// Refuses what cannot be done to samples that come one after the other.
    fn check_iterable(&self) -> Result<(), BuildError> {
        if self.dataset.iterable().is_none() {
            return Ok(());
        }
        let conflict =
            |first, why| Err(BuildError::Conflict { first, second: "an iterable dataset", why });
        if self.order != Order::Sequential {
            let why = "its samples come as its iterator gives them; shuffle them there";
            return conflict("order", why);
        }
        if self.boundary == Boundary::Pad {
            let why = "the samples of the epoch's start are gone when its end is found; keep or drop the last batch";
            return conflict("pad", why);
        }
        if self.delivery != Delivery::InOrder {
            let why = "batches are of samples in their order; leave out `ready`";
            return conflict("ready", why);
        }
        if !self.replay.is_empty() {
            return conflict("replay", "only epochs in `ready` order are replayed; leave it out");
        }
        if self.on_error == OnError::Replace {
            let why = "there is no other sample to take; use `skip` or `raise`";
            return conflict("on_error = replace", why);
        }
        Ok(())
    }

    fn check(&self, plan: &Plan) -> Result<(), BuildError> {
        let zero = |setting| Err(BuildError::Zero { setting });
        if self.prefetch == Some(0) {
            return zero("prefetch");
        }
        if self.epochs == Some(0) {
            return zero("epochs");
        }
        if self.sample_timeout.is_some_and(|limit| limit.is_zero()) {
            return zero("sample_timeout");
        }
        for (setting, threads) in [("workers", self.workers), ("io_workers", Some(self.io_workers))]
        {
            if let Some(got) = threads.filter(|threads| *threads > MOST_THREADS) {
                let (got, limit) = (got as u64, MOST_THREADS as u64);
                return Err(BuildError::TooLarge { setting, got, limit });
            }
        }
        let limit = u64::from(u32::MAX);
        if self.batch_size > limit {
            return Err(BuildError::TooLarge {
                setting: "batch_size",
                got: self.batch_size,
                limit,
            });
        }
        let inline = self.workers == Some(0);
        if inline && self.sample_timeout.is_some() {
            let why =
                "without workers nobody could go on while a sample hangs; use at least 1 worker";
            return Err(BuildError::Conflict {
                first: "sample_timeout",
                second: "workers = 0",
                why,
            });
        }
        if inline && self.io_workers > 0 {
            let why = "somebody must build what they load; use at least 1 worker";
            return Err(BuildError::Conflict { first: "io_workers", second: "workers = 0", why });
        }
        if let Delivery::Ready { window } = self.delivery {
            if window == 0 {
                return zero("window");
            }
            if !self.replay.is_empty() {
                let why = "a log is replayed in order; leave out `ready`";
                return Err(BuildError::Conflict { first: "replay", second: "ready", why });
            }
        }
        let fingerprint = plan.fingerprint();
        for log in &self.replay {
            if log.plan() != fingerprint || !log.is_complete(plan.samples()) {
                return Err(BuildError::Log { epoch: log.epoch() });
            }
        }
        Ok(())
    }
}

/// How many batches are begun ahead unless the user says.
///
/// All workers fill one batch together, so few batches keep them busy: one that is finished, and as many
/// as have a sample for each. More only bridge times of slow samples or slow storage; they are worth their
/// memory while that is little.
fn default_prefetch(workers: usize, batch_size: usize, batch_bytes: u64) -> usize {
    const MODEST: u64 = 96 << 20;
    let few = 1 + workers.div_ceil(batch_size);
    let many = workers.max(4).max(few);
    let cheap = MODEST.checked_div(batch_bytes).unwrap_or(u64::MAX);
    usize::try_from(cheap).unwrap_or(usize::MAX).clamp(few, many)
}

/// Whether a third batch is not worth its memory where two are read ahead.
///
/// A loop like `for batch in loader` holds batch A until it has B. Workers that find nothing left to do for B, while
/// others finish it, could begin C; that takes memory for a third batch, for good. What it buys is the time that workers
/// would be idle at each batch's end, on average half a sample for all but the last. Up to one part in 32 of the time that a
/// batch takes, that is not worth it.
fn is_frugal(busy: usize, batch_size: u64) -> bool {
    16 * (busy.saturating_sub(1) as u64) <= batch_size
}

/// The bytes of memory that the machine has, where it tells.
fn machine_memory() -> Option<u64> {
    #[cfg(unix)]
    {
        // SAFETY: `sysconf` only reads.
        let (pages, bytes) =
            unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        u64::try_from(pages).ok()?.checked_mul(u64::try_from(bytes).ok()?)
    }
    #[cfg(not(unix))]
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_third_batch_is_for_many_workers_and_few_samples() {
        let frugal = [(2, 64), (1, 4), (4, 64), (8, 64), (2, 8)];
        let frugal = frugal.map(|(busy, batch_size)| is_frugal(busy, batch_size));
        assert_eq!(frugal, [true, true, true, false, false]);
    }

    #[test]
    fn large_batches_of_few_samples_still_keep_all_workers_busy() {
        let megabytes = |n: u64| n << 20;
        for (workers, batch_size, bytes, expected) in [
            (8, 2, megabytes(200), 5),
            (8, 1, megabytes(200), 9),
            (8, 8, megabytes(200), 2),
            (2, 64, megabytes(37), 2),
            (2, 64, megabytes(30), 3),
            (16, 64, megabytes(1), 16),
            (1, 64, 0, 4),
        ] {
            assert_eq!(default_prefetch(workers, batch_size, bytes), expected);
        }
    }
}
