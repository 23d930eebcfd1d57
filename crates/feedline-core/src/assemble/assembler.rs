//! From a draft whose slots are filled to a batch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, OnError, Panicked, SampleError};
use crate::plan::{SampleIndex, Stream};
use crate::work::{Cause, SampleKey};

use super::alter::{Alter, Assembled};
use super::batch::{Array, Batch};
use super::collate::{BatchWriter, Collate, SampleView, assemble};
use super::draft::{Contents, Draft, Fault};
use super::parcel::{Depot, Parcel};
use super::pool::Pool;
use super::schema::Schema;

/// Makes batches of filled drafts, and knows what is done about samples that failed.
pub(crate) struct Assembler {
    pub(crate) schema: Arc<Schema>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) depot: Depot,
    pub(crate) collate: Option<Arc<dyn Collate>>,
    pub(crate) alters: Vec<Arc<dyn Alter>>,
    pub(crate) on_error: OnError,
    pub(crate) seed: u64,
    /// Whether the consumer copies strings out of their blocks.
    pub(crate) copies_strings: bool,
}

impl Assembler {
    /// What a sample takes that is kept until its batch is put together: its buffers, and the copies that the consumer
    /// will make of its strings.
    pub(crate) fn loose_bytes(&self, parcel: &Parcel) -> u64 {
        let copies = if self.copies_strings { self.schema.string_bytes(parcel) } else { 0 };
        (parcel.capacity() + copies) as u64
    }

    /// Makes a batch; for the worker that filled the draft's last slot. Returns also which samples could not be
    /// made, in their order.
    pub(crate) fn assemble(&self, draft: &Draft) -> (Result<Batch, Error>, Vec<SampleError>) {
        let contents = draft.contents();
        let errors = contents.faults.iter().map(|fault| fault.error.clone()).collect();
        (self.batch(draft, contents), errors)
    }

    fn batch(&self, draft: &Draft, contents: Contents) -> Result<Batch, Error> {
        let Contents { block, mut loose, faults, mut members, mut charge } = contents;
        let mut kept = vec![true; draft.slots as usize];
        self.settle(faults, &mut members, &mut kept)?;
        let arrays = match &self.collate {
            Some(collate) => self.collate_custom(draft, &**collate, &loose, &kept),
            None => {
                let rows = block.zip(draft.layout());
                let copies = self.copies_strings;
                assemble(&self.schema, rows, &mut loose, &kept, &self.pool, &mut charge, copies)
            }
        };
        for parcel in loose.into_iter().flatten() {
            self.depot.put(parcel);
        }
        drop(charge);
        let planned = members.first().copied();
        let mut kept = kept.into_iter();
        members.retain(|_| kept.next().unwrap_or(false));
        let mut arrays = arrays?;
        if let (Some(first), false) = (members.first().copied().or(planned), self.alters.is_empty())
        {
            self.alter(draft, &mut arrays, first, members.len())?;
        }
        let (epoch, number) = (draft.id.epoch, draft.id.number);
        Ok(Batch { epoch, number, arrays, indices: members })
    }

    /// What is done about samples that failed: the batch fails, or they are left out, or were replaced.
    fn settle(
        &self,
        faults: Vec<Fault>,
        members: &mut [SampleIndex],
        kept: &mut [bool],
    ) -> Result<(), Error> {
        for fault in faults {
            let slot = fault.slot as usize;
            match (fault.error.replaced_by, self.on_error) {
                (Some(substitute), _) => members[slot] = substitute,
                (None, OnError::Skip) => kept[slot] = false,
                (None, OnError::Raise | OnError::Replace) => {
                    return Err(Error::Sample(fault.error));
                }
            }
        }
        Ok(())
    }

    fn alter(
        &self,
        draft: &Draft,
        arrays: &mut Vec<Array>,
        first: SampleIndex,
        rows: usize,
    ) -> Result<(), Error> {
        let stream = Stream::of_batch(self.seed, draft.id.epoch, first.0);
        let key = SampleKey::new(self.seed, draft.id.epoch, first);
        let mut batch = Assembled { arrays, rows, key, stream, pool: &self.pool };
        for alter in self.alters.iter().filter(|alter| rows > 0 || alter.takes_empty()) {
            let done = catch_unwind(AssertUnwindSafe(|| alter.alter(&mut batch)));
            let cause = match done {
                Ok(Ok(())) => continue,
                Ok(Err(cause)) => cause,
                Err(panic) => Panicked::from_payload(&*panic).into(),
            };
            let (epoch, batch) = (draft.id.epoch, draft.id.number);
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
            epoch: draft.id.epoch,
            batch: draft.id.number,
            cause: Arc::from(cause),
        };
        match done {
            Ok(Ok(())) => Ok(out.into_arrays()),
            Ok(Err(cause)) => Err(failed(cause)),
            Err(panic) => Err(failed(Panicked::from_payload(&*panic).into())),
        }
    }
}
