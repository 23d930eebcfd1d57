//! Where delivery is, and who may go on with it.

use crate::state::{Course, Start, Undelivered};

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
        }
    }

    /// Gives out a token for the next epoch. Returns whether what is in flight is not its batches.
    pub(super) fn begin(&mut self) -> bool {
        self.token += 1;
        if self.begun {
            // Left half-way.
            self.next_epoch();
            self.running = false;
        }
        !std::mem::replace(&mut self.running, true)
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
        if self.number == self.course.batches(self.epoch) {
            self.next_epoch();
            self.ended = Some(self.token);
        }
    }

    fn next_epoch(&mut self) {
        self.epoch += 1;
        self.number = 0;
        self.begun = false;
        self.undelivered = Undelivered::default();
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
