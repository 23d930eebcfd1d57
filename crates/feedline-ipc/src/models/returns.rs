//! Extents on their way back.

use loom::sync::Arc;
use loom::thread;

use crate::returns::{ExtentHeader, Returns};

#[derive(Default)]
struct Arena {
    returns: Returns,
    headers: [ExtentHeader; 2],
}

impl Arena {
    /// Extents are numbered from 1.
    fn give_back(&self, extent: u64) {
        self.returns.give_back(extent, &self.headers[extent as usize - 1]);
    }

    fn collect(&self, loans: &mut [u32; 2]) {
        self.returns.collect(
            2,
            |extent| (extent as usize).checked_sub(1).map(|i| &self.headers[i]),
            |extent, n| loans[extent as usize - 1] += n,
        );
    }
}

#[test]
fn every_loan_comes_back_once() {
    loom::model(|| {
        let arena = Arc::new(Arena::default());
        // Extent 1 is lent twice, extent 2 once; two threads of the borrower let go of them.
        let threads = [vec![1, 2], vec![1]].map(|extents| {
            let arena = Arc::clone(&arena);
            thread::spawn(move || extents.into_iter().for_each(|extent| arena.give_back(extent)))
        });
        let mut loans = [0; 2];
        arena.collect(&mut loans);
        assert!(loans[0] <= 2 && loans[1] <= 1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        arena.collect(&mut loans);
        assert_eq!(loans, [2, 1]);
    });
}

#[test]
fn an_extent_whose_loans_are_back_is_touched_by_nobody() {
    loom::model(|| {
        let arena = Arc::new(Arena::default());
        let threads = [1, 1].map(|extent| {
            let arena = Arc::clone(&arena);
            thread::spawn(move || arena.give_back(extent))
        });
        let mut loans = [0; 2];
        arena.collect(&mut loans);
        if loans[0] == 2 {
            // Free, and made anew: lent once more while the threads above may still be running.
            arena.headers[0].reset();
            arena.give_back(2);
            arena.give_back(1);
            let mut again = [0; 2];
            arena.collect(&mut again);
            assert_eq!(again, [1, 1]);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
