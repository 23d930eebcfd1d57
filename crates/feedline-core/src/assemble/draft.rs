//! A batch while its slots are being filled.
//!
//! States of a slot: *free*, *claimed* by one worker, *filled* (with a sample or with its failure).
//! In order, slot i of a batch belongs to position i of it and is claimed by whoever takes that job;
//! in `ready` order slots are claimed one after the other by samples that are done. Either way a slot
//! has one claimant, which writes it and then counts it down. The worker that counts down the last
//! slot owns the whole draft from then on (see [`Countdown`]) and makes a [`Batch`](super::Batch) of it.
//!
//! A draft that is no longer wanted is simply dropped: by the last worker that still has a job of it.

use std::sync::Mutex;

use crate::error::SampleError;
use crate::flow::{BatchId, Charge};
use crate::plan::SampleIndex;
use crate::sync::{AtomicU64, Ordering, lock_std as lock};

use super::block::{Block, Memory};
use super::countdown::Countdown;
use super::parcel::Parcel;
use super::schema::{BatchLayout, FieldPlace, Schema};

/// A batch in the making.
pub(crate) struct Draft {
    /// Which batch it becomes.
    pub(crate) id: BatchId,
    /// How many samples it will have at most.
    pub(crate) slots: u32,
    /// Slots not filled yet.
    pub(crate) countdown: Countdown,
    /// When it was opened, and when the first worker began on it (0: not yet), by the engine's clock.
    pub(crate) opened_ns: u64,
    started_ns: AtomicU64,
    rows: Option<RowSpace>,
    loose: Vec<Mutex<Option<Parcel>>>,
    faults: Mutex<Vec<Fault>>,
    members: Mutex<Members>,
    block: Mutex<Option<Block>>,
    /// What its loose values take.
    charge: Mutex<Charge>,
}

/// The samples of a draft, and their positions in the epoch where those are not simply the next ones.
type Members = (Vec<SampleIndex>, Vec<u64>);

/// The memory of the fixed fields.
pub(crate) struct RowSpace {
    memory: Memory,
    pub(crate) layout: BatchLayout,
}

/// A slot whose sample failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) slot: u32,
    pub(crate) error: SampleError,
}

/// What a draft consists of once all slots are filled.
pub(crate) struct Contents {
    pub(crate) block: Option<Block>,
    pub(crate) loose: Vec<Option<Parcel>>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) members: Vec<SampleIndex>,
    pub(crate) charge: Charge,
}

impl Draft {
    /// `members` are the planned samples, or empty where samples come as they are ready.
    pub(crate) fn new(
        id: BatchId,
        members: Members,
        slots: u32,
        rows: Option<(Block, BatchLayout)>,
        loose: bool,
        opened_ns: u64,
        charge: Charge,
    ) -> Draft {
        let (block, rows) = match rows {
            Some((block, layout)) => {
                let memory = Memory { address: block.address(), capacity: block.capacity() };
                debug_assert!(layout.bytes <= memory.capacity);
                (Some(block), Some(RowSpace { memory, layout }))
            }
            None => (None, None),
        };
        Draft {
            id,
            slots,
            countdown: Countdown::new(slots),
            opened_ns,
            started_ns: AtomicU64::new(0),
            rows,
            loose: (0..if loose { slots } else { 0 }).map(|_| Mutex::default()).collect(),
            faults: Mutex::default(),
            members: Mutex::new(members),
            block: Mutex::new(block),
            charge: Mutex::new(charge),
        }
    }

    /// The rows of one slot, to be written by its claimant; `None` where there are no fixed fields.
    ///
    /// # Safety
    /// The caller claimed `slot`, has not counted it down, and gives it to nobody else meanwhile.
    pub(crate) unsafe fn rows<'a>(&'a self, schema: &'a Schema, slot: u32) -> Option<SlotRows<'a>> {
        assert!(slot < self.slots, "slot {slot} of a batch of {}", self.slots);
        self.rows.as_ref().map(|space| SlotRows { space, schema, slot: slot as usize })
    }

    /// The rows of neighbouring slots, to be written by their one claimant.
    ///
    /// # Safety
    /// As for [`rows`](Draft::rows), for each of the slots.
    pub(crate) unsafe fn group_rows<'a>(
        &'a self,
        schema: &'a Schema,
        slots: std::ops::Range<u32>,
    ) -> Option<GroupRows<'a>> {
        assert!(slots.start <= slots.end && slots.end <= self.slots, "slots {slots:?}");
        let slots = slots.start as usize..slots.end as usize;
        self.rows.as_ref().map(|space| GroupRows { space, schema, slots })
    }

    /// Copies a sample that was made elsewhere into a slot.
    ///
    /// # Safety
    /// As for [`rows`](Draft::rows).
    pub(crate) unsafe fn place(&self, schema: &Schema, slot: u32, parcel: &Parcel) {
        // SAFETY: passed on to the caller.
        let Some(mut rows) = (unsafe { self.rows(schema, slot) }) else { return };
        for field in 0..schema.fields().len() {
            if let FieldPlace::Row { bytes, offset } = schema.place(field) {
                rows.row(field).copy_from_slice(&parcel.record.bytes()[offset..offset + bytes]);
            }
        }
    }

    /// Whether values of varying length are kept until the batch is put together.
    pub(crate) fn keeps_parcels(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Keeps a slot's loose values until the batch is put together.
    pub(crate) fn keep(&self, slot: u32, parcel: Parcel) {
        *lock(&self.loose[slot as usize]) = Some(parcel);
    }

    /// Its loose values take so many bytes more, which are booked.
    pub(crate) fn charge(&self, bytes: u64) {
        if bytes > 0 {
            lock(&self.charge).add(bytes);
        }
    }

    /// Records that a slot's sample failed.
    pub(crate) fn fault(&self, slot: u32, error: SampleError) {
        lock(&self.faults).push(Fault { slot, error });
    }

    /// Claims the next slot for a sample that is ready; called under the composer's lock.
    pub(crate) fn claim(&self, index: SampleIndex, position: u64) -> u32 {
        let (members, positions) = &mut *lock(&self.members);
        members.push(index);
        positions.push(position);
        members.len() as u32 - 1
    }

    /// Takes the positions out; for the worker that counted down the last slot.
    pub(crate) fn take_positions(&self) -> Vec<u64> {
        std::mem::take(&mut lock(&self.members).1)
    }

    /// Notes the time of the first work on it.
    pub(crate) fn start(&self, now_ns: u64) {
        // Relaxed: a time stamp for reports.
        if self.started_ns.load(Ordering::Relaxed) == 0 {
            let _ =
                self.started_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(crate) fn started_ns(&self) -> u64 {
        self.started_ns.load(Ordering::Relaxed).max(self.opened_ns)
    }

    pub(crate) fn layout(&self) -> Option<&BatchLayout> {
        self.rows.as_ref().map(|space| &space.layout)
    }

    /// Takes everything out; for the worker that counted down the last slot.
    pub(crate) fn contents(&self) -> Contents {
        let mut faults = std::mem::take(&mut *lock(&self.faults));
        // In the order of the slots, whichever worker was first.
        faults.sort_by_key(|fault| fault.slot);
        Contents {
            block: lock(&self.block).take(),
            loose: self.loose.iter().map(|parcel| lock(parcel).take()).collect(),
            faults,
            members: std::mem::take(&mut lock(&self.members).0),
            charge: lock(&self.charge).split(u64::MAX),
        }
    }
}

/// The rows of one slot: for each fixed field a stretch of the batch's block.
pub(crate) struct SlotRows<'a> {
    space: &'a RowSpace,
    schema: &'a Schema,
    slot: usize,
}

impl SlotRows<'_> {
    /// The bytes of a fixed field's value.
    pub(crate) fn row(&mut self, field: usize) -> &mut [u8] {
        let FieldPlace::Row { bytes, .. } = self.schema.place(field) else { return &mut [] };
        let at = self.space.layout.starts[field] + self.slot * bytes;
        // SAFETY: the layout was made for at least `slots` rows and fits the block, so the range is
        // inside it. Ranges of different slots and fields are disjoint; this slot is ours alone by the
        // promise made to `Draft::rows`, and `&mut self` keeps its rows from being given out twice. The
        // block lives in the draft until the last slot is counted down, which is after this.
        unsafe { std::slice::from_raw_parts_mut(self.space.memory.address.as_ptr().add(at), bytes) }
    }
}

/// The rows of neighbouring slots: for each fixed field one stretch of the batch's block.
pub(crate) struct GroupRows<'a> {
    space: &'a RowSpace,
    schema: &'a Schema,
    slots: std::ops::Range<usize>,
}

impl GroupRows<'_> {
    /// The bytes of a fixed field's values, slot after slot.
    pub(crate) fn rows(&mut self, field: usize) -> &mut [u8] {
        let FieldPlace::Row { bytes, .. } = self.schema.place(field) else { return &mut [] };
        let at = self.space.layout.starts[field] + self.slots.start * bytes;
        let length = self.slots.len() * bytes;
        // SAFETY: as in `SlotRows::row`; a field's rows lie next to each other, slot after slot.
        unsafe {
            std::slice::from_raw_parts_mut(self.space.memory.address.as_ptr().add(at), length)
        }
    }

    /// The same rows, lent on. The borrow keeps the two from being used at once.
    pub(crate) fn reborrow(&mut self) -> GroupRows<'_> {
        GroupRows { space: self.space, schema: self.schema, slots: self.slots.clone() }
    }
}
