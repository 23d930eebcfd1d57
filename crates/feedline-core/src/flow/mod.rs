//! What may be opened, who is woken, whose batch is next, how many bytes are under way: decided here, done elsewhere.
//!
//! [`Flow`] is a state machine without a thread, a clock or memory. It is told what happened and answers what to do;
//! [`Gate`] puts one lock around it, carries out what it says after the lock is released, and is the only place
//! where anybody is woken. A simulator may run the same machine on its own clock.
//!
//! Uses `state` (which batches come after which) alone.
//!
//! # Batches
//!
//! The batches of a *generation* have *turns*, 0, 1, 2…, in the order in which they are delivered. Each is
//! *opened*, *finished* (it waits in the reorder buffer), *delivered* and *let go*, and each of these counts only
//! grows:
//!
//! ```text
//!   let go ≤ delivered ≤ opened ≤ let go + read-ahead
//! ```
//!
//! A batch is let go when it is delivered and then either the user gives a batch back or asks for the next one. A
//! loop like `for batch in loader` holds one batch while it takes the next, and drops it right after: to
//! open the next batch in between would cost memory for one more batch, for good. A loop that keeps its
//! batches lets each go when it asks for another. With a read-ahead of one, a batch is let go at once.
//! Where batches are large (`frugal`), asking lets nothing go while a batch is in work; so the batch in the user's
//! hands is one of those read ahead. A loop that then finds nothing begun, because it keeps what it has, is
//! from then on treated like any other.
//!
//! # Events
//!
//! | event | from | what changes | who is woken |
//! | --- | --- | --- | --- |
//! | `begin_epoch` | consumer | a new token; a new generation, unless what is in flight is that epoch's | all, and whoever waits with an old token |
//! | `ask`, `ask_again` | consumer | delivered batches are let go; the next one is delivered if it is there | a worker per batch let go, if a bunch has room |
//! | `open` | worker | bytes of the batch are set aside | – |
//! | `opened` | worker | opened + 1 | a worker per job, and one more if a bunch has room |
//! | `not_opened` | worker | the bytes are free again | who wants bytes |
//! | `passed_over` | worker | opened + 1, finished as an error | the consumer, as for `finished` |
//! | `pulled` | worker | loose bytes + n: the samples of an iterable dataset's next batch; where its iterator is then | – |
//! | `found_end` | worker | the epoch has so many batches; nothing is opened until the next one is begun | the consumer |
//! | `admit`, `release` | worker | a job of values of varying length is begun, or held back for want of bytes | – |
//! | `made` | worker | loose bytes + n; the oldest unfinished batch may move on | who wants bytes, or room in the window |
//! | `finished` | worker | the batch is in the reorder buffer | the consumer, if it waits and a bunch is there |
//! | `idle` | worker | the consumer need not wait for a whole bunch | the consumer, if anything is there |
//! | `reserve`, `unreserve` | worker | a large value of varying length is being made; idle bytes make way for it | – |
//! | `took`, `freed`, `returned`, `evicted` | pool | bytes change their column; a delivered block lets a batch go | who wants bytes; as for `ask` |
//! | `cancel`, `load` | consumer | a new generation of which nothing is wanted yet | whoever waits |
//! | `set_prefetch` | controller | the read-ahead; what was opened beyond a shorter one stays open | all |
//! | `stop` | anybody | nothing is accepted any more | all |
//!
//! # Why delivery goes on
//!
//! Who waits for a batch has asked for it, so all that were delivered are let go (or a batch is in work), and the
//! batch it waits for is open or may be opened: if nothing else is in flight that could make room, the budget
//! is not asked (`last_hope`). The oldest unfinished batch is always admitted, whatever the budget. Whoever was
//! refused for want of bytes has set `wants_bytes`, and every event that frees some, or makes another batch the
//! oldest, wakes somebody then. A worker looks after it has taken its ticket (see [`EventCount`]), so no wake-up
//! falls in between.
//!
//! # Who owns the next batch
//!
//! Whoever has the last token, and nobody else: the token is compared under the same lock under which the batch is
//! taken and the position moves on. So a thread that waits with an older token cannot take a batch of the epoch
//! that was begun meanwhile, even though it is of the same generation.

mod admission;
mod bunch;
mod bytes;
mod cursor;
mod effects;
mod event_count;
mod gate;
#[cfg(all(test, not(loom)))]
mod iterable_test;
mod ledger;
mod rules;
#[cfg(all(test, not(loom)))]
mod test;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::state::{BatchPlace, Course, Start};

use bytes::Bytes;
use effects::ALL;

pub(crate) use bunch::Bunch;
pub use bytes::MemoryStats;
pub(crate) use cursor::Cursor;
pub(crate) use effects::{Answer, BatchId, Effects, Finished, Opening};
pub(crate) use event_count::{EventCount, Ticket};
pub(crate) use gate::{Gate, Taken};
pub(crate) use ledger::{Charge, Ledger, Reservation};
pub(crate) use rules::Rules;

/// A batch whose samples are not all made.
struct Unfinished {
    turn: u64,
    samples_left: u64,
}

/// The state machine. `T` is a finished batch, `J` a job that is held back.
pub(crate) struct Flow<T, J> {
    rules: Rules,
    stopped: bool,
    /// Why, if not because the user wanted it.
    panicked: Option<Arc<str>>,
    generation: u64,
    cursor: Cursor,
    /// Which batch is opened next; `None` while nothing is wanted.
    next: Option<BatchPlace>,
    opened: u64,
    delivered: u64,
    let_go: u64,
    /// Whether the consumer waits for a batch.
    asked: bool,
    /// Whether the loop was seen to keep its batches, so that being frugal would stall it.
    keeps: bool,
    /// The reorder buffer: entry i is the batch of turn `delivered + i`.
    buffer: VecDeque<Option<Finished<T>>>,
    /// How many entries are there.
    ready: usize,
    /// How many finished batches the consumer sleeps for; 0 while it does not sleep.
    awaited: usize,
    /// Oldest first; kept where somebody asks for it: with loose bytes, and in ready order.
    unfinished: VecDeque<Unfinished>,
    /// Jobs that wait for bytes, by turn and in the order in which they came.
    held: BTreeMap<(u64, u64), J>,
    ever_held: u64,
    bytes: Bytes,
    /// Whether somebody was refused for want of bytes, or of room in the window, and is to be woken.
    wants_bytes: bool,
    bunch: Bunch,
    /// Where the iterator was after each batch that is not delivered; of iterable datasets alone.
    iterators: VecDeque<(u64, Option<Arc<str>>)>,
}

impl<T, J> Flow<T, J> {
    pub(crate) fn new(rules: Rules, course: Course, start: &Start) -> Flow<T, J> {
        Flow {
            stopped: false,
            panicked: None,
            generation: 0,
            cursor: Cursor::new(course, start),
            next: None,
            opened: 0,
            delivered: 0,
            let_go: 0,
            asked: false,
            keeps: false,
            buffer: VecDeque::new(),
            ready: 0,
            awaited: 0,
            unfinished: VecDeque::new(),
            held: BTreeMap::new(),
            ever_held: 0,
            bytes: Bytes::new(rules.budget, rules.batch_size),
            wants_bytes: false,
            bunch: rules.bunch,
            iterators: VecDeque::new(),
            rules,
        }
    }

    // ---- what others may know

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn memory(&self) -> MemoryStats {
        self.bytes.stats()
    }

    /// How many batches may be opened and not let go.
    pub(crate) fn read_ahead(&self) -> usize {
        self.rules.prefetch.saturating_mul(if self.rules.elastic { self.bunch.size() } else { 1 })
    }

    /// Whether it is over for good.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// How many finished batches wait.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// How many batches the holder of this token may still get, if nothing happens; `None` while nobody knows.
    pub(crate) fn left_of(&self, token: u64) -> Option<u64> {
        let cursor = &self.cursor;
        let is_over = self.stopped || token != cursor.token || cursor.ended == Some(token);
        if is_over || !cursor.running {
            return Some(0);
        }
        match self.rules.epochs {
            // One error says that there are no more.
            Some(epochs) if cursor.epoch >= epochs => Some(1),
            _ => cursor.left(),
        }
    }

    // ---- the consumer

    /// Begins the next epoch. Returns its token, and whether a new generation was begun for it.
    pub(crate) fn begin_epoch(&mut self) -> (u64, bool, Effects<T, J>) {
        let restarts = self.cursor.begin() && !self.stopped;
        // Whoever waits with an older token is told, and waits no longer.
        self.awaited = 0;
        let mut effects = Effects { wake_consumer: true, ..Effects::default() };
        if restarts {
            effects = self.restart(Some(self.cursor.place()));
            effects.wake_workers = ALL;
        }
        (self.cursor.token, restarts, effects)
    }

    /// The consumer asks for the next batch.
    pub(crate) fn ask(&mut self, token: u64, now_ns: u64) -> (Answer<T>, Effects<T, J>) {
        if let Some(answer) = self.refuse(token) {
            return (answer, Effects::default());
        }
        self.asked = true;
        let mut effects = self.let_go_by_asking();
        (self.take(now_ns, &mut effects), effects)
    }

    /// The consumer was woken, or has waited until the time it was told.
    pub(crate) fn ask_again(&mut self, token: u64, now_ns: u64) -> (Answer<T>, Effects<T, J>) {
        let mut effects = Effects::default();
        match self.refuse(token) {
            Some(answer) => (answer, effects),
            // It has slept for a bunch; whatever comes next is enough.
            None if self.awaited > 0 => {
                self.awaited = 1;
                (self.take(now_ns, &mut effects), effects)
            }
            None => (self.take(now_ns, &mut effects), effects),
        }
    }

    /// Whether the consumer has nothing to be told yet, though it was woken.
    pub(crate) fn is_pending(&self, token: u64) -> bool {
        let is_there = matches!(self.buffer.front(), Some(Some(_)));
        !is_there && !self.stopped && token == self.cursor.token && self.cursor.running
    }

    /// The consumer does not wait any longer, for now.
    pub(crate) fn left(&mut self, token: u64) {
        if token == self.cursor.token {
            self.awaited = 0;
        }
    }

    /// What there is to say instead of a batch.
    fn refuse(&mut self, token: u64) -> Option<Answer<T>> {
        let cursor = &mut self.cursor;
        if self.stopped {
            return Some(Answer::Closed(self.panicked.clone()));
        }
        if token != cursor.token {
            return Some(Answer::Superseded);
        }
        if !cursor.running || cursor.ended == Some(token) {
            return Some(Answer::End);
        }
        match self.rules.epochs {
            // An epoch that the loader was told not to begin: said once, then the epoch ends.
            Some(epochs) if cursor.epoch >= epochs => {
                cursor.ended = Some(token);
                Some(Answer::NoMoreEpochs(epochs))
            }
            _ => None,
        }
    }

    fn take(&mut self, now_ns: u64, effects: &mut Effects<T, J>) -> Answer<T> {
        let Some(Some(_)) = self.buffer.front() else {
            let bunch = self.bunch.size();
            let dozes = self.awaited == 0 && bunch > 1;
            self.awaited = if dozes { bunch } else { 1 };
            return Answer::Wait { until_ns: dozes.then(|| now_ns + bunch::DOZE_NS) };
        };
        let finished = self.buffer.pop_front().flatten().expect("it is there");
        self.ready -= 1;
        self.awaited = 0;
        self.asked = false;
        let is_known = self.iterators.front().is_some_and(|(turn, _)| *turn == self.delivered);
        let known = if is_known { self.iterators.pop_front() } else { None };
        self.cursor.iterator = known.and_then(|(_, iterator)| iterator);
        self.delivered += 1;
        self.cursor.step_past(&finished.positions);
        if self.rules.apart && self.cursor.ended == Some(self.cursor.token) {
            self.cursor.running = false;
        }
        self.bytes.deliver(finished.bytes);
        if self.rules.prefetch == 1 {
            effects.wake_workers = effects.wake_workers.saturating_add(self.let_go(1));
        }
        effects.wake_workers = effects.wake_workers.max(self.wake_for_bytes());
        Answer::Batch(finished.batch, self.ready)
    }

    fn let_go_by_asking(&mut self) -> Effects<T, J> {
        if self.rules.frugal && !self.keeps {
            if self.opened > self.delivered {
                return Effects::default();
            }
            if self.has_room() {
                // Who looked before had reason to wait for what the consumer holds.
                return Effects::wake(1);
            }
            self.keeps = true;
        }
        Effects::wake(self.let_go(u64::MAX))
    }

    /// Delivered batches count no longer. Returns how many workers to wake for it.
    fn let_go(&mut self, most: u64) -> usize {
        let batches = most.min(self.delivered - self.let_go);
        self.let_go += batches;
        // To wake somebody costs the consumer's thread more than all the rest here.
        let is_worth_it = batches > 0 && self.wanted().is_some() && self.has_room_for_a_bunch();
        if is_worth_it { batches as usize } else { 0 }
    }

    /// Ends the epoch early; nothing is wanted until the next one is begun. Returns whether it was running.
    pub(crate) fn cancel(&mut self, token: u64) -> Option<Effects<T, J>> {
        let cursor = &mut self.cursor;
        if self.stopped || cursor.token != token || !cursor.running || cursor.ended == Some(token) {
            return None;
        }
        cursor.running = false;
        Some(self.restart(None))
    }

    /// Goes on elsewhere with the next epoch that is begun.
    pub(crate) fn load(&mut self, course: Course, start: &Start) -> Effects<T, J> {
        self.cursor.jump(course, start);
        self.restart(None)
    }

    /// Ends everything, perhaps because a thread of the loader's own panicked.
    pub(crate) fn stop(&mut self, panicked: Option<Arc<str>>) -> Effects<T, J> {
        if !std::mem::replace(&mut self.stopped, true) {
            self.panicked = panicked;
        }
        let mut effects = self.restart(None);
        effects.wake_workers = ALL;
        effects
    }

    /// Begins a new generation at `next`.
    fn restart(&mut self, next: Option<BatchPlace>) -> Effects<T, J> {
        self.generation += 1;
        self.next = next;
        self.opened = 0;
        self.delivered = 0;
        self.let_go = 0;
        self.asked = false;
        self.keeps = false;
        self.ready = 0;
        self.awaited = 0;
        self.unfinished.clear();
        self.iterators.clear();
        self.wants_bytes = false;
        let buffer = std::mem::take(&mut self.buffer);
        let batches = buffer.into_iter().flatten().map(|finished| finished.batch).collect();
        let held = std::mem::take(&mut self.held).into_values().collect();
        Effects { wake_consumer: true, dropped: (batches, held), ..Effects::default() }
    }

    /// Reads so many batches ahead from now on, or bunches of them. Fewer than before are reached as batches are let go.
    pub(crate) fn set_prefetch(&mut self, batches: usize) -> Effects<T, J> {
        if batches == self.rules.prefetch {
            return Effects::default();
        }
        // Being frugal is for two batches and no more.
        self.rules.frugal &= batches < self.rules.prefetch;
        self.rules.prefetch = batches.max(1);
        Effects::wake(ALL)
    }

    // ---- opening

    /// A worker would open the next batch.
    pub(crate) fn open(&mut self) -> Opening {
        if self.stopped {
            return Opening::Stopped;
        }
        let Some(BatchPlace { epoch, number }) = self.wanted() else { return Opening::Nothing };
        if !self.has_room() {
            return Opening::Full;
        }
        let last_hope = self.opened == if self.asked { self.delivered } else { self.let_go };
        if !last_hope && !self.batch_fits() {
            self.wants_bytes = true;
            return Opening::Full;
        }
        if let Some(window) = self.rules.window {
            let oldest = self.unfinished.front().map_or(self.opened, |oldest| oldest.turn);
            if self.opened - oldest >= window {
                self.wants_bytes = true;
                return Opening::Nothing;
            }
        }
        self.bytes.add(self.rules.batch_bytes);
        let id = BatchId { generation: self.generation, turn: self.opened, epoch, number };
        let iterator = self.cursor.iterator.clone().filter(|_| id.turn == 0);
        Opening::Batch { id, course: self.cursor.course.clone(), last_hope, iterator }
    }

    /// The samples of the batch that is about to be opened were taken from an iterator, which is then where it says.
    /// They take so many bytes, the largest of them so many. Returns how many are booked.
    pub(crate) fn pulled(
        &mut self,
        id: BatchId,
        bytes: u64,
        largest: u64,
        iterator: Option<Arc<str>>,
    ) -> (u64, Effects<T, J>) {
        if id.generation == self.generation {
            self.iterators.push_back((id.turn, iterator));
        }
        self.made((id.generation, id.turn), 0, bytes, largest)
    }

    /// The iterator has no more samples: the epoch has so many batches, all of which were opened. `None` if its
    /// generation is over.
    pub(crate) fn found_end(&mut self, generation: u64, batches: u64) -> Option<Effects<T, J>> {
        if generation != self.generation || self.stopped {
            return None;
        }
        debug_assert_eq!(self.next.map(|next| next.number), Some(batches));
        let has_next = self.rules.epochs.is_none_or(|epochs| self.cursor.epoch + 1 < epochs);
        let goes_on = self.cursor.found_end(batches, has_next);
        self.next = goes_on.then_some(BatchPlace { epoch: self.cursor.epoch, number: 0 });
        let wake_workers = usize::from(goes_on);
        Some(Effects { wake_consumer: !goes_on, wake_workers, ..Effects::default() })
    }

    /// What was set aside for a batch is not used: it could not be opened, or its block accounts for itself.
    pub(crate) fn not_opened(&mut self) -> Effects<T, J> {
        self.freed(self.rules.batch_bytes)
    }

    /// A batch was opened, of so many samples in so many jobs. `None` if its generation is over.
    pub(crate) fn opened(
        &mut self,
        id: BatchId,
        samples: u64,
        jobs: usize,
    ) -> Option<Effects<T, J>> {
        if id.generation != self.generation || self.stopped {
            return None;
        }
        self.track(id, samples);
        self.step_past(id);
        // The opener takes one job itself; one more is woken if another batch may be opened.
        let more = usize::from(self.has_room_for_a_bunch());
        Some(Effects::wake(jobs.saturating_sub(1).saturating_add(more)))
    }

    /// A batch could not be opened, and is delivered as an error.
    pub(crate) fn passed_over(
        &mut self,
        id: BatchId,
        failed: Finished<T>,
    ) -> Result<Effects<T, J>, Finished<T>> {
        if id.generation == self.generation && !self.stopped {
            self.track(id, 0);
            self.step_past(id);
        }
        self.finished(id, failed, None)
    }

    fn track(&mut self, id: BatchId, samples: u64) {
        if self.rules.loose || self.rules.window.is_some() {
            self.unfinished.push_back(Unfinished { turn: id.turn, samples_left: samples });
            self.drop_finished();
        }
    }

    fn drop_finished(&mut self) {
        while self.unfinished.front().is_some_and(|oldest| oldest.samples_left == 0) {
            self.unfinished.pop_front();
        }
    }

    fn step_past(&mut self, id: BatchId) {
        debug_assert_eq!((id.turn, Some(id.place())), (self.opened, self.next));
        self.opened += 1;
        self.next = Some(match id.number + 1 < self.cursor.course.batches(id.epoch) {
            true => BatchPlace { epoch: id.epoch, number: id.number + 1 },
            false => BatchPlace { epoch: id.epoch + 1, number: 0 },
        });
    }

    /// Which batch is opened next: none after the last epoch, and while nothing is asked for.
    fn wanted(&self) -> Option<BatchPlace> {
        let limit = self.rules.epochs.unwrap_or(u64::MAX);
        let is_begun = |epoch| self.cursor.running && epoch == self.cursor.epoch;
        self.next.filter(|next| next.epoch < limit && (!self.rules.apart || is_begun(next.epoch)))
    }

    fn has_room(&self) -> bool {
        self.read_ahead() as u64 > self.opened - self.let_go
    }

    fn has_room_for_a_bunch(&self) -> bool {
        let room = (self.read_ahead() as u64).saturating_sub(self.opened - self.let_go);
        room >= self.bunch.size() as u64
    }

    /// Whether the next batch fits the budget beside what is there and what is still to come.
    fn batch_fits(&self) -> bool {
        // What an iterator gives is there before it is made, and for a moment beside what is made of it.
        let copies = if self.rules.iterated { 2 } else { 1 };
        let Some(loose) = self.to_come(u64::MAX, self.rules.batch_size.saturating_mul(copies))
        else {
            return self.opened == self.delivered;
        };
        self.bytes.fits(self.rules.batch_bytes.saturating_add(loose))
    }

    // ---- finished batches

    /// A batch is finished; it is known what one costs. It comes back if nobody wants it any more.
    pub(crate) fn finished(
        &mut self,
        id: BatchId,
        finished: Finished<T>,
        batch_ns: Option<f64>,
    ) -> Result<Effects<T, J>, Finished<T>> {
        if self.stopped || id.generation != self.generation || id.turn < self.delivered {
            return Err(finished);
        }
        if let Some(batch_ns) = batch_ns {
            self.bunch.learn(batch_ns);
        }
        let place = (id.turn - self.delivered) as usize;
        if self.buffer.len() <= place {
            self.buffer.resize_with(place + 1, || None);
        }
        self.buffer[place] = Some(finished);
        self.ready += 1;
        Ok(Effects { wake_consumer: self.is_enough(), ..Effects::default() })
    }

    /// A worker has nothing left to do: the consumer need not wait for more than there is.
    pub(crate) fn idle(&mut self) -> Effects<T, J> {
        if self.awaited <= 1 {
            return Effects::default();
        }
        self.awaited = 1;
        Effects { wake_consumer: self.is_enough(), ..Effects::default() }
    }

    /// Whether the consumer sleeps and what it sleeps for is there.
    fn is_enough(&self) -> bool {
        let is_there = matches!(self.buffer.front(), Some(Some(_)));
        is_there && self.awaited > 0 && self.ready >= self.awaited
    }
}
