//! Samples that are anybody's, and the place where they are put.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::cells::Cell;

#[test]
fn each_sample_is_claimed_once_and_an_old_serial_claims_nothing() {
    loom::model(|| {
        let cells = Arc::new([Cell::default(), Cell::default()]);
        cells.iter().for_each(|cell| cell.store(2 << 16));
        let workers = [1, 2].map(|worker| {
            let cells = Arc::clone(&cells);
            thread::spawn(move || {
                // It still knows the batch that had these cells before.
                assert!(!cells[0].exchange(1 << 16, 1 << 16 | worker));
                cells.iter().filter(|cell| cell.exchange(2 << 16, 2 << 16 | worker)).count()
            })
        });
        let claimed: usize = workers.map(|worker| worker.join().unwrap()).iter().sum();
        assert_eq!(claimed, 2);
        assert!(cells.iter().all(|cell| matches!(cell.load() & 0xFFFF, 1 | 2)));
    });
}

#[test]
fn all_fill_one_place_and_see_how_it_begins() {
    loom::model(|| {
        let shared = Arc::new((Cell::default(), [AtomicU64::new(0), AtomicU64::new(0)]));
        let workers = [1_u64, 2].map(|worker| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (place, extents) = &*shared;
                // Its own extent begins with what is in it; then it is offered.
                extents[worker as usize - 1].store(7, Ordering::Relaxed);
                place.exchange(0, worker);
                let found = place.load();
                assert_eq!(extents[found as usize - 1].load(Ordering::Relaxed), 7);
                found
            })
        });
        let [a, b] = workers.map(|worker| worker.join().unwrap());
        assert_eq!(a, b);
    });
}
