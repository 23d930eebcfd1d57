//! The consumer gets batches in their order, and leaves when it is told to.

use loom::sync::Arc;
use loom::thread;

use crate::deliver::{Shelf, Taken};

use super::explore;

#[test]
fn batches_put_by_two_workers_are_taken_in_order() {
    explore(3, || {
        let shelf = Arc::new(Shelf::new());
        let workers: Vec<_> = [&[1][..], &[2, 0]]
            .into_iter()
            .map(|numbers| {
                let shelf = Arc::clone(&shelf);
                thread::spawn(move || {
                    for number in numbers {
                        shelf.put(0, *number, *number).expect("nobody restarts");
                    }
                })
            })
            .collect();
        for number in 0..3 {
            assert!(matches!(shelf.take(0, None, 1), Taken::Item(n, _) if n == number));
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(shelf.full(), 0);
    });
}

#[test]
fn who_waits_for_a_bunch_wakes_when_it_is_there() {
    explore(3, || {
        let shelf = Arc::new(Shelf::new());
        let workers: Vec<_> = [1, 0]
            .into_iter()
            .map(|number| {
                let shelf = Arc::clone(&shelf);
                thread::spawn(move || shelf.put(0, number, number).expect("nobody restarts"))
            })
            .collect();
        assert!(matches!(shelf.take(0, None, 2), Taken::Item(0, _)));
        assert!(matches!(shelf.take(0, None, 1), Taken::Item(1, 0)));
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn who_waits_for_a_bunch_wakes_when_there_is_no_more_to_come() {
    explore(3, || {
        let shelf = Arc::new(Shelf::new());
        let worker = thread::spawn({
            let shelf = Arc::clone(&shelf);
            move || {
                shelf.put(0, 0, ()).expect("nobody restarts");
                shelf.nudge();
            }
        });
        assert!(matches!(shelf.take(0, None, 2), Taken::Item((), 0)));
        worker.join().unwrap();
    });
}

/// A consumer waits for batch 0 and a worker brings it, while `end` ends the run. Checks that the
/// batch is in one place afterwards; returns what the consumer came back with if it was not that.
fn ended(end: impl Fn(&Shelf<&'static str>) -> usize) -> Option<Taken<&'static str>> {
    let shelf = Arc::new(Shelf::new());
    let consumer = thread::spawn({
        let shelf = Arc::clone(&shelf);
        move || shelf.take(0, None, 1)
    });
    let worker = thread::spawn({
        let shelf = Arc::clone(&shelf);
        move || shelf.put(0, 0, "batch")
    });
    let dropped = end(&shelf);
    let refused = worker.join().unwrap().is_err();
    let taken = consumer.join().unwrap();
    let delivered = taken == Taken::Item("batch", 0);
    assert_eq!(dropped + usize::from(refused) + usize::from(delivered), 1);
    (!delivered).then_some(taken)
}

#[test]
fn a_restart_supersedes_the_waiting_consumer_and_refuses_the_late_batch() {
    explore(3, || {
        let left = ended(|shelf| shelf.restart(1).iter().flatten().count());
        assert!(matches!(left, None | Some(Taken::Superseded)));
    });
}

#[test]
fn closing_ends_the_waiting_consumer_and_refuses_the_late_batch() {
    explore(3, || {
        let left = ended(|shelf| shelf.close().iter().flatten().count());
        assert!(matches!(left, None | Some(Taken::Closed)));
    });
}

#[test]
fn the_next_consumer_gets_the_new_generation_alone() {
    explore(3, || {
        let shelf = Arc::new(Shelf::new());
        let worker = thread::spawn({
            let shelf = Arc::clone(&shelf);
            move || {
                // Each is refused on the wrong side of the restart.
                let _ = shelf.put(0, 0, "old");
                let _ = shelf.put(1, 0, "new");
            }
        });
        drop(shelf.restart(1));
        worker.join().unwrap();
        if let Some(taken) = shelf.try_take(1) {
            assert_eq!(taken, Taken::Item("new", 0));
        }
        assert_eq!(shelf.try_take(0), Some(Taken::Superseded));
    });
}
