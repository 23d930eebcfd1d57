//! No wake-up is lost, however the notification and the look for work interleave.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::flow::EventCount;

use super::explore;

/// Jobs as a bare count. Relaxed throughout, so that whatever a worker must see it sees by the event count.
struct Shop {
    events: EventCount,
    jobs: AtomicUsize,
    done: AtomicUsize,
}

impl Shop {
    fn new() -> Arc<Shop> {
        let zero = || AtomicUsize::new(0);
        Arc::new(Shop { events: EventCount::new(), jobs: zero(), done: zero() })
    }

    fn queue(&self, jobs: usize) {
        self.jobs.fetch_add(jobs, Ordering::Relaxed);
        self.events.notify(jobs);
    }

    fn take(&self) -> bool {
        let fewer = |jobs: usize| jobs.checked_sub(1);
        // A load first, as the queues have one: an update alone would always see the newest count.
        self.jobs.load(Ordering::Relaxed) > 0
            && self.jobs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok()
    }

    /// Works until `all` jobs are done by anybody.
    fn work(&self, all: usize) {
        loop {
            let ticket = self.events.ticket();
            if self.take() {
                if self.done.fetch_add(1, Ordering::Relaxed) + 1 == all {
                    self.events.notify(usize::MAX);
                }
            // An update sees the newest count: this one is the model's, the event count need not publish it.
            } else if self.done.fetch_add(0, Ordering::Relaxed) == all {
                return;
            } else {
                self.events.wait(ticket);
            }
        }
    }
}

#[test]
fn a_worker_that_is_about_to_sleep_is_woken() {
    explore(3, || {
        let shop = Shop::new();
        let worker = thread::spawn({
            let shop = Arc::clone(&shop);
            move || shop.work(1)
        });
        shop.queue(1);
        worker.join().unwrap();
    });
}

#[test]
fn a_notification_publishes_what_was_queued_before_it() {
    explore(3, || {
        let shop = Shop::new();
        let before = shop.events.ticket();
        let notifier = thread::spawn({
            let shop = Arc::clone(&shop);
            move || shop.queue(1)
        });
        if shop.events.ticket() != before {
            assert!(shop.take(), "it was seen, so the job is there");
        }
        notifier.join().unwrap();
    });
}

#[test]
fn two_notifications_for_one_each_serve_two_sleepers() {
    explore(2, || {
        let shop = Shop::new();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shop = Arc::clone(&shop);
                thread::spawn(move || {
                    // Each leaves after one job, so neither can do the other's.
                    loop {
                        let ticket = shop.events.ticket();
                        if shop.take() {
                            return;
                        }
                        shop.events.wait(ticket);
                    }
                })
            })
            .collect();
        shop.queue(1);
        shop.queue(1);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn a_notification_for_fewer_than_sleep_wakes_one() {
    explore(3, || {
        let shop = Shop::new();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shop = Arc::clone(&shop);
                thread::spawn(move || shop.work(1))
            })
            .collect();
        shop.queue(1);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn a_worker_that_comes_back_to_sleep_takes_no_ones_wake_up() {
    explore(2, || {
        let shop = Shop::new();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shop = Arc::clone(&shop);
                thread::spawn(move || shop.work(2))
            })
            .collect();
        shop.queue(1);
        shop.queue(1);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}
