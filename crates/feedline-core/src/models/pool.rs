//! Every byte is counted in one state, whoever drops a block last.

use loom::sync::Arc;
use loom::thread;

use crate::assemble::Pool;
use crate::flow::{Bunch, Flow, Gate, Rules};
use crate::plan::Plan;
use crate::state::{Course, Start};

use super::explore;

#[test]
fn a_block_shared_by_two_goes_back_once_from_the_state_it_was_in() {
    explore(3, || {
        let plan = Plan::builder(2).batch_size(1).build().unwrap();
        let rules = Rules {
            prefetch: 2,
            elastic: false,
            frugal: false,
            bunch: Bunch::of(1),
            budget: 64,
            batch_bytes: 0,
            loose: false,
            iterated: false,
            padded: false,
            window: None,
            epochs: None,
            apart: false,
            batch_size: 1,
        };
        let flow = Flow::<(), ()>::new(rules, Course::whole(&plan), &Start::at(0, 0));
        let gate = std::sync::Arc::new(Gate::new(flow));
        let pool = Pool::new(64, gate.clone(), None);
        let block = Arc::new(pool.take(64, 0).unwrap());
        let user = thread::spawn({
            let block = Arc::clone(&block);
            move || drop(block)
        });
        drop(block);
        user.join().unwrap();
        let bytes = gate.look(|flow| flow.memory());
        assert_eq!((bytes.undelivered, bytes.held_by_user, bytes.idle), (0, 0, 64));
        let again = pool.take(64, 0).unwrap();
        let bytes = gate.look(|flow| flow.memory());
        assert_eq!((bytes.undelivered, bytes.idle, bytes.reused_blocks), (64, 0, 1));
        drop(again);
    });
}
