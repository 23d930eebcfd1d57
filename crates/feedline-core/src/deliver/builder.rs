//! Describing a loader.

use std::sync::Arc;
use std::time::Duration;

use crate::assemble::{Alter, Collate, PageLock};
use crate::crew::Crew;
use crate::error::{BuildError, OnError};
use crate::plan::{Boundary, Order};
use crate::schedule::{MakePolicy, Policy, PolicyKind};
use crate::state::State;
use crate::work::{Dataset, Work};

use super::{Delivery, Loader, OrderLog};

/// Settings of a [`Loader`]. Everything but the dataset has a default.
#[must_use = "a builder does nothing until `build` is called"]
pub struct LoaderBuilder {
    pub(super) dataset: Box<dyn Dataset>,
    pub(super) batch_size: u64,
    pub(super) order: Order,
    pub(super) seed: u64,
    pub(super) boundary: Boundary,
    pub(super) rank: (u64, u64),
    pub(super) workers: Option<usize>,
    /// How many workers the controller may have, if it decides that; 0: as many as make sense.
    pub(super) auto_workers: Option<usize>,
    pub(super) io_workers: usize,
    pub(super) pin: bool,
    pub(super) policy: Box<dyn Fn(usize) -> Arc<dyn Policy<Work>> + Send>,
    /// Whether the policy orders by cost.
    pub(super) by_cost: bool,
    pub(super) prefetch: Option<usize>,
    /// The same for the read-ahead.
    pub(super) auto_prefetch: Option<usize>,
    pub(super) frugal: bool,
    pub(super) bunch: Option<usize>,
    pub(super) memory: Option<u64>,
    pub(super) delivery: Delivery,
    pub(super) replay: Vec<OrderLog>,
    pub(super) on_error: OnError,
    pub(super) max_errors: Option<u64>,
    pub(super) sample_timeout: Option<Duration>,
    pub(super) epochs: Option<u64>,
    pub(super) epochs_apart: bool,
    pub(super) collate: Option<Arc<dyn Collate>>,
    pub(super) alters: Vec<Arc<dyn Alter>>,
    pub(super) page_lock: Option<Arc<dyn PageLock>>,
    pub(super) copies_strings: bool,
    pub(super) resume: Option<(State, bool)>,
    pub(super) recipe: String,
}

impl LoaderBuilder {
    /// What [`memory`](LoaderBuilder::memory) is where nobody says.
    pub const DEFAULT_MEMORY: u64 = 2 << 30;

    pub(crate) fn new(dataset: Box<dyn Dataset>) -> LoaderBuilder {
        LoaderBuilder {
            dataset,
            batch_size: 1,
            order: Order::Sequential,
            seed: 0,
            boundary: Boundary::Keep,
            rank: (0, 1),
            workers: None,
            auto_workers: None,
            io_workers: 0,
            pin: false,
            policy: Box::new(|workers| PolicyKind::default().make(workers)),
            by_cost: PolicyKind::default().wants_costs(),
            prefetch: None,
            auto_prefetch: None,
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

    /// Threads that make samples. Default: a controller decides, see [`auto_workers`](LoaderBuilder::auto_workers);
    /// it begins with the cores this process may use, less one for the training loop, at least one. With
    /// [`io_workers`](LoaderBuilder::io_workers), or a [`policy`](LoaderBuilder::policy) that binds work to workers,
    /// it stays at that. With 0 the caller makes them.
    pub fn workers(mut self, threads: usize) -> Self {
        self.workers = Some(threads);
        self
    }

    /// Let a controller decide how many threads make samples, while they do: it begins with
    /// [`workers`](LoaderBuilder::workers), adds some where that is measured to be faster, and parks those that are not
    /// needed. Never more than `most`, nor more that compute than there are cores; `None`: 64, or four
    /// per core if that is more. What is delivered does not depend on it. [`Loader::stats`] says what it did, and why.
    pub fn auto_workers(mut self, most: Option<usize>) -> Self {
        self.auto_workers = Some(most.unwrap_or(0));
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
    /// to 16 times as many, at most an epoch ahead. Say how many if the data changes between epochs. Where a controller
    /// decides how many workers there are, that is where it begins, and it decides this, too.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = Some(batches);
        self
    }

    /// Let a controller decide how many batches may be begun ahead: it begins with
    /// [`prefetch`](LoaderBuilder::prefetch), and reads further ahead where that is measured to be faster, within
    /// [`memory`](LoaderBuilder::memory), and never more than `most`; `None`: 64, and enough for all workers.
    pub fn auto_prefetch(mut self, most: Option<usize>) -> Self {
        self.auto_prefetch = Some(most.unwrap_or(0));
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
    /// batch yet, blocks that wait to be used again. Default: 2 GiB, or a quarter of what this process may use
    /// if that is less; one batch if that is more. Besides, each worker has
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
}
