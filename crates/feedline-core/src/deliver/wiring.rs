//! A loader's rooms, made by its settings and wired to each other.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::assemble::{Assembler, BatchLayout, Composer, Depot, Pool, Schema, block_size};
use crate::control::{Bounds, Controller, Setting, usable_memory};
use crate::crew::{Seats, usable_cores};
use crate::engine::{Control, Engine, Orphans};
use crate::error::BuildError;
use crate::flow::{Flow, Gate, Ledger, Rules};
use crate::measure::consumption::Consumption;
use crate::measure::tally::Tally;
use crate::open::{Iterating, Opener};
use crate::plan::Plan;
use crate::schedule::{costs::Costs, grain::Grain};
use crate::state::{Course, PipelineIdentity, Start};
use crate::work::{Dataset, Handoff, Iterable, Journal, Maker, Runner, Watchlist};

use super::{Delivery, LoaderBuilder};

/// What a slot of a batch takes besides its values.
const SLOT_BYTES: usize = 48;

impl LoaderBuilder {
    /// All but the threads.
    pub(crate) fn engine(mut self) -> Result<Arc<Engine>, BuildError> {
        self.leave_open();
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
        // A start that nobody gave is within the bounds that somebody may have given.
        let within = |most: Option<usize>| most.filter(|most| *most > 0).unwrap_or(usize::MAX);
        let usual = || usable_cores().saturating_sub(1).max(1).min(within(self.auto_workers));
        let workers = self.workers.unwrap_or_else(usual);
        let layout = self.layout(&schema, &plan)?;
        let batch = layout.as_ref().map_or(0, |layout| layout.bytes);
        let block = if layout.is_some() { block_size(batch).unwrap_or(usize::MAX) } else { 0 };
        let budget = self.memory.unwrap_or_else(usual_memory);
        // A controller reads no further ahead than a container can bear, whatever was said.
        let most = usable_memory().filter(|_| self.auto_prefetch.is_some());
        let budget = budget.min(most.map_or(u64::MAX, |most| most / 2)).max(block as u64);
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
        let prefetch = prefetch.min(within(self.auto_prefetch));
        let sample_bytes = batch as u64 / self.batch_size.max(1);
        let control = self.control(Setting { workers, prefetch }, budget, sample_bytes);
        let most = control.as_ref().map_or(workers, |(_, most)| *most);
        let rules = Rules {
            prefetch,
            elastic: (workers > 0 && (self.prefetch.is_none() || self.auto_prefetch.is_some()))
                || self.bunch.is_some(),
            frugal,
            bunch: self.bunch(workers, prefetch, &schema, layout.as_ref(), &plan),
            budget,
            batch_bytes: block as u64,
            loose: keeps_parcels || self.io_workers > 0 || iterable.is_some(),
            iterated: iterable.is_some(),
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
        let takers = if self.io_workers > 0 { self.io_workers } else { most }.max(1);
        let threads = takers + if self.io_workers > 0 { workers } else { 0 };
        let policy = (self.policy)(takers);
        if self.auto_workers.is_some() && !policy.anyone_may_take() {
            let why = "it deals work out to workers beforehand, which may be parked; use `steal`, `central` or one that \
                       orders by cost";
            return Err(BuildError::Conflict { first: "auto_workers", second: "policy", why });
        }
        policy.set_workers(if self.io_workers > 0 { takers } else { workers });
        let by_cost = self.by_cost;
        let costs = Arc::new(Costs::new(plan.dataset_len(), by_cost));
        // Kept for reuse, beside what is booked: a few hundredths of the budget.
        let spare = usize::try_from(budget / 64).unwrap_or(usize::MAX).min(16 << 20);
        let is_limited = self.sample_timeout.is_some();
        let dataset: Arc<dyn Dataset> = Arc::from(self.dataset);
        // What an iterator gives next nobody knows.
        let look_ahead = if iterable.is_some() { 0 } else { dataset.look_ahead() };
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
            pool: Arc::clone(&pool),
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
            look_ahead,
            prepared: crate::sync::Mutex::default(),
        };
        Ok(Arc::new(Engine {
            pipeline,
            rows: self.batch_size.min(plan.samples()),
            workers: most,
            io_workers: self.io_workers,
            holds_jobs: loose,
            gate,
            policy,
            opener,
            runner,
            orphans: Orphans::default(),
            consumption: std::sync::Mutex::new(Consumption::new()),
            control: control.map(|(control, _)| control),
        }))
    }

    /// Leaves to the controller what nobody said: how many workers there are, where any of them may take any work,
    /// and then also how far they read ahead.
    fn leave_open(&mut self) {
        let is_free = self.io_workers == 0 && (self.policy)(1).anyone_may_take();
        if self.workers.is_none() && is_free {
            self.auto_workers = self.auto_workers.or(Some(0));
        }
        if self.prefetch.is_none() && self.auto_workers.is_some() {
            self.auto_prefetch = self.auto_prefetch.or(Some(0));
        }
    }

    /// What decides the number of workers and the read-ahead, if anything does, and how many workers there may be.
    fn control(&self, start: Setting, budget: u64, sample_bytes: u64) -> Option<(Control, usize)> {
        self.auto_workers.or(self.auto_prefetch)?;
        let cores = usable_cores();
        // Each worker has a sample in hand, besides what is booked.
        let fits = budget / 8 / sample_bytes.max(1);
        let fits = usize::try_from(fits).unwrap_or(usize::MAX).max(cores);
        let most = |most: usize| if most > 0 { most } else { (4 * cores).max(64).min(fits) };
        let workers = self.auto_workers.map(|given| most(given).max(start.workers));
        let seats = workers.unwrap_or(start.workers);
        let for_all = 1 + (2 * seats as u64).div_ceil(self.batch_size) as usize;
        let most = |most: usize| if most > 0 { most } else { for_all.max(64) };
        let prefetch = self.auto_prefetch.map(|given| most(given).max(start.prefetch));
        let bounds = Bounds { cores, workers, prefetch, batch_size: self.batch_size };
        let controller = std::sync::Mutex::new(Controller::new(bounds, start));
        Some((Control { controller, seats: Seats::new(start.workers) }, seats))
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
        let limit = usable_memory().unwrap_or(u64::MAX);
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
                let budget = self.memory.unwrap_or_else(usual_memory);
                Err(BuildError::BudgetTooSmall { batch, budget })
            }
        }
    }
}

/// The byte budget where nobody says: no more than a quarter of what there is.
fn usual_memory() -> u64 {
    LoaderBuilder::DEFAULT_MEMORY.min(usable_memory().unwrap_or(u64::MAX) / 4)
}
