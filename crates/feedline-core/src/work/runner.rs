//! Doing a job: each sample is made, placed and counted; the last one finishes its batch.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::assemble::{Assembler, Composer, Draft, Pool, Schema};
use crate::deliver::BatchResult;
use crate::error::{Failure, SampleError, TimedOut};
use crate::flow::{BatchId, Charge, Finished, Gate, Ledger};
use crate::measure::BatchTimes;
use crate::measure::tally::Tally;
use crate::plan::SampleIndex;
use crate::schedule::{Job, Policy, costs::Costs};

use super::dataset::Cause;
use super::handoff::{Handoff, Loaded};
use super::local::Local;
use super::lot::{Attempt, Lot, Work};
use super::maker::{Made, Maker};
use super::stage::Stage;
use super::watchlist::Note;

/// Does jobs.
pub(crate) struct Runner {
    pub(crate) gate: Arc<Gate<BatchResult, Job<Work>>>,
    pub(crate) policy: Arc<dyn Policy<Work>>,
    pub(crate) costs: Arc<Costs>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) maker: Maker,
    pub(crate) assembler: Assembler,
    /// In ready order: where samples are placed.
    pub(crate) composer: Option<Arc<Composer>>,
    pub(crate) handoff: Handoff,
    /// Whether those who take jobs only load.
    pub(crate) loads_only: bool,
    /// Whether the policy orders by cost.
    pub(crate) by_cost: bool,
    /// Whether the gate wants to know of each sample that is made.
    pub(crate) tells: bool,
    pub(crate) batch_size: u64,
    pub(crate) tallies: Vec<CachePadded<Tally>>,
}

/// What a job came to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It is done.
    Done,
    /// This worker was replaced while it hung in a sample.
    Retired,
}

/// What samples took beside their slots: all of them, and the largest.
#[derive(Copy, Clone, Default)]
struct Loose {
    bytes: u64,
    largest: u64,
}

impl Loose {
    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
    }
}

impl Runner {
    /// Does a job; what it made is placed when this returns.
    pub(crate) fn run(&self, job: Job<Work>, local: &mut Local) -> Ran {
        let Work { lot, slots, attempt } = job.work;
        if self.loads_only {
            return self.load_only(&lot, slots, attempt, local);
        }
        let started_ns = self.gate.now_ns();
        if let Some(draft) = &lot.draft {
            draft.start(started_ns);
        }
        let (mut stage_ns, mut raw_bytes) = ([0; 3], 0);
        let mut loose = Loose::default();
        let mut one_by_one = slots.clone();
        if slots.len() > 1 && self.maker.make_group(&lot, slots.clone(), local) {
            stage_ns[Stage::Decode as usize] = 1; // all of the time
            one_by_one = slots.end..slots.end;
        }
        for slot in one_by_one {
            if self.gate.is_stale(lot.id.generation) {
                return Ran::Done;
            }
            // The first sample of a group is timed by stage and stands for the others.
            let timed = slot == slots.start;
            let made = self.maker.make(&lot, slot, attempt.clone(), None, local, timed);
            let Some(Made { stage_ns: times, raw_bytes: raw, result }) = made else {
                return Ran::Retired;
            };
            if timed {
                stage_ns = times;
            }
            raw_bytes += raw;
            self.place(&lot, slot, result, local, &mut loose);
        }
        let samples = slots.len() as u32;
        let elapsed_ns = self.gate.now_ns() - started_ns;
        // Counted before the batch can be delivered: statistics taken then must have it.
        let made_bytes = u64::from(samples) * self.maker.schema.row_bytes() as u64;
        self.count(local.worker, u64::from(samples), elapsed_ns, stage_ns, [raw_bytes, made_bytes]);
        if samples == 1 {
            let index = lot.indices[slots.start as usize];
            self.costs.learn(index.0, elapsed_ns, || self.hint(index));
        } else {
            self.costs.learn_mean(elapsed_ns as f64 / f64::from(samples));
        }
        self.placed(&lot, samples, loose);
        if self.policy.finished(local.worker, samples, elapsed_ns) {
            self.gate.wake_workers();
        }
        Ran::Done
    }

    /// The load stage alone, for the threads that only do I/O.
    fn load_only(
        &self,
        lot: &Arc<Lot>,
        slots: Range<u32>,
        attempt: Attempt,
        local: &mut Local,
    ) -> Ran {
        for slot in slots {
            if self.gate.is_stale(lot.id.generation) {
                return Ran::Done;
            }
            let started = Instant::now();
            if let Some(draft) = &lot.draft {
                draft.start(self.gate.now_ns());
            }
            let mut raw = self.handoff.buffer();
            let loaded = self.maker.load_watched(lot, slot, &attempt, local, &mut raw);
            let Some(loaded) = loaded else { return Ran::Retired };
            let load_ns = started.elapsed().as_nanos() as u64;
            self.count(local.worker, 1, load_ns, [load_ns, 0, 0], [raw.len() as u64, 0]);
            match loaded {
                Ok(()) => {
                    let bytes = raw.capacity() as u64;
                    let (booked, evict) = self.gate.made(lot.id, 0, bytes, bytes);
                    let charge = Charge::of(&self.ledger(), booked);
                    self.pool.evict(evict);
                    let (lot, attempt) = (Arc::clone(lot), attempt.clone());
                    self.handoff.push(Loaded { lot, slot, attempt, raw, load_ns, charge });
                }
                Err(error) => {
                    self.handoff.give_back(raw);
                    // A rare thing: this thread makes the substitute itself, all stages.
                    let result = match self.maker.next_attempt(attempt.clone(), error) {
                        Err(error) => Err(error),
                        Ok(next) => match self.maker.make(lot, slot, next, None, local, false) {
                            Some(made) => made.result,
                            None => return Ran::Retired,
                        },
                    };
                    let mut loose = Loose::default();
                    self.place(lot, slot, result, local, &mut loose);
                    self.placed(lot, 1, loose);
                }
            }
            if self.policy.finished(local.worker, 1, load_ns) {
                self.gate.wake_workers();
            }
        }
        Ran::Done
    }

    /// The stages after loading, for the threads that only compute.
    pub(crate) fn build_loaded(&self, loaded: Loaded, local: &mut Local) -> Ran {
        let Loaded { lot, slot, attempt, raw, load_ns, charge } = loaded;
        if self.gate.is_stale(lot.id.generation) {
            self.handoff.give_back(raw);
            return Ran::Done;
        }
        let started_ns = self.gate.now_ns();
        let made = self.maker.make(&lot, slot, attempt, Some((&raw, load_ns)), local, true);
        let Some(made) = made else { return Ran::Retired };
        self.handoff.give_back(raw);
        drop(charge);
        let [_, decode, transform] = made.stage_ns;
        let mut loose = Loose::default();
        self.place(&lot, slot, made.result, local, &mut loose);
        let elapsed_ns = self.gate.now_ns() - started_ns;
        let bytes = self.maker.schema.row_bytes() as u64;
        self.count(local.worker, 1, elapsed_ns, [0, decode, transform], [0, bytes]);
        let index = lot.indices[slot as usize];
        self.costs.learn(index.0, load_ns + elapsed_ns, || self.hint(index));
        self.placed(&lot, 1, loose);
        Ran::Done
    }

    /// Tells the dataset which samples come soon.
    pub(crate) fn expect(&self, indices: &[SampleIndex]) {
        self.maker.expect(indices);
    }

    /// The dataset's cost hint, if anybody wants to know.
    pub(crate) fn hint(&self, index: SampleIndex) -> Option<u64> {
        if self.by_cost { self.maker.hint(index) } else { None }
    }

    /// Puts what was made where it belongs; in `ready` order this decides the slot.
    fn place(
        &self,
        lot: &Lot,
        slot: u32,
        result: Result<Option<SampleError>, SampleError>,
        local: &mut Local,
        loose: &mut Loose,
    ) {
        let Some(composer) = &self.composer else {
            let draft = lot.draft.as_ref().expect("in order, each lot has a draft");
            return self.fill(draft, slot, result, local, loose);
        };
        let index = match &result {
            Ok(Some(error)) => error.replaced_by.unwrap_or(error.index),
            _ => lot.indices[slot as usize],
        };
        let claimed = composer.claim(lot, slot, index, self.gate.now_ns());
        let Some((draft, slot)) = claimed else { return };
        let mut own = Loose::default();
        self.fill(&draft, slot, result, local, &mut own);
        // Each sample of a lot may go to another draft, so each is booked on its own.
        self.book(lot.id, &draft, 0, own);
        loose.largest = loose.largest.max(own.largest);
        if draft.countdown.done(1) {
            self.complete(&draft);
        }
    }

    fn fill(
        &self,
        draft: &Draft,
        slot: u32,
        result: Result<Option<SampleError>, SampleError>,
        local: &mut Local,
        loose: &mut Loose,
    ) {
        let error = match result {
            Ok(error) => {
                if !self.maker.in_place {
                    // SAFETY: this worker claimed the slot and counts it down after this.
                    unsafe { draft.place(&self.maker.schema, slot, &local.parcel) };
                }
                if draft.keeps_parcels() {
                    let empty = self.assembler.depot.take();
                    let mut parcel = std::mem::replace(&mut local.parcel, empty);
                    parcel.unreserve();
                    loose.add(self.assembler.loose_bytes(&parcel));
                    draft.keep(slot, parcel);
                }
                error
            }
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            draft.fault(slot, error);
        }
    }

    /// Counts samples of a lot as done.
    fn placed(&self, lot: &Lot, samples: u32, loose: Loose) {
        match &lot.draft {
            Some(draft) => {
                self.book(lot.id, draft, samples, loose);
                if draft.countdown.done(samples) {
                    self.complete(draft);
                }
            }
            // `ready` order: the draft was counted down as the samples were placed.
            None => {
                self.gate.made(lot.id, u64::from(samples), 0, loose.largest);
            }
        }
    }

    /// Tells the gate of samples and what they took beside their slots.
    fn book(&self, lot: BatchId, draft: &Draft, samples: u32, loose: Loose) {
        let is_news = samples > 0 || loose.bytes > 0;
        if self.tells && is_news {
            let Loose { bytes, largest } = loose;
            let (booked, evict) = self.gate.made(lot, u64::from(samples), bytes, largest);
            draft.charge(booked);
            self.pool.evict(evict);
        }
    }

    /// Puts a batch together; called by the worker that filled its last slot.
    fn complete(&self, draft: &Draft) {
        if self.gate.is_stale(draft.id.generation) {
            return;
        }
        let filled_ns = self.gate.now_ns();
        let positions = draft.take_positions();
        let (result, errors) = self.assembler.assemble(draft);
        let finished_ns = self.gate.now_ns();
        let times = BatchTimes {
            queued_ns: draft.started_ns() - draft.opened_ns,
            building_ns: filled_ns.saturating_sub(draft.started_ns()),
            collating_ns: finished_ns - filled_ns,
            shelved_ns: 0,
        };
        let bytes = result.as_ref().map_or(0, crate::Batch::block_bytes);
        let batch = BatchResult { result, errors, times, finished_ns };
        let batch_ns = self.costs.mean_ns() * self.batch_size as f64;
        // If the generation is over, it is dropped there, outside the lock.
        self.gate.finished(draft.id, Finished { batch, positions, bytes }, batch_ns);
    }

    fn count(
        &self,
        worker: usize,
        samples: u64,
        elapsed_ns: u64,
        stage_ns: [u64; 3],
        [raw_bytes, made_bytes]: [u64; 2],
    ) {
        // The bytes made belong to the last stage that ran: transform if the dataset has one.
        let bytes = match stage_ns {
            [_, _, 0] => [raw_bytes, made_bytes, 0],
            _ => [raw_bytes, 0, made_bytes],
        };
        self.tallies[worker].job(samples, elapsed_ns, stage_ns, bytes);
    }

    /// Gives up a sample that exceeded its limit, on behalf of the worker that hangs in it.
    pub(crate) fn give_up(&self, stage: Stage, note: Note, limit: Duration) {
        let Note { lot, slot, attempt, .. } = note;
        let wanted = self.maker.wanted(&lot, slot, attempt.number);
        let cause: Cause = Box::new(TimedOut { limit });
        let error = self.maker.error(wanted, stage, Failure::Timeout, cause);
        match self.maker.next_attempt(attempt, error) {
            Ok(attempt) => {
                // Somebody else makes the substitute; the sample stays open until then.
                let id = lot.id;
                let work = Work { lot, slots: slot..slot + 1, attempt };
                let job = Job { batch: id.turn, cost_ns: 0, samples: 1, work };
                self.gate.submit_again(id.generation, || self.policy.submit(&mut vec![job]));
            }
            Err(error) => {
                let mut local = Local::new(usize::MAX);
                let mut loose = Loose::default();
                self.place(&lot, slot, Err(error), &mut local, &mut loose);
                self.placed(&lot, 1, loose);
            }
        }
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.maker.schema
    }

    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::clone(&self.gate) as _
    }
}
