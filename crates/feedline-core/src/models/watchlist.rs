//! A sample's fate is decided once: by its worker or by the watcher.

use std::sync::Arc as StdArc;
use std::time::{Duration, Instant};

use loom::sync::Arc;
use loom::thread;

use crate::flow::BatchId;
use crate::plan::SampleIndex;
use crate::state::Positions;
use crate::work::watchlist::Note;
use crate::work::{Attempt, Lot, Watchlist};

use super::explore;

const LIMIT: Duration = Duration::from_millis(1);

/// A lot of one sample.
pub(super) fn lot() -> StdArc<Lot> {
    StdArc::new(Lot {
        id: BatchId { generation: 0, turn: 0, epoch: 0, number: 0 },
        indices: vec![SampleIndex(0)],
        repeats: Vec::new(),
        positions: Positions::From(0),
        pulled: None,
        draft: None,
    })
}

/// A note that was overdue from the start: loom explores the moments, the clock has no part in it.
fn note(slot: u32) -> Note {
    let since = Instant::now().checked_sub(2 * LIMIT).expect("the clock is older than that");
    Note { lot: lot(), slot, attempt: Attempt::default(), since }
}

#[test]
fn either_the_worker_or_the_watcher_takes_the_note() {
    explore(3, || {
        let list = Arc::new(Watchlist::new(1));
        let worker = thread::spawn({
            let list = Arc::clone(&list);
            move || {
                let number = list.begin(0, note(0));
                list.finish(0, number)
            }
        });
        let given_up = list.overdue(LIMIT).len();
        let placed = worker.join().unwrap();
        assert_eq!(usize::from(placed) + given_up, 1);
    });
}

#[test]
fn a_worker_that_comes_back_late_leaves_its_successors_note_alone() {
    explore(3, || {
        let list = Arc::new(Watchlist::new(1));
        let number = list.begin(0, note(0));
        let late = thread::spawn({
            let list = Arc::clone(&list);
            move || list.finish(0, number)
        });
        let given_up = list.overdue(LIMIT);
        if given_up.is_empty() {
            assert!(late.join().unwrap(), "it was not late");
            return;
        }
        // The successor sits at the same place.
        let number = list.begin(0, note(1));
        assert!(list.finish(0, number), "nobody gave up the successor's sample");
        assert!(!late.join().unwrap(), "its sample was given up");
    });
}

#[test]
fn closing_wakes_the_watcher() {
    explore(3, || {
        let list = Arc::new(Watchlist::new(0));
        let watcher = thread::spawn({
            let list = Arc::clone(&list);
            // loom's time stands still: only `close` ends the rest.
            move || while !list.rest(LIMIT) {}
        });
        list.close();
        watcher.join().unwrap();
    });
}
