//! One mutex and what sleeps at it: the consumer gets batches in their order, and leaves when it is told to.

use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::thread;

use crate::flow::{Answer, BatchId, Bunch, Finished, Flow, Gate, Opening, Rules, Taken};
use crate::plan::Plan;
use crate::state::{Course, Start};

use super::explore;

type Model = Gate<u64, ()>;

/// A gate for epochs of two batches, of which so many are opened, and the token of the first.
fn gate(bunch: usize, opened: usize) -> (Arc<Model>, u64, Vec<BatchId>) {
    let plan = Plan::builder(2).batch_size(1).build().unwrap();
    let rules = Rules {
        prefetch: 2,
        elastic: true,
        frugal: false,
        bunch: Bunch::of(bunch),
        budget: 1 << 20,
        batch_bytes: 0,
        loose: false,
        iterated: false,
        padded: false,
        window: None,
        epochs: None,
        apart: false,
        batch_size: 1,
    };
    let gate = Arc::new(Gate::new(Flow::new(rules, Course::whole(&plan), &Start::at(0, 0))));
    let token = gate.begin_epoch(|_| ());
    let open = |_| {
        let Opening::Batch { id, .. } = gate.open() else { panic!("there is room") };
        assert!(gate.opened(id, 1, 1, || ()));
        id
    };
    let ids = (0..opened).map(open).collect();
    (gate, token, ids)
}

fn finish(gate: &Model, id: BatchId) {
    let finished = Finished { batch: 10 * id.epoch + id.number, positions: Vec::new(), bytes: 0 };
    gate.finished(id, finished, 1e9);
}

fn batch(taken: Taken<u64>) -> Option<u64> {
    match taken {
        Taken::Answer(Answer::Batch(batch, _)) => Some(batch),
        _ => None,
    }
}

#[test]
fn batches_finished_by_two_workers_are_taken_in_order() {
    explore(3, || {
        let (gate, token, ids) = gate(1, 2);
        let workers: Vec<_> = ids
            .into_iter()
            .rev()
            .map(|id| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || finish(&gate, id))
            })
            .collect();
        for number in 0..2 {
            assert_eq!(batch(gate.take(token, None)), Some(number));
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn who_waits_for_a_bunch_wakes_when_it_is_there_or_when_there_is_no_more_to_come() {
    for opened in [1, 2] {
        explore(2, move || {
            let (gate, token, ids) = gate(2, opened);
            let worker = thread::spawn({
                let gate = Arc::clone(&gate);
                move || {
                    let ticket = gate.ticket();
                    ids.into_iter().for_each(|id| finish(&gate, id));
                    gate.rest(ticket);
                }
            });
            assert_eq!(batch(gate.take(token, None)), Some(0));
            gate.stop(None, |_| ());
            worker.join().unwrap();
        });
    }
}

#[test]
fn a_new_epoch_takes_the_next_batch_away_from_whoever_waits_for_it() {
    explore(3, || {
        let (gate, old, ids) = gate(1, 1);
        let waiting = thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.take(old, None)
        });
        let worker = thread::spawn({
            let gate = Arc::clone(&gate);
            move || ids.into_iter().for_each(|id| finish(&gate, id))
        });
        let new = gate.begin_epoch(|_| ());
        worker.join().unwrap();
        match waiting.join().unwrap() {
            // Taken before the new epoch was begun, which is the next one then.
            Taken::Answer(Answer::Batch(0, _)) => {
                assert_eq!(gate.look(|flow| flow.cursor().epoch), 1);
            }
            Taken::Answer(Answer::Superseded) => {
                assert_eq!(batch(gate.take(new, None)), Some(0), "the first one is the new one's");
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn stopping_ends_the_waiting_consumer_and_refuses_the_late_batch() {
    explore(3, || {
        let (gate, token, ids) = gate(1, 1);
        let consumer = thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.take(token, None)
        });
        let worker = thread::spawn({
            let gate = Arc::clone(&gate);
            move || ids.into_iter().for_each(|id| finish(&gate, id))
        });
        gate.stop(Some(StdArc::from("why")), |_| ());
        worker.join().unwrap();
        match consumer.join().unwrap() {
            Taken::Answer(Answer::Batch(0, _)) => {}
            Taken::Answer(Answer::Closed(why)) => assert_eq!(why.as_deref(), Some("why")),
            other => panic!("{other:?}"),
        }
        assert_eq!(gate.look(|flow| flow.ready()), 0);
    });
}
