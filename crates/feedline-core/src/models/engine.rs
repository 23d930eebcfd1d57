//! The whole engine with its own step, restart and stop, on one or two workers.
//!
//! Batches of one sample, so that nothing that is decided by the clock (how many samples travel
//! together) makes two runs differ.

use std::sync::Arc;

use loom::thread;

use crate::deliver::Delivery;
use crate::engine::{Engine, Stepped};
use crate::flow::{Answer, Taken};
use crate::plan::SampleIndex;
use crate::work::{Cause, Dataset, Iterable, Local, Pass, Sample, Samples};
use crate::{Batch, DType, Field, Loader, LoaderBuilder};

use super::explore;

struct Numbers(u64);

impl Dataset for Numbers {
    fn len(&self) -> u64 {
        self.0
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("number", DType::U64, [])]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let SampleIndex(number) = sample.index();
        Ok(sample.put(0, &[number])?)
    }
}

/// An engine for one epoch without its threads.
fn engine(loader: LoaderBuilder) -> Arc<Engine> {
    loader.epochs(1).engine().expect("the settings are valid")
}

fn loader(samples: u64, workers: usize) -> LoaderBuilder {
    Loader::builder(Numbers(samples)).workers(workers).prefetch(1)
}

/// As a thread of the crew does.
fn work(engine: &Engine, worker: usize) {
    let mut local = Local::new(worker);
    loop {
        match engine.step(&mut local) {
            Stepped::Worked => {}
            Stepped::Idle(ticket, _) => engine.gate.rest(ticket),
            Stepped::Stopped | Stepped::Retired => return,
        }
    }
}

fn hire<const N: usize>(engine: &Arc<Engine>) -> [thread::JoinHandle<()>; N] {
    std::array::from_fn(|worker| {
        let engine = Arc::clone(engine);
        thread::spawn(move || work(&engine, worker))
    })
}

/// Takes the next batch as the loader does.
fn hold(engine: &Engine, token: u64) -> Batch {
    let Taken::Answer(Answer::Batch(finished, _)) = engine.gate.take(token, None) else {
        panic!("nobody restarts or closes")
    };
    let batch = finished.result.expect("no sample fails");
    batch.mark_delivered();
    batch
}

/// Takes the next batch and drops it. Returns its samples.
fn take(engine: &Engine, token: u64) -> Vec<u64> {
    let batch = hold(engine, token);
    let samples: Vec<u64> = batch.indices().iter().map(|index| index.0).collect();
    assert_eq!(batch.arrays()[0].as_slice::<u64>().unwrap(), samples);
    samples
}

/// Stops the engine and waits for its workers; checks that they leave nothing behind.
fn end<const N: usize>(engine: &Engine, workers: [thread::JoinHandle<()>; N]) {
    engine.stop(None);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let (bytes, ready) = engine.gate.look(|flow| (flow.memory(), flow.ready()));
    assert_eq!((bytes.undelivered, bytes.held_by_user), (0, 0));
    assert_eq!((ready, engine.policy.queued()), (0, 0));
}

/// Lets workers load an epoch of one-sample batches, takes them one after the other, and ends.
fn deliver_all<const N: usize>(loader: LoaderBuilder, samples: u64) {
    deliver_all_of::<N>(&engine(loader), samples);
}

fn deliver_all_of<const N: usize>(engine: &Arc<Engine>, samples: u64) {
    let workers = hire::<N>(engine);
    let token = engine.begin_epoch();
    for sample in 0..samples {
        assert_eq!(take(engine, token), [sample]);
    }
    end(engine, workers);
}

/// As [`deliver_all`], but keeps the batches until the end.
fn deliver_and_keep<const N: usize>(loader: LoaderBuilder) {
    let engine = engine(loader);
    let workers = hire::<N>(&engine);
    let token = engine.begin_epoch();
    let kept: [_; 3] = std::array::from_fn(|_| hold(&engine, token));
    assert_eq!(kept.each_ref().map(|batch| batch.indices()[0].0), [0, 1, 2]);
    drop(kept);
    end(&engine, workers);
}

#[test]
fn a_worker_delivers_an_epoch_in_order_and_ends_when_stopped() {
    explore(3, || deliver_all::<1>(loader(2, 1), 2));
}

#[test]
fn two_workers_deliver_an_epoch_in_order_and_end_when_stopped() {
    explore(1, || deliver_all::<2>(loader(2, 2).prefetch(2), 2));
}

#[test]
fn the_next_batch_is_opened_when_one_comes_back_or_is_asked_for() {
    explore(2, || {
        let engine = engine(loader(3, 1).prefetch(2));
        let workers = hire::<1>(&engine);
        let token = engine.begin_epoch();
        let kept = hold(&engine, token);
        assert_eq!(take(&engine, token), [1], "comes back at once");
        assert_eq!(take(&engine, token), [2]);
        drop(kept);
        end(&engine, workers);
    });
}

#[test]
fn where_memory_is_dear_who_holds_one_gets_the_next() {
    explore(2, || hold_one_and_take_the_next(&engine(loader(3, 1).frugal())));
}

fn hold_one_and_take_the_next(engine: &Arc<Engine>) {
    let workers = hire::<1>(engine);
    let token = engine.begin_epoch();
    let mut held = hold(engine, token);
    for number in 1..3 {
        // The one before comes back when this one is there.
        held = hold(engine, token);
        assert_eq!(held.indices()[0].0, number);
    }
    drop(held);
    end(engine, workers);
}

#[test]
fn where_memory_is_dear_who_keeps_all_gets_the_next() {
    explore(2, || deliver_and_keep::<1>(loader(3, 1).frugal()));
}

#[test]
fn a_bunch_that_is_never_full_is_delivered() {
    explore(3, || deliver_all::<1>(loader(1, 1).bunches_of(2), 1));
}

#[test]
fn a_worker_that_waits_for_room_for_a_bunch_is_woken_for_it() {
    // Four ahead, so that it waits once before it opens the last.
    explore(2, || deliver_all::<1>(loader(5, 1).bunches_of(2), 5));
}

#[test]
fn two_workers_deliver_bunches_to_a_loop_that_keeps_them() {
    explore(1, || deliver_and_keep::<2>(loader(3, 2).bunches_of(2)));
}

#[test]
fn a_restart_while_a_batch_is_opened_leaves_nothing_of_it() {
    explore(2, || {
        let engine = engine(loader(2, 2).delivery(Delivery::Ready { window: 2 }).prefetch(2));
        let workers = hire::<1>(&engine);
        let token = engine.begin_epoch();
        engine.cancel(token);
        let token = engine.begin_epoch();
        let samples: Vec<u64> = [(); 2].into_iter().flat_map(|()| take(&engine, token)).collect();
        assert_eq!(samples, [0, 1]);
        end(&engine, workers);
    });
}

#[test]
fn two_workers_fill_one_batch_together() {
    explore(1, || {
        let engine = engine(loader(2, 2).batch_size(2));
        let workers = hire::<2>(&engine);
        let token = engine.begin_epoch();
        assert_eq!(take(&engine, token), [0, 1]);
        end(&engine, workers);
    });
}

#[test]
fn in_ready_order_the_window_moves_and_each_sample_comes_once() {
    // A window of one batch leaves no choice of order.
    let ready = || loader(2, 2).prefetch(2).delivery(Delivery::Ready { window: 1 });
    explore(1, move || deliver_all::<2>(ready(), 2));
}

#[test]
fn stopping_at_any_moment_ends_the_workers() {
    explore(2, || {
        let engine = engine(loader(2, 2));
        let workers = hire::<2>(&engine);
        engine.begin_epoch();
        end(&engine, workers);
    });
}

#[test]
fn an_epoch_that_is_given_up_and_begun_again_is_delivered() {
    explore(3, || {
        let engine = engine(loader(1, 1));
        let workers = hire::<1>(&engine);
        let token = engine.begin_epoch();
        engine.cancel(token);
        let token = engine.begin_epoch();
        assert_eq!(take(&engine, token), [0]);
        end(&engine, workers);
    });
}

/// Values of varying length, of which no two batches fit the budget.
struct Texts;

impl Dataset for Texts {
    fn len(&self) -> u64 {
        3
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::bytes("text")]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        Ok(sample.put_bytes(0, &[7; 32])?)
    }
}

#[test]
fn jobs_that_are_held_back_for_want_of_bytes_are_done_when_there_is_room() {
    explore(1, || {
        let engine = engine(Loader::builder(Texts).workers(2).prefetch(2).memory(64));
        let workers = hire::<2>(&engine);
        let token = engine.begin_epoch();
        for number in 0..3 {
            let batch = hold(&engine, token);
            assert_eq!(batch.indices()[0].0, number);
        }
        end(&engine, workers);
    });
}

/// Numbers that come one after the other.
struct NumberStream(u64);

impl Dataset for NumberStream {
    fn len(&self) -> u64 {
        0
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("number", DType::U64, [])]
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        Ok(sample.put_bytes(0, raw)?)
    }
    fn iterable(&self) -> Option<&dyn Iterable> {
        Some(self)
    }
}

impl Iterable for NumberStream {
    fn iterate(&self, _: Pass) -> Result<Box<dyn Samples>, Cause> {
        Ok(Box::new(Counting { at: 0, end: self.0 }))
    }
}

struct Counting {
    at: u64,
    end: u64,
}

impl Samples for Counting {
    fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
        raw.extend(self.at.to_ne_bytes());
        self.at += 1;
        Ok(self.at <= self.end)
    }
}

/// Takes all batches of one sample that there are, and is told the end.
fn deliver_to_the_end<const N: usize>(samples: u64, prefetch: usize) {
    let engine = engine(Loader::builder(NumberStream(samples)).workers(N).prefetch(prefetch));
    let workers = hire::<N>(&engine);
    let token = engine.begin_epoch();
    for sample in 0..samples {
        assert_eq!(take(&engine, token), [sample]);
    }
    assert!(matches!(engine.gate.take(token, None), Taken::Answer(Answer::End)));
    end(&engine, workers);
}

#[test]
fn whoever_waits_for_a_sample_that_never_comes_is_told_the_end() {
    explore(3, || deliver_to_the_end::<1>(0, 1));
    explore(2, || deliver_to_the_end::<1>(1, 2));
}

#[test]
fn two_workers_take_turns_at_the_iterator_and_find_its_end() {
    explore(1, || deliver_to_the_end::<2>(2, 2));
}

#[test]
fn an_iterator_that_is_given_up_leaves_nothing() {
    explore(2, || {
        let engine = engine(Loader::builder(NumberStream(1)).workers(1).prefetch(1));
        let workers = hire::<1>(&engine);
        let token = engine.begin_epoch();
        engine.cancel(token);
        let token = engine.begin_epoch();
        assert_eq!(take(&engine, token), [0]);
        end(&engine, workers);
    });
}
