//! Where delivery is, and who may go on with it.

use std::sync::Arc;

use crate::state::{BatchPlace, Course, Start, Undelivered};

/// Where delivery is: which batch is next, and whose it is.
pub(crate) struct Cursor {
    /// The token given out last: older ones are void.
    pub(super) token: u64,
    /// The epoch being delivered or, between epochs, the next one.
    pub(crate) epoch: u64,
    /// The next batch of it.
    pub(crate) number: u64,
    pub(crate) course: Course,
    /// Which positions of the epoch are not delivered.
    pub(crate) undelivered: Undelivered,
    /// Whether a batch of the epoch was delivered since it was begun or resumed.
    begun: bool,
    /// Whether work goes on towards (`epoch`, `number`).
    pub(super) running: bool,
    /// The token whose epoch was delivered to its end.
    pub(super) ended: Option<u64>,
    /// Of an iterable dataset: how many batches the epoch has, once its end was found.
    end: Option<u64>,
    /// Where its iterator was after what was delivered, where it can tell.
    pub(crate) iterator: Option<Arc<str>>,
}

impl Cursor {
    pub(super) fn new(course: Course, start: &Start) -> Cursor {
        Cursor {
            token: 0,
            epoch: start.epoch,
            number: start.number,
            undelivered: undelivered(&course, start),
            course,
            begun: false,
            running: false,
            ended: None,
            end: None,
            iterator: start.iterator.clone(),
        }
    }

    /// The batch that is next.
    pub(crate) fn place(&self) -> BatchPlace {
        BatchPlace { epoch: self.epoch, number: self.number }
    }

    /// How many batches are left of the epoch; `None` while nobody knows.
    pub(crate) fn left(&self) -> Option<u64> {
        let batches = match self.course.is_unbounded() {
            true => self.end?,
            false => self.course.batches(self.epoch),
        };
        Some(batches - self.number)
    }

    /// Gives out a token for the next epoch. Returns whether what is in flight is not its batches.
    pub(super) fn begin(&mut self) -> bool {
        self.token += 1;
        if self.begun {
            // Left half-way.
            self.next_epoch();
            self.running = false;
        }
        let restarts = !std::mem::replace(&mut self.running, true);
        if restarts {
            // An iterator that is asked anew may end elsewhere, and nothing of it is opened before that is found.
            self.end = None;
        }
        restarts
    }

    /// The epoch that is begun next; the rest of one that a state was loaded in counts as such.
    pub(crate) fn upcoming(&self) -> u64 {
        self.epoch + u64::from(self.begun)
    }

    /// A batch with these positions, or simply with the next ones, was delivered.
    pub(super) fn step_past(&mut self, positions: &[u64]) {
        match positions {
            [] => {
                let range = self.course.batch_range(self.epoch, self.number);
                self.undelivered.up_to(range.end);
            }
            positions => self.undelivered.mark(positions),
        }
        self.number += 1;
        self.begun = true;
        self.end_if_over();
    }

    /// The end of an iterable dataset was found: the epoch has so many batches. Returns whether that leaves nothing
    /// of an epoch that was resumed; then it was over when its state was taken, and the next one, if there is to be
    /// one, is begun instead.
    pub(super) fn found_end(&mut self, batches: u64, has_next: bool) -> bool {
        if self.number == batches && batches > 0 && !self.begun && has_next {
            self.next_epoch();
            return true;
        }
        self.end = Some(batches);
        self.end_if_over();
        false
    }

    fn end_if_over(&mut self) {
        if self.left() != Some(0) {
            return;
        }
        // Nothing of the next epoch is begun where the end of this one had to be found.
        self.running = self.end.is_none();
        self.next_epoch();
        self.ended = Some(self.token);
    }

    fn next_epoch(&mut self) {
        self.epoch += 1;
        self.number = 0;
        self.begun = false;
        self.undelivered = Undelivered::default();
        self.end = None;
        self.iterator = None;
    }

    /// Goes on elsewhere; all tokens become void.
    pub(super) fn jump(&mut self, course: Course, start: &Start) {
        let token = self.token + 1;
        *self = Cursor { token, ..Cursor::new(course, start) };
    }
}

/// What is not delivered where a loader begins.
fn undelivered(course: &Course, start: &Start) -> Undelivered {
    match &start.segment {
        Some(segment) => Undelivered::from(&segment.own),
        None => {
            let mut undelivered = Undelivered::default();
            undelivered.up_to(course.batch_range(start.epoch, start.number).start);
            undelivered
        }
    }
}
