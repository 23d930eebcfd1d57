//! From loading to building: every loaded sample is built, and closing ends the builders.

use loom::sync::Arc;
use loom::thread;

use crate::work::Handoff;
use crate::work::handoff::Loaded;

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

fn loaded(slot: u32) -> Loaded {
    Loaded { lot: lot(), slot, attempt: 0, raw: vec![7; 3], load_ns: 1 }
}

#[test]
fn every_loaded_sample_wakes_a_builder() {
    explore(3, || {
        let handoff = Arc::new(Handoff::new());
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
        assert_eq!(handoff.bytes(), 0);
    });
}

#[test]
fn closing_ends_the_builder_and_loses_no_sample() {
    explore(3, || {
        let handoff = Arc::new(Handoff::new());
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
        assert_eq!(handoff.bytes(), 0);
    });
}
