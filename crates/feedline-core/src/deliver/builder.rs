//! Describing a loader.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::assemble::{Alter, Collate, Depot, PageLock, Pool, Schema};
use crate::engine::{Engine, Settings};
use crate::error::{BuildError, OnError};
use crate::measure::tally::Tally;
use crate::plan::{Boundary, Order, Plan};
use crate::schedule::{PolicyKind, costs::Costs};
use crate::state::{Pipeline, Start, State};
use crate::sync::Mutex;
use crate::work::{Bell, Crew, Dataset, Handoff, Journal, Watchlist, usable_cores};

use super::{Ahead, Bunch, Composer, Course, Delivery, Loader, Opener, OrderLog, Shelf};

/// Threads beyond this are a mistake, not a wish.
const MOST_THREADS: usize = 4096;
/// The byte budget where none is given.
const DEFAULT_BUDGET: u64 = 2 << 30;

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
    policy: PolicyKind,
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
    collate: Option<Arc<dyn Collate>>,
    alters: Vec<Arc<dyn Alter>>,
    page_lock: Option<Arc<dyn PageLock>>,
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
            policy: PolicyKind::default(),
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
            collate: None,
            alters: Vec::new(),
            page_lock: None,
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

    /// Who does what. Default: work stealing.
    pub fn policy(mut self, policy: PolicyKind) -> Self {
        self.policy = policy;
        self
    }

    /// How many batches may be begun ahead of the one the consumer waits for. Default: 4, or the
    /// number of workers if that is more; fewer where they would take over 96 MiB, but 2, and enough to
    /// keep all workers busy; unless [`memory`](LoaderBuilder::memory) says how much they may take. Where
    /// that leaves 2, the batch in the consumer's hands is one of them, unless a third saves much time.
    /// Batches of fixed size that cost little (up to a tenth of a millisecond, and some kilobytes) are begun up
    /// to 16 times as many, at most an epoch ahead. Say how many if the data changes between epochs.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = Some(batches);
        self
    }

    /// Two batches ahead, and a third only where it [pays](crate::deliver::spare).
    #[cfg(any(test, loom))]
    pub(crate) fn frugal(mut self) -> Self {
        self.frugal = true;
        self.prefetch(2)
    }

    /// Two [bunches](crate::deliver::bunch) of so many batches ahead, whatever those cost.
    #[cfg(any(test, loom))]
    pub(crate) fn bunches_of(mut self, batches: usize) -> Self {
        self.bunch = Some(batches);
        self.prefetch(2)
    }

    /// How many bytes undelivered batches and idle blocks may take. Default 2 GiB, or one batch if
    /// that is more.
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
        let pin = self.pin;
        let (engine, start) = self.engine()?;
        engine.take_course(Course::new(&engine.plan, &start));
        let crew = Crew::start(&engine, pin)?;
        Ok(Loader::new(engine, crew, &start))
    }

    /// All but the threads, and where it begins.
    pub(crate) fn engine(self) -> Result<(Arc<Engine>, Start), BuildError> {
        let schema = Schema::new(self.dataset.fields())?;
        let plan = Plan::builder(self.dataset.len())
            .order(self.order.clone())
            .seed(self.seed)
            .batch_size(self.batch_size)
            .boundary(self.boundary)
            .rank(self.rank.0, self.rank.1)
            .build()?;
        self.check(&plan)?;
        let workers = self.workers.unwrap_or_else(|| usable_cores().saturating_sub(1).max(1));
        let rows = usize::try_from(self.batch_size.min(plan.samples())).unwrap_or(usize::MAX);
        let budget = self.memory.unwrap_or(DEFAULT_BUDGET);
        let layout = match schema.layout(rows) {
            _ if self.collate.is_some() => None,
            Some(layout) if layout.bytes == 0 && schema.variable() > 0 => None,
            Some(layout) if self.memory.is_none_or(|memory| layout.bytes as u64 <= memory) => {
                Some(layout)
            }
            too_large => {
                let batch = too_large.map_or(u64::MAX, |layout| layout.bytes as u64);
                return Err(BuildError::BudgetTooSmall { batch, budget });
            }
        };
        let budget = budget.max(layout.as_ref().map_or(0, |layout| layout.bytes as u64));
        let pipeline = Pipeline::new(schema.fields(), &self.recipe);
        let start = match &self.resume {
            Some((state, forced)) => state.fit(&plan, &pipeline, *forced)?,
            None => Start::at(0, 0),
        };
        for log in &self.replay {
            log.check_start(&start, self.batch_size)?;
        }
        let batch = layout.as_ref().map_or(0, |layout| layout.bytes as u64);
        let (prefetch, frugal) = match (self.prefetch, self.memory) {
            _ if workers == 0 => (1, false),
            (Some(prefetch), _) => (prefetch, self.frugal),
            (None, Some(_)) => (workers.max(4), false),
            (None, None) => {
                let prefetch = default_prefetch(workers, self.batch_size as usize, batch);
                // In ready order, the next batch's samples take the place of those that are slow.
                (prefetch, prefetch == 2 && self.delivery == Delivery::InOrder)
            }
        };
        let elastic = (self.prefetch.is_none() && workers > 0) || self.bunch.is_some();
        let bunch = match (self.bunch, &layout) {
            (Some(size), _) => Bunch::of(size),
            // Nothing but what a worker writes into the batch's slots is known beforehand.
            (_, Some(layout))
                if workers > 0
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
        };
        let takers = if self.io_workers > 0 { self.io_workers } else { workers }.max(1);
        let threads = takers + if self.io_workers > 0 { workers } else { 0 };
        let engine = Arc::new(Engine {
            costs: Costs::new(plan.dataset_len(), self.policy.wants_costs()),
            policy: self.policy.build(takers),
            pool: match self.page_lock {
                Some(page_lock) => Pool::page_locked(budget, page_lock),
                None => Pool::new(budget),
            },
            depot: Depot::default(),
            opener: Mutex::new(Opener::default()),
            ahead: Mutex::new(Ahead::new(Course::whole(&plan))),
            composer: Mutex::new(Composer::new(Course::whole(&plan))),
            shelf: Shelf::new(),
            bunch,
            bell: Bell::new(),
            handoff: Handoff::new(),
            watchlist: Watchlist::new(threads),
            journal: Journal::default(),
            tallies: (0..threads).map(|_| CachePadded::new(Tally::new())).collect(),
            generation: AtomicU64::new(0),
            delivered_epochs: AtomicU64::new(start.epoch),
            origin: Instant::now(),
            settings: Settings {
                workers,
                io_workers: self.io_workers,
                policy: self.policy,
                prefetch,
                elastic,
                frugal,
                cores: usable_cores(),
                delivery: self.delivery,
                replay: self.replay,
                on_error: self.on_error,
                max_errors: self.max_errors,
                sample_timeout: self.sample_timeout,
                epochs: self.epochs,
                collate: self.collate,
                alters: self.alters,
            },
            dataset: self.dataset,
            schema,
            layout,
            plan,
            pipeline,
        });
        // Weak: what the user holds may outlive the loader.
        let weak = Arc::downgrade(&engine);
        engine.pool.when_returned(Box::new(move || {
            if let Some(engine) = weak.upgrade() {
                engine.count_returned();
            }
        }));
        Ok((engine, start))
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
