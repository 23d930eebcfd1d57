//! How far ahead of the consumer work is begun.
//!
//! A batch may be [opened](super::open) while
//! * fewer than `prefetch` batches (or [bunches](super::bunch) of small ones) are opened and not let go, and
//! * its block fits the byte budget (or nothing else could make room), and
//! * in `ready` order, the oldest sample that is not done is within the window.
//!
//! A batch is let go when it is delivered and then either the user gives a batch back or asks for the next
//! one. A loop like `for batch in loader` holds one batch while it takes the next, and drops it right
//! after: to open the next batch in between would cost memory for one more batch, for good, and begin it in
//! memory that no cache knows. A loop that keeps its batches lets each go when it asks for another. Why this
//! cannot stop delivery: who waits for a batch has asked for it, so all that were delivered are let go, and
//! the batch it waits for is open or may be opened. (With a read-ahead of one, a batch is let go at once, or
//! a loop that keeps its batches would never find one begun.) Where memory is dear, what was delivered is
//! not let go by asking for a batch that is open already, unless the [spare](super::spare) batch pays.
//!
//! Workers that found no room are woken when there is room for a whole bunch. That is so at the latest when
//! the consumer has let go of everything that was opened, whatever the size of a bunch is by then: where there
//! are workers, read-ahead is no less than a bunch. While somebody is on the [lookout](super::lookout) for room,
//! nobody is woken for a single batch, unless the consumer finds nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::Engine;
use crate::schedule::Job;
use crate::sync::{MutexGuard, lock};
use crate::work::{Lot, Work};

use super::Course;
use super::lookout::Lookout;
use super::spare::{Spare, pays};

/// What is opened next, and how much is under way.
pub(crate) struct Ahead {
    pub(super) generation: u64,
    pub(super) course: Course,
    /// Where the next batch is; `None` while nothing is wanted.
    next: Option<(u64, u64)>,
    pub(super) opened: u64,
    delivered: u64,
    /// At most `delivered`.
    let_go: u64,
    /// Whether the consumer waits for a batch.
    asked: bool,
    spare: Spare,
    pub(crate) lookout: Lookout,
    pub(super) stopped: bool,
    /// Whether somebody is making the next epoch's plan.
    pub(super) planning: bool,
    /// `ready` order: lots with samples that are not done, oldest first.
    pub(super) unfinished: VecDeque<Arc<Lot>>,
}

impl Ahead {
    pub(crate) fn new(course: Course) -> Ahead {
        Ahead {
            generation: 0,
            course,
            next: None,
            opened: 0,
            delivered: 0,
            let_go: 0,
            asked: false,
            spare: Spare::default(),
            lookout: Lookout::default(),
            stopped: false,
            planning: false,
            unfinished: VecDeque::new(),
        }
    }

    /// Takes another course, with the next generation.
    pub(crate) fn take_course(&mut self, course: Course) {
        self.course = course;
    }

    /// The arrangement of an epoch, for those who need it rarely.
    pub(crate) fn course(&self) -> &Course {
        &self.course
    }

    /// Begins a new generation at `next`. Returns its number.
    pub(crate) fn restart(&mut self, next: Option<(u64, u64)>) -> u64 {
        self.generation += 1;
        self.next = next;
        self.opened = 0;
        self.delivered = 0;
        self.let_go = 0;
        self.asked = false;
        self.spare = Spare::default();
        self.lookout.restart();
        self.unfinished.clear();
        self.generation
    }

    /// Whether read-ahead allows for one more.
    pub(super) fn has_room(&self, engine: &Engine) -> bool {
        self.room_for(1, engine.read_ahead())
    }

    /// Whether read-ahead allows for a whole bunch more.
    pub(super) fn is_roomy(&self, engine: &Engine) -> bool {
        let bunch = engine.bunch.size();
        self.room_for(bunch, engine.read_ahead_in(bunch))
    }

    /// How many batches are opened and not delivered.
    pub(super) fn in_flight(&self) -> u64 {
        self.opened - self.delivered
    }

    fn room_for(&self, batches: usize, read_ahead: usize) -> bool {
        read_ahead.saturating_sub((self.opened - self.let_go) as usize) >= batches
    }

    /// Whether nothing else can make room for the next batch: none is in work, and the consumer gives none
    /// back, since it waits for this one.
    pub(super) fn is_last_hope(&self) -> bool {
        self.opened == if self.asked { self.delivered } else { self.let_go }
    }

    /// Ends everything. Returns the last generation, of which there is nothing.
    pub(crate) fn stop(&mut self) -> u64 {
        self.stopped = true;
        self.restart(None)
    }
}

impl Engine {
    /// How many batches are begun ahead.
    pub(crate) fn read_ahead(&self) -> usize {
        self.read_ahead_in(self.bunch.size())
    }

    /// The same with bunches of a certain size.
    fn read_ahead_in(&self, bunch: usize) -> usize {
        self.settings.prefetch * if self.settings.elastic { bunch } else { 1 }
    }

    /// Moves on to the batch after (`epoch`, `number`).
    pub(super) fn step_past(&self, ahead: &mut Ahead, epoch: u64, number: u64) {
        ahead.opened += 1;
        ahead.next = Some(match number + 1 < ahead.course.batches(epoch) {
            true => (epoch, number + 1),
            false => (epoch + 1, 0),
        });
    }

    /// Queues a job again, unless its generation is over.
    pub(crate) fn submit_again(&self, generation: u64, job: Job<Work>) {
        let ahead = lock(&self.ahead);
        if ahead.generation == generation {
            self.policy.submit(&mut vec![job]);
            drop(ahead);
            self.bell.ring_all();
        }
    }

    /// The consumer took a batch, which took so long to fill.
    pub(crate) fn count_delivered(&self, generation: u64, building_ns: u64, now_ns: u64) {
        let mut ahead = lock(&self.ahead);
        if ahead.generation == generation {
            ahead.delivered += 1;
            ahead.asked = false;
            if self.settings.prefetch == 1 {
                self.let_go(ahead, 1, now_ns);
            } else if self.settings.frugal {
                let busy = self.settings.workers.min(self.settings.cores);
                let pays = pays(busy, self.plan.batch_size(), building_ns as f64);
                ahead.spare.delivered(now_ns, pays);
            }
        }
    }

    /// The consumer asks for a batch: whatever it took before is let go, or only what comes back.
    pub(crate) fn count_asked(&self, generation: u64, now_ns: u64) {
        let mut ahead = lock(&self.ahead);
        if ahead.generation != generation {
            return;
        }
        ahead.asked = true;
        if self.settings.frugal && !ahead.spare.is_used() {
            if ahead.opened > ahead.delivered {
                return;
            }
            if ahead.has_room(self) {
                drop(ahead);
                // Who looked before had reason to wait for what the consumer holds.
                return self.bell.ring(1);
            }
            ahead.spare.found_nothing();
        }
        self.let_go(ahead, u64::MAX, now_ns);
    }

    /// The user gave memory back. (Of whichever generation: to let go of one too many too early only
    /// costs memory.)
    pub(crate) fn count_returned(&self) {
        let now_ns = self.now_ns();
        let mut ahead = lock(&self.ahead);
        if self.settings.frugal && ahead.delivered - ahead.let_go > 1 {
            ahead.spare.came_back(now_ns);
        }
        self.let_go(ahead, 1, now_ns);
    }

    /// As many batches may be opened, if there are any to open.
    fn let_go(&self, mut ahead: MutexGuard<'_, Ahead>, most: u64, now_ns: u64) {
        let batches = most.min(ahead.delivered - ahead.let_go);
        if batches == 0 {
            return;
        }
        ahead.let_go += batches;
        ahead.lookout.let_go(now_ns);
        let is_wanted = self.next_wanted(&ahead).is_some();
        let is_roomy = ahead.is_roomy(self);
        let is_expected = ahead.lookout.is_kept() && !ahead.room_for(2, self.read_ahead());
        drop(ahead);
        // To wake somebody costs this thread, the training loop's, more than all the rest here.
        if is_wanted && is_roomy && !is_expected {
            self.bell.ring(batches as usize);
        }
    }

    /// Which batch is opened next: none after the last epoch, and while nothing is asked for.
    pub(super) fn next_wanted(&self, ahead: &Ahead) -> Option<(u64, u64)> {
        let limit = self.settings.epochs.unwrap_or(u64::MAX);
        ahead.next.filter(|(epoch, _)| *epoch < limit)
    }
}
