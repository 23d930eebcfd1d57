//! Epochs whose end has to be found: scripts of events, and random runs against a list of what each epoch has.

#![expect(unused_must_use, reason = "a script looks at the effects that it is about")]

use proptest::prelude::*;

use super::*;
use crate::plan::Plan;

type TestFlow = Flow<(u64, u64), ()>;

fn machine_at(prefetch: usize, start: &Start) -> TestFlow {
    let rules = Rules {
        prefetch,
        elastic: false,
        frugal: false,
        bunch: Bunch::of(1),
        budget: 1_000_000,
        batch_bytes: 0,
        loose: true,
        iterated: true,
        padded: false,
        window: None,
        epochs: None,
        apart: false,
        batch_size: 4,
    };
    let plan = Plan::unbounded().batch_size(4).build().unwrap();
    Flow::new(rules, Course::whole(&plan), start)
}

fn machine(prefetch: usize) -> TestFlow {
    machine_at(prefetch, &Start::at(0, 0))
}

fn word(text: &str) -> Option<Arc<str>> {
    Some(Arc::from(text))
}

/// Opens a batch whose iterator is then at its number.
fn open(flow: &mut TestFlow) -> Option<BatchId> {
    let Opening::Batch { id, .. } = flow.open() else { return None };
    flow.pulled(id, 10, 10, word(&format!("{}", id.number + 1)));
    flow.opened(id, 4, 4).map(|_| id)
}

fn finish(flow: &mut TestFlow, id: BatchId) {
    flow.made((id.generation, id.turn), 4, 0, 10);
    let finished = Finished { batch: (id.epoch, id.number), positions: Vec::new(), bytes: 0 };
    flow.finished(id, finished, None).expect("it is wanted");
}

fn batch(epoch: u64, number: u64) -> Answer<(u64, u64)> {
    Answer::Batch((epoch, number), 0)
}

#[test]
fn a_batch_is_opened_where_what_is_taken_fits_beside_what_is_made_of_it() {
    let mut flow = machine(100);
    flow.bytes = Bytes::new(1000, 4);
    flow.begin_epoch();
    // Four samples of 10 bytes each. Until more is known, one of 20 is expected: 80 bytes once they are made.
    // How many such batches have room in 1000 bytes?
    let take = |flow: &mut TestFlow| {
        let Opening::Batch { id, .. } = flow.open() else { return false };
        flow.pulled(id, 40, 10, None);
        flow.opened(id, 4, 4).is_some()
    };
    let opened =
        std::iter::repeat_with(|| take(&mut flow)).take_while(|is_opened| *is_opened).count();
    assert_eq!(opened, 8, "the last with 7 x (40 + 80) there and to come, and 80 + 80 more");
}

#[test]
fn the_epoch_ends_after_the_batch_that_was_the_last() {
    let mut flow = machine(2);
    let (token, ..) = flow.begin_epoch();
    let id = open(&mut flow).unwrap();
    assert_eq!(flow.left_of(token), None, "nobody knows");
    flow.found_end(id.generation, 1);
    assert!(matches!(flow.open(), Opening::Nothing), "the next epoch is not begun");
    assert_eq!(flow.left_of(token), Some(1));
    finish(&mut flow, id);
    assert_eq!(flow.ask(token, 0).0, batch(0, 0));
    assert_eq!(flow.ask(token, 0).0, Answer::End);
    assert_eq!((flow.cursor().epoch, flow.cursor().number), (1, 0));
    let (token, restarted, _) = flow.begin_epoch();
    assert!(restarted);
    let id = open(&mut flow).unwrap();
    assert_eq!((id.epoch, id.number), (1, 0));
    finish(&mut flow, id);
    assert_eq!(flow.ask(token, 0).0, batch(1, 0));
}

#[test]
fn who_waits_for_a_batch_that_never_comes_is_told_the_end() {
    for delivered in [0, 1] {
        let mut flow = machine(1);
        let (token, ..) = flow.begin_epoch();
        for _ in 0..delivered {
            let id = open(&mut flow).unwrap();
            finish(&mut flow, id);
            assert_eq!(flow.ask(token, 0).0, batch(0, 0));
        }
        assert_eq!(flow.ask(token, 0).0, Answer::Wait { until_ns: None });
        let Opening::Batch { id, .. } = flow.open() else { panic!("there is room") };
        let effects = flow.found_end(id.generation, delivered).unwrap();
        assert!(effects.wake_consumer);
        assert!(!flow.is_pending(token));
        assert_eq!(flow.ask_again(token, 0).0, Answer::End);
        assert_eq!((flow.cursor().epoch, flow.cursor().number), (1, 0));
    }
}

#[test]
fn what_is_left_of_a_resumed_epoch_may_be_nothing_and_then_the_next_one_comes() {
    let start = Start { iterator: word("two"), ..Start::at(3, 2) };
    let mut flow = machine_at(2, &start);
    let (token, ..) = flow.begin_epoch();
    let Opening::Batch { id, iterator, .. } = flow.open() else { panic!("there is room") };
    assert_eq!((id.epoch, id.number, iterator), (3, 2, word("two")));
    assert_eq!(flow.ask(token, 0).0, Answer::Wait { until_ns: None });
    let effects = flow.found_end(id.generation, 2).unwrap();
    assert_eq!((effects.wake_consumer, effects.wake_workers), (false, 1));
    let Opening::Batch { id, iterator, .. } = flow.open() else { panic!("there is room") };
    assert_eq!((id.epoch, id.number, iterator), (4, 0, None));
    // An epoch without a single batch is one all the same.
    flow.found_end(id.generation, 0);
    assert_eq!(flow.ask_again(token, 0).0, Answer::End);
    assert_eq!(flow.cursor().epoch, 5);
}

#[test]
fn the_iterator_is_where_it_was_after_what_was_delivered() {
    let mut flow = machine(3);
    let (token, ..) = flow.begin_epoch();
    let first = open(&mut flow).unwrap();
    finish(&mut flow, first);
    let second = open(&mut flow).unwrap();
    finish(&mut flow, second);
    assert_eq!(flow.cursor().iterator, None, "nothing is delivered");
    for at in ["1", "2"] {
        flow.ask(token, 0);
        assert_eq!(flow.cursor().iterator, word(at));
    }
    // A batch for which there was no memory: nobody knows where the iterator would be.
    let Opening::Batch { id, .. } = flow.open() else { panic!("there is room") };
    let failed = Finished { batch: (0, 2), positions: Vec::new(), bytes: 0 };
    flow.passed_over(id, failed).unwrap();
    assert_eq!(flow.ask(token, 0).0, batch(0, 2));
    assert_eq!(flow.cursor().iterator, None);
}

#[test]
fn an_end_that_is_found_too_late_concerns_nobody() {
    let mut flow = machine(2);
    let (token, ..) = flow.begin_epoch();
    let id = open(&mut flow).unwrap();
    finish(&mut flow, id);
    assert_eq!(flow.ask(token, 0).0, batch(0, 0));
    flow.cancel(token).expect("it runs");
    assert!(flow.found_end(id.generation, 1).is_none());
    let (token, ..) = flow.begin_epoch();
    let next = open(&mut flow).unwrap();
    assert_eq!((next.epoch, next.number), (1, 0));
    assert!(flow.found_end(id.generation, 1).is_none());
    assert_eq!(flow.left_of(token), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Each epoch has its own number of batches, and each last batch says so itself or not. Any open batch may be
    /// finished next; epochs may be given up.
    #[test]
    fn in_random_runs_each_epoch_has_the_batches_it_has(
        lengths in prop::collection::vec((0u64..5, any::<bool>()), 1..6),
        prefetch in 1usize..5,
        moves in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let mut flow = machine(prefetch);
        let length = |epoch: u64| lengths[epoch as usize % lengths.len()];
        let (mut token, ..) = flow.begin_epoch();
        let (mut working, mut expected): (Vec<BatchId>, (u64, u64)) = (Vec::new(), (0, 0));
        let (mut asked, mut was_empty) = (false, false);
        // Whoever has moved at random goes on in turn, until enough epochs have ended.
        let turns = (0..5_000u16).map(|turn| (turn % 251) as u8);
        let mut ends_left = 10;
        for step in moves.into_iter().chain(turns) {
            match step % 8 {
                0..=2 => match flow.open() {
                    Opening::Batch { id, .. } => {
                        let (batches, says_so) = length(id.epoch);
                        if id.number == batches {
                            flow.found_end(id.generation, batches);
                            was_empty = batches == 0;
                        } else {
                            flow.pulled(id, 1, 1, None);
                            flow.opened(id, 4, 1).expect("nobody restarts meanwhile");
                            working.push(id);
                            if says_so && id.number + 1 == batches {
                                flow.found_end(id.generation, batches);
                            }
                        }
                    }
                    // Nothing is made of the first, so nobody knows what a sample takes; or the epoch has ended.
                    _ => prop_assert!(flow.generation() > 0),
                },
                3..=4 if !working.is_empty() => {
                    let id = working.swap_remove(usize::from(step / 8) % working.len());
                    finish(&mut flow, id);
                }
                5 if step > 247 => {
                    // An epoch that was found to have no batch is over, though nobody was told.
                    let was_begun = expected.1 > 0 || std::mem::take(&mut was_empty);
                    flow.cancel(token);
                    working.clear();
                    token = flow.begin_epoch().0;
                    asked = false;
                    expected = if was_begun { (expected.0 + 1, 0) } else { expected };
                    prop_assert_eq!((flow.cursor().epoch, flow.cursor().number), expected);
                }
                _ => {
                    let (answer, _) = if asked { flow.ask_again(token, 0) } else { flow.ask(token, 0) };
                    asked = matches!(answer, Answer::Wait { .. });
                    match answer {
                        Answer::Batch(batch, _) => {
                            prop_assert_eq!(batch, expected);
                            expected.1 += 1;
                        }
                        Answer::Wait { .. } => {}
                        Answer::End => {
                            prop_assert_eq!(expected.1, length(expected.0).0);
                            expected = (expected.0 + 1, 0);
                            was_empty = false;
                            prop_assert!(working.is_empty());
                            token = flow.begin_epoch().0;
                            ends_left -= 1;
                            if ends_left == 0 {
                                return Ok(());
                            }
                        }
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
            }
        }
        prop_assert!(false, "delivery stopped");
    }
}

/// Found by the random runs: what was known of an epoch that was given up was taken for the next one.
#[test]
fn an_end_that_was_found_is_forgotten_when_its_epoch_is_begun_again() {
    let mut flow = machine(2);
    flow.begin_epoch();
    let Opening::Batch { id, .. } = flow.open() else { panic!("there is room") };
    flow.pulled(id, 1, 1, None);
    flow.opened(id, 4, 1).expect("nobody restarts meanwhile");
    flow.found_end(id.generation, 1);
    let token = flow.cursor().token;
    flow.cancel(token);
    let (token, ..) = flow.begin_epoch();
    assert_eq!(flow.left_of(token), None, "the iterator is asked anew");
}
