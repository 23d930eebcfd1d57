//! The plan, and how one is asked for.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::arrangement::CheckedOrder;
use super::boundary::{Boundary, EpochShare};
use super::epoch::EpochPlan;
use super::error::PlanError;
use super::fingerprint::Fingerprint;
use super::order::Order;
use super::remaining::Remaining;
use super::{Position, SampleIndex};

/// Changes when the same request would give another order than in an earlier release.
const VERSION: u64 = 1;
/// The length of a dataset of which nobody knows it. No sum or product of what is made of it overflows, unless
/// ranks and batches are absurd.
const UNBOUNDED: u64 = 1 << 62;

/// Which sample comes at which position of which epoch, for one rank.
///
/// A plan is immutable and cheap to clone; clones share the tables. See the [module](super) for an
/// example.
#[derive(Clone)]
pub struct Plan {
    inner: Arc<PlanInner>,
}

struct PlanInner {
    n: u64,
    unbounded: bool,
    seed: u64,
    batch_size: u64,
    boundary: Boundary,
    rank: u64,
    world: u64,
    layout: Box<dyn CheckedOrder>,
    /// The layout's, kept here because every index asks for it.
    positions: u64,
    share: EpochShare,
    order_fingerprint: u64,
}

impl Plan {
    /// Starts a plan over a dataset of `n` samples: sequential, seed 0, single samples, one rank.
    pub fn builder(n: u64) -> PlanBuilder {
        PlanBuilder {
            n,
            order: Order::Sequential,
            seed: 0,
            batch_size: 1,
            boundary: Boundary::Keep,
            rank: 0,
            world: 1,
            unbounded: false,
        }
    }

    /// Starts a plan over samples of which nobody knows how many there are: the same, and its epochs have more
    /// positions than anybody reads.
    pub fn unbounded() -> PlanBuilder {
        PlanBuilder { unbounded: true, ..Plan::builder(UNBOUNDED) }
    }

    /// Whether nobody knows how many samples there are.
    pub fn is_unbounded(&self) -> bool {
        self.inner.unbounded
    }

    /// Batches of this rank in one epoch; the same on every rank.
    pub fn batches(&self) -> u64 {
        self.inner.share.batches
    }

    /// Positions of this rank in one epoch, padding included; the same on every rank.
    pub fn samples(&self) -> u64 {
        self.inner.share.samples
    }

    /// The positions of one batch; empty past the last batch.
    pub fn batch_range(&self, batch: u64) -> Range<u64> {
        self.inner.share.batch_range(batch, self.batch_size())
    }

    /// Samples in a full batch of one rank.
    pub fn batch_size(&self) -> u64 {
        self.inner.batch_size
    }

    /// Samples in the dataset.
    pub fn dataset_len(&self) -> u64 {
        self.inner.n
    }

    /// Positions of one epoch over all ranks, before anything is dropped or repeated.
    pub fn positions(&self) -> u64 {
        self.inner.positions
    }

    /// What happens at the end of an epoch.
    pub fn boundary(&self) -> Boundary {
        self.inner.boundary
    }

    /// The seed of everything random.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Which of the ranks this plan is for.
    pub fn rank(&self) -> u64 {
        self.inner.rank
    }

    /// The number of ranks.
    pub fn world(&self) -> u64 {
        self.inner.world
    }

    /// The arrangement of one epoch.
    ///
    /// Constant time for most orders. A shuffle of up to 2,048 samples fills its table of at most
    /// 4 KiB, listed shards are added up, and weights without replacement are sorted: keep the result
    /// for the epoch.
    pub fn epoch(&self, epoch: u64) -> EpochPlan {
        let arrangement = self.inner.layout.epoch(self.seed(), epoch);
        EpochPlan::new(self.clone(), epoch, arrangement, Remaining::default(), self.inner.share)
    }

    /// What is left of an epoch when only the places `rest` are still to come: they are dealt out to
    /// the ranks anew, by the same boundary.
    ///
    /// `step` is the [`step`](Plan::step) of the plan by which the epoch was begun, where that matters.
    ///
    /// Epochs that are resumed again and again, with other numbers of ranks and other batch sizes, need
    /// no more than this: whatever all ranks together have delivered of `rest`, what is left of it is
    /// again such a set.
    pub fn rest_of(&self, epoch: u64, rest: Remaining, step: Option<u64>) -> EpochPlan {
        let arrangement = match step.and_then(|step| self.inner.layout.with_step(step)) {
            Some(layout) => layout.epoch(self.seed(), epoch),
            None => self.inner.layout.epoch(self.seed(), epoch),
        };
        let share = self.share_rest(&rest);
        EpochPlan::new(self.clone(), epoch, arrangement, rest, share)
    }

    /// What one rank gets of the places that are left.
    pub(crate) fn share_rest(&self, rest: &Remaining) -> EpochShare {
        let count = rest.count_below(self.positions());
        self.boundary().share_rest(count, self.world(), self.batch_size())
    }

    /// How many samples all ranks consume at a time, if the order depends on it.
    pub fn step(&self) -> Option<u64> {
        self.inner.layout.step()
    }

    /// The order's name, for people.
    pub fn order_name(&self) -> &'static str {
        self.inner.layout.name()
    }

    /// The sample to take instead of one that failed; see [`EpochPlan::substitute`], which is cheaper
    /// when the epoch is at hand.
    pub fn substitute(&self, epoch: u64, position: Position, attempt: u32) -> SampleIndex {
        self.epoch(epoch).substitute(position, attempt)
    }

    /// A stable hash of everything that determines what this rank gets, given tables included.
    pub fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::new(VERSION);
        print.words([self.inner.order_fingerprint, self.batch_size(), self.rank(), self.world()]);
        print.word(match self.boundary() {
            Boundary::Drop => 0,
            Boundary::Pad => 1,
            Boundary::Keep => 2,
        });
        print.finish()
    }

    /// A stable hash of what determines the order over all ranks: dataset length, seed and order.
    /// Where it is equal, a plan for another number of ranks or another batch size goes on with what is
    /// left of an epoch; see [`rest_of`](Plan::rest_of).
    pub fn order_fingerprint(&self) -> u64 {
        self.inner.order_fingerprint
    }

    /// Whether it is the same one, or a clone of it.
    pub(crate) fn is(&self, other: &Plan) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The same plan with another order.
    ///
    /// # Errors
    ///
    /// As [`PlanBuilder::build`].
    pub fn with_order(&self, order: Order) -> Result<Plan, PlanError> {
        Plan::builder(self.dataset_len())
            .order(order)
            .seed(self.seed())
            .batch_size(self.batch_size())
            .boundary(self.boundary())
            .rank(self.rank(), self.world())
            .build()
    }

    /// What else than the seed and the number of samples its order depends on, for people.
    pub(crate) fn order_tables(&self) -> &'static str {
        self.inner.layout.tables()
    }

    /// Heap bytes of the tables that all epochs share; see [`EpochPlan::table_bytes`] for the rest.
    pub fn table_bytes(&self) -> usize {
        self.inner.layout.table_bytes()
    }
}

impl fmt::Debug for Plan {
    /// Everything but the tables, which may have a billion entries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("order", &self.inner.layout.name())
            .field("dataset_len", &self.inner.n)
            .field("seed", &self.inner.seed)
            .field("batch_size", &self.inner.batch_size)
            .field("boundary", &self.inner.boundary)
            .field("rank", &self.inner.rank)
            .field("world", &self.inner.world)
            .field("batches", &self.inner.share.batches)
            .field("samples", &self.inner.share.samples)
            .finish_non_exhaustive()
    }
}

/// Collects what a [`Plan`] needs; made by [`Plan::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `.build()`"]
pub struct PlanBuilder {
    n: u64,
    order: Order,
    seed: u64,
    batch_size: u64,
    boundary: Boundary,
    rank: u64,
    world: u64,
    unbounded: bool,
}

impl PlanBuilder {
    /// How an epoch is arranged.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The seed of everything random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Samples in a batch of one rank, at least 1.
    pub fn batch_size(mut self, batch_size: u64) -> Self {
        self.batch_size = batch_size;
        self
    }

    /// What happens at the end of an epoch.
    pub fn boundary(mut self, boundary: Boundary) -> Self {
        self.boundary = boundary;
        self
    }

    /// Which of `world` ranks the plan is for, `0..world`.
    pub fn rank(mut self, rank: u64, world: u64) -> Self {
        self.rank = rank;
        self.world = world;
        self
    }

    /// Checks everything and builds the order's tables.
    ///
    /// # Errors
    ///
    /// A [`PlanError`] that says what to pass instead.
    pub fn build(self) -> Result<Plan, PlanError> {
        let Self { n, order, seed, batch_size, boundary, rank, world, unbounded } = self;
        if n == 0 {
            return Err(PlanError::EmptyDataset);
        }
        if batch_size == 0 {
            return Err(PlanError::ZeroBatchSize);
        }
        if world == 0 {
            return Err(PlanError::ZeroWorld);
        }
        if rank >= world {
            return Err(PlanError::RankOutOfRange { rank, world });
        }
        let step = world.saturating_mul(batch_size);
        let mut print = Fingerprint::new(VERSION);
        print.words([n, seed]);
        order.imprint(&mut print);
        let layout = order.lay_out(n, step)?;
        let positions = layout.positions();
        let share = boundary.share(positions, world, batch_size)?;
        let inner = PlanInner {
            n,
            unbounded,
            seed,
            batch_size,
            boundary,
            rank,
            world,
            layout,
            positions,
            share,
            order_fingerprint: print.finish(),
        };
        Ok(Plan { inner: Arc::new(inner) })
    }
}
