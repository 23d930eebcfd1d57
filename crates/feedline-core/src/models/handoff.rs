//! From loading to building: every loaded sample is built, and closing ends the builders.

use loom::sync::Arc;
use loom::thread;

use crate::flow::{Charge, Ledger};
use crate::work::handoff::Loaded;
use crate::work::{Attempt, Handoff};

use super::explore;
use super::watchlist::lot;

/// As a thread that builds does: until there is nothing left and the handoff is closed.
fn build(handoff: &Handoff) -> Vec<u32> {
    let mut built = Vec::new();
    loop {
        let ticket = handoff.ticket();
        if let Some(loaded) = handoff.pop() {
            built.push(loaded.slot);
            handoff.give_back(loaded.raw);
            continue;
        }
        if handoff.is_closed() {
            return built;
        }
        handoff.wait(ticket);
    }
}

/// Nobody's books.
struct Nothing;

impl Ledger for Nothing {
    fn took(&self, _: u64, _: bool, _: u64) -> u64 {
        0
    }
    fn did_not_take(&self, _: u64) {}
    fn freed(&self, _: u64) {}
    fn returned(&self, _: u64, _: bool, _: &mut dyn FnMut()) -> bool {
        false
    }
    fn evicted(&self, _: u64) {}
    fn reserve(&self, _: u64) -> u64 {
        0
    }
    fn unreserve(&self, _: u64) {}
}

fn loaded(slot: u32) -> Loaded {
    let books: std::sync::Arc<dyn Ledger> = std::sync::Arc::new(Nothing);
    let (attempt, charge) = (Attempt::default(), Charge::of(&books, 0));
    Loaded { lot: lot(), slot, attempt, raw: vec![7; 3], load_ns: 1, charge }
}

#[test]
fn every_loaded_sample_wakes_a_builder() {
    explore(3, || {
        let handoff = Arc::new(Handoff::new(1 << 10));
        let builder = thread::spawn({
            let handoff = Arc::clone(&handoff);
            move || {
                let mut built = 0;
                while built < 2 {
                    let ticket = handoff.ticket();
                    match handoff.pop() {
                        Some(_) => built += 1,
                        None => handoff.wait(ticket),
                    }
                }
            }
        });
        handoff.push(loaded(0));
        handoff.push(loaded(1));
        builder.join().unwrap();
    });
}

#[test]
fn closing_ends_the_builder_and_loses_no_sample() {
    explore(3, || {
        let handoff = Arc::new(Handoff::new(1 << 10));
        let builder = thread::spawn({
            let handoff = Arc::clone(&handoff);
            move || build(&handoff)
        });
        handoff.push(loaded(0));
        handoff.push(loaded(1));
        handoff.close();
        let mut seen = builder.join().unwrap();
        // The builder may have looked before they came and left because it was closed.
        seen.extend(std::iter::from_fn(|| handoff.pop()).map(|loaded| loaded.slot));
        assert_eq!(seen, [0, 1]);
    });
}
