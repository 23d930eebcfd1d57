//! `ready` order: batches are composed of samples as they become ready.
//!
//! Samples are started in planned order, at most a window ahead of the oldest that is not done. A
//! sample that is done claims the next slot of its epoch's open draft, under the composer's lock; it is
//! copied there outside of it. So one slow sample holds up nothing but itself: it goes into whatever
//! batch is open when it is done, at the latest when the window closes.
//!
//! Each epoch has the batches its plan says, of the sizes the plan says; only the membership differs.
//! Every sample claims exactly one slot (a failed one too: its slot is skipped or raised like in order),
//! and an epoch's drafts have exactly as many slots as it has samples, so each comes once.
//!
//! A draft needs a block when its first slot is claimed, and that must not fail for want of budget. So
//! each lot brings the block of one batch along when it is opened, into the composer's stock: at no
//! time are more drafts begun than lots opened, since the samples of k lots fill at most k drafts.
//!
//! The positions in the order of their claims are the delivered order. They are logged, and an
//! [`OrderLog`] given to a later loader replays it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::assemble::{Block, Draft, Identity, Layout};
use crate::engine::Engine;
use crate::plan::SampleIndex;
use crate::sync::lock;
use crate::work::Lot;

use super::course::Course;
use super::log::OrderLog;

/// Logs are kept this many epochs beyond their delivery.
const LOGS: u64 = 4;

/// Where ready samples go.
pub(crate) struct Composer {
    generation: u64,
    course: Course,
    first: (u64, u64),
    epochs: Vec<Composing>,
    /// Blocks for the drafts to come.
    stock: Vec<(Block, Layout)>,
    logs: VecDeque<OrderLog>,
}

/// One epoch that is being composed.
struct Composing {
    epoch: u64,
    positions: Vec<u64>,
    draft: Option<Arc<Draft>>,
}

impl Composer {
    pub(crate) fn new(course: Course) -> Composer {
        Composer {
            generation: 0,
            course,
            first: (0, 0),
            epochs: Vec::new(),
            stock: Vec::new(),
            logs: VecDeque::new(),
        }
    }

    /// Takes the block that a newly opened lot brings along.
    pub(crate) fn stock_up(&mut self, rows: Option<(Block, Layout)>) {
        self.stock.extend(rows);
    }

    /// Leaves out a batch's worth of samples that nobody will make. Nothing else is in flight, so
    /// the epoch's composing is between two batches.
    pub(crate) fn pass_over(&mut self, epoch: u64, positions: &[u64]) {
        composing(&mut self.epochs, epoch, 0).positions.extend_from_slice(positions);
    }

    /// Begins a generation at batch `number` of `epoch`.
    pub(crate) fn restart(&mut self, generation: u64, epoch: u64, number: u64, course: Course) {
        debug_assert!(number < course.batches(epoch));
        self.generation = generation;
        self.course = course;
        self.first = (epoch, number);
        self.epochs.clear();
        self.stock.clear();
    }

    /// Forgets what is in flight.
    pub(crate) fn clear(&mut self, generation: u64) {
        self.generation = generation;
        self.epochs.clear();
        self.stock.clear();
    }

    /// Logs of the epochs that were composed to their end, oldest first.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &OrderLog> {
        self.logs.iter()
    }
}

/// The composing of `epoch`, which has `samples`; begun if it is not there.
fn composing(epochs: &mut Vec<Composing>, epoch: u64, samples: u64) -> &mut Composing {
    let at = match epochs.iter().position(|composing| composing.epoch == epoch) {
        Some(at) => at,
        None => {
            let positions = Vec::with_capacity(samples.min(1 << 20) as usize);
            epochs.push(Composing { epoch, positions, draft: None });
            epochs.len() - 1
        }
    };
    &mut epochs[at]
}

impl Engine {
    /// Claims a slot for the sample at `slot` of `lot`. `None`: its generation is over.
    pub(crate) fn claim(
        &self,
        lot: &Lot,
        slot: u32,
        index: SampleIndex,
    ) -> Option<(Arc<Draft>, u32)> {
        let composer = &mut *lock(&self.composer);
        if composer.generation != lot.generation {
            return None;
        }
        let (first_epoch, first_number) = composer.first;
        // Where this epoch's composing starts: mid-epoch only for the first one.
        let skipped = if lot.epoch == first_epoch { first_number } else { 0 };
        let samples = composer.course.samples(lot.epoch);
        let rows = match composing(&mut composer.epochs, lot.epoch, samples).draft {
            Some(_) => None,
            None => composer.stock.pop(),
        };
        let Composer { course, epochs, logs, .. } = composer;
        let composing = composing(epochs, lot.epoch, samples);
        let draft = match &composing.draft {
            Some(draft) => Arc::clone(draft),
            None => {
                let number = skipped + composing.positions.len() as u64 / self.plan.batch_size();
                let turn = course.turns((first_epoch, first_number), (lot.epoch, number));
                let identity =
                    Identity { generation: lot.generation, turn, epoch: lot.epoch, number };
                let range = course.batch_range(lot.epoch, number);
                let draft = Arc::new(self.ready_draft(identity, range.end - range.start, rows));
                composing.draft = Some(Arc::clone(&draft));
                draft
            }
        };
        draft.start(self.now_ns());
        let position = lot.position(slot).0;
        let claimed = draft.claim(index, position);
        composing.positions.push(position);
        if claimed + 1 == draft.slots {
            composing.draft = None;
            let done = skipped * self.plan.batch_size() + composing.positions.len() as u64;
            if done == samples {
                let at = epochs.iter().position(|c| c.epoch == lot.epoch);
                let composed = epochs.swap_remove(at.expect("composed just now"));
                let fingerprint = self.plan.fingerprint();
                if skipped == 0 && course.segment(lot.epoch).is_none() {
                    // Epochs are composed ahead of delivery, short ones several at a time, so it is
                    // delivery that makes a log old.
                    let delivered = self.delivered_epochs.load(Ordering::Relaxed);
                    logs.retain(|log| log.epoch() + LOGS >= delivered);
                    let log = OrderLog::new(composed.epoch, fingerprint, composed.positions);
                    logs.push_back(log);
                }
            }
        }
        Some((draft, claimed))
    }

    fn ready_draft(&self, identity: Identity, slots: u64, rows: Option<(Block, Layout)>) -> Draft {
        debug_assert!(rows.is_some() || self.layout.is_none(), "each lot brings a block along");
        let slots = slots as u32;
        let members = (Vec::with_capacity(slots as usize), Vec::with_capacity(slots as usize));
        Draft::new(identity, members, slots, rows, self.keeps_parcels(), self.now_ns())
    }
}
