//! From the last filled slot to the shelf.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::assemble::{
    Array, Assembled, Batch, BatchWriter, Collate, Contents, Draft, Parcel, SampleView, assemble,
};
use crate::engine::Engine;
use crate::error::{Error, OnError, Panicked};
use crate::measure::BatchTimes;
use crate::plan::{SampleIndex, Stream};
use crate::work::Cause;

/// A batch on the shelf.
pub(crate) struct Finished {
    pub(crate) result: Result<Batch, Error>,
    /// Which positions it has, where they are not simply the next ones.
    pub(crate) positions: Vec<u64>,
    /// The times that are known: the last part ends when the batch is taken.
    pub(crate) times: BatchTimes,
    pub(crate) finished_ns: u64,
}

impl Finished {
    /// A batch that could not even be opened.
    pub(crate) fn failed(positions: Vec<u64>, error: Error, now_ns: u64) -> Finished {
        Finished {
            result: Err(error),
            positions,
            times: BatchTimes::default(),
            finished_ns: now_ns,
        }
    }
}

impl Engine {
    /// Puts a batch together and on the shelf; called by the worker that filled its last slot.
    pub(crate) fn complete(&self, draft: &Draft) {
        if self.is_stale(draft.generation) {
            return;
        }
        let filled_ns = self.now_ns();
        let positions = draft.take_positions();
        let result = self.put_together(draft);
        let finished_ns = self.now_ns();
        let times = BatchTimes {
            queued_ns: draft.started_ns() - draft.opened_ns,
            building_ns: filled_ns.saturating_sub(draft.started_ns()),
            collating_ns: finished_ns - filled_ns,
            shelved_ns: 0,
        };
        let finished = Finished { result, positions, times, finished_ns };
        // Refused if the generation is over; then it is dropped here, outside the shelf's lock.
        let _ = self.shelf.put(draft.generation, draft.turn, finished);
    }

    fn put_together(&self, draft: &Draft) -> Result<Batch, Error> {
        let Contents { block, loose, mut faults, mut members } = draft.contents();
        let mut kept = vec![true; draft.slots as usize];
        // The first slot's failure is the one to name, whichever worker was first.
        faults.sort_by_key(|fault| fault.slot);
        for fault in faults {
            let limit = self.settings.max_errors.filter(|limit| fault.count > *limit);
            let slot = fault.slot as usize;
            match (limit, fault.error.replaced_by, self.settings.on_error) {
                (Some(limit), _, OnError::Skip | OnError::Replace) => {
                    let (count, last) = (fault.count, fault.error);
                    return Err(Error::TooManyErrors { count, limit, last });
                }
                (_, Some(substitute), _) => members[slot] = substitute,
                (_, None, OnError::Skip) => kept[slot] = false,
                (_, None, OnError::Raise | OnError::Replace) => {
                    return Err(Error::Sample(fault.error));
                }
            }
        }
        let arrays = match &self.settings.collate {
            Some(collate) => self.collate_custom(draft, &**collate, &loose, &kept),
            None => {
                let rows = block.zip(draft.layout());
                assemble(&self.schema, rows, &loose, &kept, &self.pool)
            }
        };
        for parcel in loose.into_iter().flatten() {
            self.depot.put(parcel);
        }
        let mut kept = kept.into_iter();
        members.retain(|_| kept.next().unwrap_or(false));
        let mut arrays = arrays?;
        if let (Some(first), false) = (members.first(), self.settings.alters.is_empty()) {
            self.alter(draft, &mut arrays, *first, members.len())?;
        }
        Ok(Batch { epoch: draft.epoch, number: draft.number, arrays, indices: members })
    }

    fn alter(
        &self,
        draft: &Draft,
        arrays: &mut Vec<Array>,
        first: SampleIndex,
        rows: usize,
    ) -> Result<(), Error> {
        let stream = Stream::of_batch(self.plan.seed(), draft.epoch, first.0);
        let mut batch = Assembled { arrays, rows, stream, pool: &self.pool };
        for alter in &self.settings.alters {
            let done = catch_unwind(AssertUnwindSafe(|| alter.alter(&mut batch)));
            let cause = match done {
                Ok(Ok(())) => continue,
                Ok(Err(cause)) => cause,
                Err(panic) => Panicked::from_payload(&*panic).into(),
            };
            let (epoch, batch) = (draft.epoch, draft.number);
            return Err(Error::Collate { epoch, batch, cause: Arc::from(cause) });
        }
        Ok(())
    }

    fn collate_custom(
        &self,
        draft: &Draft,
        collate: &dyn Collate,
        loose: &[Option<Parcel>],
        kept: &[bool],
    ) -> Result<Vec<Array>, Error> {
        let samples: Vec<SampleView<'_>> = loose
            .iter()
            .zip(kept)
            .filter_map(|(parcel, kept)| parcel.as_ref().filter(|_| *kept))
            .map(|parcel| SampleView { schema: &self.schema, parcel })
            .collect();
        let mut out = BatchWriter::new(&self.pool);
        let done = catch_unwind(AssertUnwindSafe(|| collate.collate(&samples, &mut out)));
        let failed = |cause: Cause| Error::Collate {
            epoch: draft.epoch,
            batch: draft.number,
            cause: Arc::from(cause),
        };
        match done {
            Ok(Ok(())) => Ok(out.into_arrays()),
            Ok(Err(cause)) => Err(failed(cause)),
            Err(panic) => Err(failed(Panicked::from_payload(&*panic).into())),
        }
    }
}
