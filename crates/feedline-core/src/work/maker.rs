//! Making one sample: load, decode, transform; a substitute if it fails and that is what the user wants.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::assemble::{Parcel, Pool, Schema, SlotRows};
use crate::deliver::BatchResult;
use crate::error::{Error, Failure, OnError, Panicked, SampleError};
use crate::flow::Gate;
use crate::plan::{Position, SampleIndex};
use crate::schedule::Job;

use super::dataset::{Cause, Dataset, Sample, SampleKey};
use super::group::Group;
use super::journal::Journal;
use super::local::Local;
use super::lot::{Attempt, Lot, Work};
use super::stage::{Stage, StageWatch};
use super::watchlist::{Note, Watchlist};

/// How many substitutes are tried for one sample before it is given up.
const SUBSTITUTES: u32 = 16;

/// Makes samples.
pub(crate) struct Maker {
    pub(crate) dataset: Arc<dyn Dataset>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) gate: Arc<Gate<BatchResult, Job<Work>>>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) seed: u64,
    pub(crate) on_error: OnError,
    pub(crate) max_errors: Option<u64>,
    /// Whether somebody minds the time.
    pub(crate) is_limited: bool,
    /// Whether workers write into the batch's slots.
    pub(crate) in_place: bool,
    pub(crate) watchlist: Watchlist,
    pub(crate) journal: Journal,
}

/// Which sample is being made, for whom.
#[derive(Copy, Clone)]
pub(crate) struct Wanted {
    pub(crate) index: SampleIndex,
    position: Position,
    epoch: u64,
    repeat: u64,
}

/// What making a sample came to.
pub(crate) struct Made {
    /// Times by stage; zeros where they were not measured.
    pub(crate) stage_ns: [u64; 3],
    pub(crate) raw_bytes: u64,
    /// `Ok(None)`: as planned. `Ok(Some)`: a substitute was made for this failure.
    pub(crate) result: Result<Option<SampleError>, SampleError>,
}

/// Bytes that were loaded already, and the time that took.
pub(crate) type Preloaded<'a> = (&'a [u8], u64);

impl Maker {
    /// Makes a sample into its slot or into the worker's parcel, or a substitute of it. `None`: it was given
    /// up meanwhile, and another thread has this worker's seat.
    ///
    /// Each substitute is an attempt of its own to whoever minds the time, and takes along why the first one failed: that is
    /// what is reported, whatever happens to substitutes.
    pub(crate) fn make(
        &self,
        lot: &Arc<Lot>,
        slot: u32,
        mut attempt: Attempt,
        mut loaded: Option<Preloaded<'_>>,
        local: &mut Local,
        timed: bool,
    ) -> Option<Made> {
        let mut raw_bytes = 0;
        loop {
            let wanted = self.wanted(lot, slot, attempt.number);
            let (made, raw) = self.watched(lot, slot, &attempt, local, |local| {
                self.attempt(lot, slot, wanted, loaded.take(), local, timed)
            })?;
            raw_bytes += raw;
            match made {
                Ok(stage_ns) => {
                    let replaced = attempt.failed.map(|mut error| {
                        error.replaced_by = Some(wanted.index);
                        error
                    });
                    return Some(Made { stage_ns, raw_bytes, result: Ok(replaced) });
                }
                Err(error) => match self.next_attempt(attempt, error) {
                    Ok(next) => attempt = next,
                    Err(error) => {
                        return Some(Made { stage_ns: [0; 3], raw_bytes, result: Err(error) });
                    }
                },
            }
        }
    }

    /// What to try after an attempt failed; or why nothing more is tried.
    pub(crate) fn next_attempt(
        &self,
        attempt: Attempt,
        error: SampleError,
    ) -> Result<Attempt, SampleError> {
        let tries = self.on_error == OnError::Replace
            && attempt.number < SUBSTITUTES
            && !self.is_too_many();
        if tries { Ok(attempt.next(error)) } else { Err(attempt.failed.unwrap_or(error)) }
    }

    /// Whether one more error exceeds the limit. (Errors count when their batch is delivered.)
    fn is_too_many(&self) -> bool {
        self.max_errors.is_some_and(|limit| self.journal.count() >= limit)
    }

    /// A batch with samples that could not be made is delivered. Returns what to say in its place if these are too
    /// many. They count in the order of delivery, so it is the same one every time.
    pub(crate) fn note(&self, errors: &[SampleError]) -> Option<Error> {
        let mut too_many = None;
        for error in errors {
            let count = self.journal.note(error);
            let limit = self.max_errors.filter(|limit| count > *limit);
            if let (Some(limit), None, false) = (limit, &too_many, self.on_error == OnError::Raise)
            {
                too_many = Some(Error::TooManyErrors { count, limit, last: error.clone() });
            }
        }
        too_many
    }

    /// The load stage alone, under the time limit; `None` as for [`make`](Maker::make).
    pub(crate) fn load_watched(
        &self,
        lot: &Arc<Lot>,
        slot: u32,
        attempt: &Attempt,
        local: &mut Local,
        raw: &mut Vec<u8>,
    ) -> Option<Result<(), SampleError>> {
        let wanted = self.wanted(lot, slot, attempt.number);
        self.watched(lot, slot, attempt, local, |local| {
            if self.is_limited {
                let shown = self.watchlist.stage_of(local.worker);
                shown.store(Stage::Load as u8, Ordering::Relaxed);
            }
            self.load(lot, slot, wanted, raw)
        })
    }

    /// Lets the dataset write all samples of a job at once, if it can. Returns whether it did.
    pub(crate) fn make_group(
        &self,
        lot: &Lot,
        slots: std::ops::Range<u32>,
        local: &mut Local,
    ) -> bool {
        let Some(draft) = lot.draft.as_ref().filter(|_| self.in_place) else { return false };
        if self.schema.variable() > 0 || self.gate.is_stale(lot.id.generation) {
            return false;
        }
        let indices = &lot.indices[slots.start as usize..slots.end as usize];
        // SAFETY: this worker took the job of these slots and counts them down after this.
        let Some(rows) = (unsafe { draft.group_rows(&self.schema, slots) }) else { return false };
        local.parcel.reset(0, 0, self.schema.fields().len());
        let mut group = Group::new(indices, &self.schema, rows, &mut local.parcel.written);
        // After a panic or `false` they are made one by one, and the one at fault says so.
        let built = catch_unwind(AssertUnwindSafe(|| self.dataset.build_group(&mut group)));
        matches!(built, Ok(true)) && local.parcel.written.iter().all(|written| *written)
    }

    /// Runs `work` under the time limit, if there is one. `None`: the sample was given up meanwhile
    /// and another thread has this worker's seat.
    fn watched<T>(
        &self,
        lot: &Arc<Lot>,
        slot: u32,
        attempt: &Attempt,
        local: &mut Local,
        work: impl FnOnce(&mut Local) -> T,
    ) -> Option<T> {
        if !self.is_limited {
            return Some(work(local));
        }
        let attempt = attempt.clone();
        let note = Note { lot: Arc::clone(lot), slot, attempt, since: Instant::now() };
        let number = self.watchlist.begin(local.worker, note);
        let result = work(local);
        self.watchlist.finish(local.worker, number).then_some(result)
    }

    /// Which sample an attempt makes.
    pub(crate) fn wanted(&self, lot: &Lot, slot: u32, attempt: u32) -> Wanted {
        let position = lot.position(slot);
        let index = match attempt {
            0 => lot.indices[slot as usize],
            _ => {
                let course = self.gate.look(|flow| flow.cursor().course.clone());
                course.epoch(lot.id.epoch).substitute(position, attempt)
            }
        };
        let repeat = lot.repeats.get(slot as usize).copied().unwrap_or(0);
        Wanted { index, position, epoch: lot.id.epoch, repeat }
    }

    fn attempt(
        &self,
        lot: &Lot,
        slot: u32,
        wanted: Wanted,
        loaded: Option<Preloaded<'_>>,
        local: &mut Local,
        timed: bool,
    ) -> (Result<[u64; 3], SampleError>, u64) {
        let shown = self.is_limited.then(|| self.watchlist.stage_of(local.worker));
        let mut watch = match loaded {
            Some((_, load_ns)) => StageWatch::resume(load_ns, shown),
            None => StageWatch::start(timed, shown),
        };
        let raw = match loaded {
            Some((raw, _)) => raw,
            None => {
                local.raw.clear();
                if let Err(error) = self.load(lot, slot, wanted, &mut local.raw) {
                    return (Err(error), local.raw.len() as u64);
                }
                &local.raw
            }
        };
        watch.begin(Stage::Decode);
        let rows = match &lot.draft {
            // SAFETY: this worker took the job of this slot and counts it down after placing it.
            Some(draft) if self.in_place => unsafe { draft.rows(&self.schema, slot) },
            _ => None,
        };
        (self.build(wanted, raw, rows, &mut local.parcel, watch), raw.len() as u64)
    }

    /// Stage load. A panic is this sample's error.
    fn load(
        &self,
        lot: &Lot,
        slot: u32,
        wanted: Wanted,
        raw: &mut Vec<u8>,
    ) -> Result<(), SampleError> {
        let loaded = catch_unwind(AssertUnwindSafe(|| match &lot.pulled {
            None => self.dataset.load(wanted.index, raw),
            Some(pulled) => pulled.take(slot, raw),
        }));
        match loaded {
            Ok(Ok(())) => Ok(()),
            Ok(Err(cause)) => {
                let panicked = cause.is::<Panicked>();
                let failure = if panicked { Failure::Panic } else { Failure::Error };
                Err(self.error(wanted, Stage::Load, failure, cause))
            }
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
        let Wanted { index, epoch, repeat, .. } = wanted;
        let key = SampleKey { seed: self.seed, epoch, index, repeat };
        let mut sample = Sample::new(key, &self.schema, rows, (parcel, Some(&self.pool)), watch);
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

    /// The failure of a sample, with where it comes from.
    pub(crate) fn error(
        &self,
        wanted: Wanted,
        stage: Stage,
        failure: Failure,
        cause: Cause,
    ) -> SampleError {
        // User code as well; a message must not fail for want of a path.
        let origin = catch_unwind(AssertUnwindSafe(|| self.dataset.origin(wanted.index)));
        let Wanted { index, position, epoch, .. } = wanted;
        SampleError::new((index, position, epoch), origin.ok().flatten(), stage, failure, cause)
    }

    /// Tells the dataset which samples come soon; user code, so a panic counts as not wanting to know.
    pub(crate) fn expect(&self, indices: &[SampleIndex]) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.dataset.expect(indices)));
    }

    /// The dataset's cost hint; user code, so a panic counts as not knowing.
    pub(crate) fn hint(&self, index: SampleIndex) -> Option<u64> {
        catch_unwind(AssertUnwindSafe(|| self.dataset.cost_hint(index))).ok().flatten()
    }
}
