//! Every byte is counted in one state, whoever drops a block last.

use loom::sync::Arc;
use loom::thread;

use crate::assemble::Pool;

use super::explore;

#[test]
fn a_block_shared_by_two_goes_back_once_from_the_state_it_was_in() {
    explore(3, || {
        let pool = Pool::new(1 << 10);
        let block = Arc::new(pool.take(64).unwrap());
        let user = thread::spawn({
            let block = Arc::clone(&block);
            move || {
                block.hand_over();
                drop(block);
            }
        });
        drop(block);
        user.join().unwrap();
        let bytes = pool.bytes();
        assert_eq!((bytes.undelivered, bytes.held_by_user, bytes.idle), (0, 0, 64));
    });
}

#[test]
fn a_budget_of_one_block_is_never_exceeded_by_two_takers() {
    explore(3, || {
        let pool = Pool::new(64);
        let other = thread::spawn({
            let pool = std::sync::Arc::clone(&pool);
            move || pool.try_take(64).unwrap().map(|block| block.capacity())
        });
        let mine = pool.try_take(64).unwrap();
        let theirs = other.join().unwrap();
        assert!(mine.is_some() || theirs.is_some());
        drop(mine);
        let bytes = pool.bytes();
        assert_eq!((bytes.undelivered, bytes.idle, bytes.peak), (0, 64, 64));
    });
}
