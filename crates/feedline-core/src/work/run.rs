//! Doing a job: load, decode, transform, place; and what happens when a sample fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::assemble::{Draft, Parcel, SlotRows};
use crate::engine::{Engine, Step};
use crate::error::{Failure, OnError, Panicked, SampleError, TimedOut};
use crate::plan::{Position, SampleIndex};
use crate::schedule::Job;

use super::dataset::{Cause, Sample};
use super::desk::{Desk, Note};
use super::group::Group;
use super::handoff::Loaded;
use super::lot::{Lot, Work};
use super::stage::{Stage, StageWatch};

/// How many substitutes are tried for one sample before it is given up.
const SUBSTITUTES: u32 = 16;

/// Which sample is being made, for whom.
#[derive(Copy, Clone)]
struct Wanted {
    index: SampleIndex,
    position: Position,
    epoch: u64,
}

/// What making a sample came to.
struct Made {
    /// Times by stage; zeros where they were not measured.
    stage_ns: [u64; 3],
    raw_bytes: u64,
    /// `Ok(None)`: as planned. `Ok(Some)`: a substitute was made for this failure.
    result: Result<Option<SampleError>, SampleError>,
}

impl Engine {
    /// Does a job; what it made is placed when this returns.
    pub(crate) fn run(&self, job: Job<Work>, desk: &mut Desk) -> Step {
        let Work { lot, slots, attempt } = job.work;
        if self.settings.io_workers > 0 {
            return self.load_only(&lot, slots, attempt, desk);
        }
        let started_ns = self.now_ns();
        if let Some(draft) = &lot.draft {
            draft.start(started_ns);
        }
        let (mut stage_ns, mut raw_bytes) = ([0; 3], 0);
        let mut one_by_one = slots.clone();
        if slots.len() > 1 && self.make_group(&lot, slots.clone(), desk) {
            stage_ns[Stage::Decode as usize] = 1; // all of the time
            one_by_one = slots.end..slots.end;
        }
        for slot in one_by_one {
            if self.is_stale(lot.generation) {
                return Step::Worked;
            }
            // The first sample of a group is timed by stage and stands for the others.
            let made = match self.watched(&lot, slot, attempt, desk, |desk, timed| {
                self.make(&lot, slot, attempt, None, desk, timed && slot == slots.start)
            }) {
                Some(made) => made,
                None => return Step::Retired,
            };
            if slot == slots.start {
                stage_ns = made.stage_ns;
            }
            raw_bytes += made.raw_bytes;
            self.place(&lot, slot, made.result, desk);
        }
        let samples = slots.len() as u32;
        let elapsed_ns = self.now_ns() - started_ns;
        // Counted before the batch can be delivered: statistics taken then must have it.
        let made_bytes = u64::from(samples) * self.schema.row_bytes() as u64;
        self.count(desk.worker, u64::from(samples), elapsed_ns, stage_ns, raw_bytes, made_bytes);
        self.placed(&lot, samples);
        if samples == 1 {
            let index = lot.indices[slots.start as usize];
            self.costs.learn(index.0, elapsed_ns, || self.hint(index));
        } else {
            self.costs.learn_mean(elapsed_ns as f64 / f64::from(samples));
        }
        self.bunch.learn(self.costs.mean_ns() * self.plan.batch_size() as f64);
        if self.policy.finished(desk.worker, samples, elapsed_ns) {
            self.bell.ring_all();
        }
        Step::Worked
    }

    /// Lets the dataset write all samples of a job at once, if it can. Returns whether it did.
    fn make_group(&self, lot: &Lot, slots: std::ops::Range<u32>, desk: &mut Desk) -> bool {
        let Some(draft) = lot.draft.as_ref().filter(|_| self.writes_in_place()) else {
            return false;
        };
        if self.schema.variable() > 0 || self.is_stale(lot.generation) {
            return false;
        }
        let indices = &lot.indices[slots.start as usize..slots.end as usize];
        // SAFETY: this worker took the job of these slots and counts them down after this.
        let Some(rows) = (unsafe { draft.group_rows(&self.schema, slots) }) else { return false };
        desk.parcel.reset(0, 0, self.schema.fields().len());
        let mut group = Group::new(indices, &self.schema, rows, &mut desk.parcel.written);
        // After a panic or `false` they are made one by one, and the one at fault says so.
        let built = catch_unwind(AssertUnwindSafe(|| self.dataset.build_group(&mut group)));
        matches!(built, Ok(true)) && desk.parcel.written.iter().all(|written| *written)
    }

    /// The load stage alone, for the threads that only do I/O.
    fn load_only(
        &self,
        lot: &Arc<Lot>,
        slots: std::ops::Range<u32>,
        attempt: u32,
        desk: &mut Desk,
    ) -> Step {
        for slot in slots {
            if self.is_stale(lot.generation) {
                return Step::Worked;
            }
            let started = Instant::now();
            if let Some(draft) = &lot.draft {
                draft.start(self.now_ns());
            }
            let wanted = self.wanted(lot, slot, attempt);
            let mut raw = self.handoff.buffer();
            let loaded = self.watched(lot, slot, attempt, desk, |desk, _| {
                self.watch_stage(desk.worker, Stage::Load);
                self.load(wanted, &mut raw)
            });
            let load_ns = started.elapsed().as_nanos() as u64;
            let raw_bytes = raw.len() as u64;
            if loaded.is_some() {
                self.count(desk.worker, 1, load_ns, [load_ns, 0, 0], raw_bytes, 0);
            }
            match loaded {
                None => return Step::Retired,
                Some(Ok(())) => {
                    let lot = Arc::clone(lot);
                    self.handoff.push(Loaded { lot, slot, attempt, raw, load_ns });
                }
                Some(Err(error)) => {
                    // A rare thing: this thread makes the substitute itself, all stages.
                    let result = self.remedy(lot, slot, attempt, error, desk);
                    self.place(lot, slot, result, desk);
                    self.placed(lot, 1);
                }
            }
            if self.policy.finished(desk.worker, 1, load_ns) {
                self.bell.ring_all();
            }
        }
        Step::Worked
    }

    /// The stages after loading, for the threads that only compute.
    pub(crate) fn build_loaded(&self, loaded: Loaded, desk: &mut Desk) -> Step {
        let Loaded { lot, slot, attempt, raw, load_ns } = loaded;
        if self.is_stale(lot.generation) {
            self.handoff.give_back(raw);
            return Step::Worked;
        }
        let started_ns = self.now_ns();
        let made = self.watched(&lot, slot, attempt, desk, |desk, _| {
            self.make(&lot, slot, attempt, Some((&raw, load_ns)), desk, true)
        });
        let Some(made) = made else { return Step::Retired };
        self.handoff.give_back(raw);
        let [_, decode, transform] = made.stage_ns;
        self.place(&lot, slot, made.result, desk);
        let elapsed_ns = self.now_ns() - started_ns;
        let bytes = self.schema.row_bytes() as u64;
        self.count(desk.worker, 1, elapsed_ns, [0, decode, transform], 0, bytes);
        self.placed(&lot, 1);
        let index = lot.indices[slot as usize];
        self.costs.learn(index.0, load_ns + elapsed_ns, || self.hint(index));
        Step::Worked
    }

    /// Runs `work` under the time limit, if there is one. `None`: the sample was given up meanwhile
    /// and another thread has this worker's place.
    fn watched<T>(
        &self,
        lot: &Arc<Lot>,
        slot: u32,
        attempt: u32,
        desk: &mut Desk,
        work: impl FnOnce(&mut Desk, bool) -> T,
    ) -> Option<T> {
        if self.settings.sample_timeout.is_none() {
            return Some(work(desk, true));
        }
        let note = Note { lot: Arc::clone(lot), slot, attempt, since: Instant::now() };
        let number = self.watchlist.begin(desk.worker, note);
        let result = work(desk, true);
        self.watchlist.finish(desk.worker, number).then_some(result)
    }

    fn watch_stage(&self, worker: usize, stage: Stage) {
        if self.settings.sample_timeout.is_some() {
            self.watchlist.stage_of(worker).store(stage as u8, Ordering::Relaxed);
        }
    }

    fn wanted(&self, lot: &Lot, slot: u32, attempt: u32) -> Wanted {
        let position = lot.position(slot);
        let index = match attempt {
            0 => lot.indices[slot as usize],
            _ => {
                let course = crate::sync::lock(&self.ahead).course().clone();
                course.epoch(lot.epoch).substitute(position, attempt)
            }
        };
        Wanted { index, position, epoch: lot.epoch }
    }

    /// Makes one sample into its slot or into the desk's parcel, or a substitute of it.
    fn make(
        &self,
        lot: &Lot,
        slot: u32,
        attempt: u32,
        loaded: Option<(&[u8], u64)>,
        desk: &mut Desk,
        timed: bool,
    ) -> Made {
        let wanted = self.wanted(lot, slot, attempt);
        let (made, raw_bytes) = self.attempt(lot, slot, wanted, loaded, desk, timed);
        match made {
            Ok(stage_ns) => Made { stage_ns, raw_bytes, result: Ok(None) },
            Err(error) => {
                let result = self.remedy(lot, slot, attempt, error, desk);
                Made { stage_ns: [0; 3], raw_bytes, result }
            }
        }
    }

    /// What the policy says about a failed sample: makes a substitute, or leaves the failure.
    fn remedy(
        &self,
        lot: &Lot,
        slot: u32,
        attempt: u32,
        mut error: SampleError,
        desk: &mut Desk,
    ) -> Result<Option<SampleError>, SampleError> {
        if self.settings.on_error == OnError::Replace && !self.is_too_many() {
            for substitute in attempt + 1..=SUBSTITUTES {
                let wanted = self.wanted(lot, slot, substitute);
                if self.attempt(lot, slot, wanted, None, desk, false).0.is_ok() {
                    error.replaced_by = Some(wanted.index);
                    return Ok(Some(error));
                }
            }
        }
        Err(error)
    }

    /// Whether one more error exceeds the limit. (Errors are noted when their sample is placed.)
    fn is_too_many(&self) -> bool {
        self.settings.max_errors.is_some_and(|limit| self.journal.count() >= limit)
    }

    fn attempt(
        &self,
        lot: &Lot,
        slot: u32,
        wanted: Wanted,
        loaded: Option<(&[u8], u64)>,
        desk: &mut Desk,
        timed: bool,
    ) -> (Result<[u64; 3], SampleError>, u64) {
        let limited = self.settings.sample_timeout.is_some();
        let shown = limited.then(|| self.watchlist.stage_of(desk.worker));
        let mut watch = match loaded {
            Some((_, load_ns)) => StageWatch::resume(load_ns, shown),
            None => StageWatch::start(timed, shown),
        };
        let raw = match loaded {
            Some((raw, _)) => raw,
            None => {
                desk.raw.clear();
                if let Err(error) = self.load(wanted, &mut desk.raw) {
                    return (Err(error), desk.raw.len() as u64);
                }
                &desk.raw
            }
        };
        watch.begin(Stage::Decode);
        let rows = match &lot.draft {
            // SAFETY: this worker took the job of this slot and counts it down after placing it.
            Some(draft) if self.writes_in_place() => unsafe { draft.rows(&self.schema, slot) },
            _ => None,
        };
        (self.build(wanted, raw, rows, &mut desk.parcel, watch), raw.len() as u64)
    }

    /// Stage load. A panic is this sample's error.
    fn load(&self, wanted: Wanted, raw: &mut Vec<u8>) -> Result<(), SampleError> {
        let loaded = catch_unwind(AssertUnwindSafe(|| self.dataset.load(wanted.index, raw)));
        match loaded {
            Ok(Ok(())) => Ok(()),
            Ok(Err(cause)) => Err(self.error(wanted, Stage::Load, Failure::Error, cause)),
            Err(panic) => {
                let cause = Panicked::from_payload(&*panic).into();
                Err(self.error(wanted, Stage::Load, Failure::Panic, cause))
            }
        }
    }

    /// Stages decode and transform. A panic is this sample's error.
    fn build(
        &self,
        wanted: Wanted,
        raw: &[u8],
        rows: Option<SlotRows<'_>>,
        parcel: &mut Parcel,
        watch: StageWatch<'_>,
    ) -> Result<[u64; 3], SampleError> {
        let identity = (wanted.index, wanted.epoch, self.plan.seed());
        let mut sample = Sample::new(identity, &self.schema, rows, parcel, watch);
        let built = catch_unwind(AssertUnwindSafe(|| {
            self.dataset.build(raw, &mut sample)?;
            sample.check_complete().map_err(Cause::from)
        }));
        match built {
            Ok(Ok(())) => Ok(sample.stop_watch()),
            Ok(Err(cause)) => Err(self.error(wanted, sample.stage(), Failure::Error, cause)),
            Err(panic) => {
                let cause = Panicked::from_payload(&*panic).into();
                Err(self.error(wanted, sample.stage(), Failure::Panic, cause))
            }
        }
    }

    fn error(&self, wanted: Wanted, stage: Stage, failure: Failure, cause: Cause) -> SampleError {
        // User code as well; a message must not fail for want of a path.
        let origin = catch_unwind(AssertUnwindSafe(|| self.dataset.origin(wanted.index)));
        let Wanted { index, position, epoch } = wanted;
        SampleError::new((index, position, epoch), origin.ok().flatten(), stage, failure, cause)
    }

    /// The dataset's cost hint; user code, so a panic counts as not knowing.
    pub(crate) fn hint(&self, index: SampleIndex) -> Option<u64> {
        if !self.settings.policy.wants_costs() {
            return None;
        }
        catch_unwind(AssertUnwindSafe(|| self.dataset.cost_hint(index))).ok().flatten()
    }

    /// Puts what was made where it belongs; in `ready` order this decides the slot.
    fn place(
        &self,
        lot: &Lot,
        slot: u32,
        result: Result<Option<SampleError>, SampleError>,
        desk: &mut Desk,
    ) {
        match &lot.draft {
            Some(draft) => self.fill(draft, slot, result, desk),
            None => {
                let index = match &result {
                    Ok(Some(error)) => error.replaced_by.unwrap_or(error.index),
                    _ => lot.indices[slot as usize],
                };
                if let Some((draft, slot)) = self.claim(lot, slot, index) {
                    self.fill(&draft, slot, result, desk);
                    if draft.countdown.done(1) {
                        self.complete(&draft);
                    }
                }
            }
        }
    }

    fn fill(
        &self,
        draft: &Draft,
        slot: u32,
        result: Result<Option<SampleError>, SampleError>,
        desk: &mut Desk,
    ) {
        let error = match result {
            Ok(error) => {
                if !self.writes_in_place() {
                    // SAFETY: this worker claimed the slot and counts it down after this.
                    unsafe { draft.place(&self.schema, slot, &desk.parcel) };
                }
                if draft.keeps_parcels() {
                    let empty = self.depot.take();
                    draft.keep(slot, std::mem::replace(&mut desk.parcel, empty));
                }
                error
            }
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            let count = self.journal.note(&error);
            draft.fault(slot, error, count);
        }
    }

    /// Counts samples of a lot as done.
    fn placed(&self, lot: &Lot, samples: u32) {
        match &lot.draft {
            Some(draft) => {
                if draft.countdown.done(samples) {
                    self.complete(draft);
                }
            }
            // `ready` order: the draft was counted down as the samples were placed. When the lot is
            // done the window may have moved.
            None => {
                if lot.countdown.done(samples) {
                    self.bell.ring_all();
                }
            }
        }
    }

    fn count(
        &self,
        worker: usize,
        samples: u64,
        elapsed_ns: u64,
        stage_ns: [u64; 3],
        raw_bytes: u64,
        made_bytes: u64,
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
        let wanted = self.wanted(&lot, slot, attempt);
        let error =
            self.error(wanted, stage, Failure::Timeout, Box::new(TimedOut { limit }) as Cause);
        let again = self.settings.on_error == OnError::Replace
            && attempt < SUBSTITUTES
            && !self.is_too_many();
        if again {
            // Somebody else makes the substitute; the sample stays open until then.
            self.journal.note(&error);
            let work = Work { lot: Arc::clone(&lot), slots: slot..slot + 1, attempt: attempt + 1 };
            self.submit_again(
                lot.generation,
                Job { batch: lot.turn, cost_ns: 0, samples: 1, work },
            );
            return;
        }
        let mut desk = Desk::new(usize::MAX);
        self.place(&lot, slot, Err(error), &mut desk);
        self.placed(&lot, 1);
    }
}
