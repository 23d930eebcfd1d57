//! A worker that is parked takes no wake-up with it, and wakes when its seat is opened or the loader stops.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::crew::Seats;
use crate::flow::EventCount;

use super::explore;

/// One job, two workers, and where they sleep.
struct Shop {
    events: EventCount,
    seats: Seats,
    jobs: AtomicUsize,
    over: AtomicUsize,
}

impl Shop {
    /// As `take_jobs` of the crew does: parks or takes a step.
    fn work(&self, worker: usize) {
        loop {
            // An update sees the newest count: that it is over is the model's, nobody need publish it.
            let is_over = || self.over.fetch_add(0, Ordering::Relaxed) > 0;
            if self.seats.is_parked(worker) {
                self.events.notify(usize::MAX);
                if is_over() {
                    return;
                }
                self.seats.park(worker);
                continue;
            }
            let ticket = self.events.ticket();
            let fewer = |jobs: usize| jobs.checked_sub(1);
            let is_there = self.jobs.load(Ordering::Relaxed) > 0;
            if is_there
                && self.jobs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok()
            {
                self.over.fetch_add(1, Ordering::Relaxed);
                self.seats.stop();
                self.events.notify(usize::MAX);
            }
            if is_over() {
                return;
            }
            self.events.wait(ticket);
        }
    }
}

/// Two workers and a job for one of them, while `meanwhile` opens and closes seats.
fn job_is_done(open: usize, meanwhile: fn(&Seats)) {
    explore(2, move || {
        let shop = Arc::new(Shop {
            events: EventCount::new(),
            seats: Seats::new(open),
            jobs: AtomicUsize::new(0),
            over: AtomicUsize::new(0),
        });
        let workers = [0, 1].map(|worker| {
            let shop = Arc::clone(&shop);
            thread::spawn(move || shop.work(worker))
        });
        shop.jobs.fetch_add(1, Ordering::Relaxed);
        shop.events.notify(1);
        meanwhile(&shop.seats);
        shop.events.notify(usize::MAX);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn a_job_is_done_though_a_worker_is_parked_meanwhile() {
    job_is_done(2, |seats| {
        seats.set(1);
    });
}

#[test]
fn a_worker_whose_seat_is_opened_comes_back() {
    job_is_done(1, |seats| {
        seats.set(2);
    });
}
