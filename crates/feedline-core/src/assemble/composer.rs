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
use std::sync::atomic::{AtomicU64, Ordering};

use crate::deliver::OrderLog;
use crate::flow::{BatchId, Charge, Ledger};
use crate::plan::SampleIndex;
use crate::state::{BatchPlace, Course};
use crate::sync::{Mutex, lock};
use crate::work::Lot;

use super::block::Block;
use super::draft::Draft;
use super::schema::BatchLayout;

/// Logs are kept this many epochs beyond their delivery.
const LOGS: u64 = 4;

/// Where ready samples go.
pub(crate) struct Composer {
    batch_size: u64,
    keeps_parcels: bool,
    ledger: Arc<dyn Ledger>,
    /// The first epoch that is not delivered to its end. Relaxed: it only ages logs.
    delivered: AtomicU64,
    state: Mutex<ComposerInner>,
}

struct ComposerInner {
    generation: u64,
    course: Course,
    first: BatchPlace,
    epochs: Vec<Composing>,
    /// Blocks for the drafts to come.
    stock: Vec<(Block, BatchLayout)>,
    logs: VecDeque<OrderLog>,
}

/// One epoch that is being composed.
struct Composing {
    epoch: u64,
    positions: Vec<u64>,
    draft: Option<Arc<Draft>>,
}

/// What was in flight, to be dropped when no lock is held.
pub(crate) type Leftovers = (Vec<Arc<Draft>>, Vec<(Block, BatchLayout)>);

impl Composer {
    pub(crate) fn new(
        course: Course,
        batch_size: u64,
        keeps_parcels: bool,
        ledger: Arc<dyn Ledger>,
    ) -> Composer {
        let state = ComposerInner {
            generation: 0,
            course,
            first: BatchPlace::default(),
            epochs: Vec::new(),
            stock: Vec::new(),
            logs: VecDeque::new(),
        };
        let (delivered, state) = (AtomicU64::new(0), Mutex::new(state));
        Composer { batch_size, keeps_parcels, ledger, delivered, state }
    }

    /// Everything before this epoch is delivered.
    pub(crate) fn delivered_up_to(&self, epoch: u64) {
        self.delivered.store(epoch, Ordering::Relaxed);
    }

    /// Takes the block that a newly opened lot brings along.
    pub(crate) fn stock_up(&self, rows: Option<(Block, BatchLayout)>) {
        lock(&self.state).stock.extend(rows);
    }

    /// Leaves out a batch's worth of samples that nobody will make. Nothing else is in flight, so
    /// the epoch's composing is between two batches.
    pub(crate) fn pass_over(&self, epoch: u64, positions: &[u64]) {
        composing(&mut lock(&self.state).epochs, epoch, 0).positions.extend_from_slice(positions);
    }

    /// Begins a generation at this batch.
    pub(crate) fn restart(&self, generation: u64, first: BatchPlace, course: &Course) -> Leftovers {
        let mut state = lock(&self.state);
        state.generation = generation;
        state.course = course.clone();
        state.first = first;
        let drafts = state.epochs.drain(..).filter_map(|composing| composing.draft).collect();
        (drafts, std::mem::take(&mut state.stock))
    }

    /// Logs of the epochs that were composed to their end, oldest first.
    pub(crate) fn logs(&self) -> Vec<OrderLog> {
        lock(&self.state).logs.iter().cloned().collect()
    }

    /// Claims a slot for the sample at `slot` of `lot`, which is `index` or a substitute. `None`: its generation
    /// is over.
    pub(crate) fn claim(
        &self,
        lot: &Lot,
        slot: u32,
        index: SampleIndex,
        now_ns: u64,
    ) -> Option<(Arc<Draft>, u32)> {
        let state = &mut *lock(&self.state);
        if state.generation != lot.id.generation {
            return None;
        }
        let epoch = lot.id.epoch;
        let first = state.first;
        // Where this epoch's composing starts: mid-epoch only for the first one.
        let skipped = if epoch == first.epoch { first.number } else { 0 };
        let samples = state.course.samples(epoch);
        let ComposerInner { course, epochs, logs, stock, .. } = state;
        let composing = composing(epochs, epoch, samples);
        let draft = match &composing.draft {
            Some(draft) => Arc::clone(draft),
            None => {
                let number = skipped + composing.positions.len() as u64 / self.batch_size;
                let turn = course.turns(first, BatchPlace { epoch, number });
                let id = BatchId { turn, number, ..lot.id };
                let range = course.batch_range(epoch, number);
                let slots = (range.end - range.start) as u32;
                let room = slots as usize;
                let members = (Vec::with_capacity(room), Vec::with_capacity(room));
                let charge = Charge::of(&self.ledger, 0);
                let rows = stock.pop();
                let draft =
                    Draft::new(id, members, slots, rows, self.keeps_parcels, now_ns, charge);
                let draft = Arc::new(draft);
                composing.draft = Some(Arc::clone(&draft));
                draft
            }
        };
        draft.start(now_ns);
        let position = lot.position(slot).0;
        let claimed = draft.claim(index, position);
        composing.positions.push(position);
        if claimed + 1 == draft.slots {
            composing.draft = None;
            let done = skipped * self.batch_size + composing.positions.len() as u64;
            if done == samples {
                let at = epochs.iter().position(|c| c.epoch == epoch);
                let composed = epochs.swap_remove(at.expect("composed just now"));
                if skipped == 0 && course.segment(epoch).is_none() {
                    // Epochs are composed ahead of delivery, short ones several at a time, so it is
                    // delivery that makes a log old.
                    let delivered = self.delivered.load(Ordering::Relaxed);
                    logs.retain(|log| log.epoch() + LOGS >= delivered);
                    let plan = course.plan().fingerprint();
                    logs.push_back(OrderLog::new(composed.epoch, plan, composed.positions));
                }
            }
        }
        Some((draft, claimed))
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
