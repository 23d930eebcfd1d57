//! Batches of samples as they become ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use feedline_core::{Boundary, Cause, Delivery, Loader, OrderLog, PolicyKind};
use proptest::prelude::*;

use crate::common::{Numbers, epoch, flat, samples, uneven};

#[test]
fn a_slow_sample_does_not_hold_up_fast_ones() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let dataset = Numbers {
        n: 40,
        does: move |i| {
            while i == 0 && !gate.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<(), Cause>(())
        },
    };
    let loader = Loader::builder(dataset)
        .batch_size(4)
        .workers(2)
        .prefetch(4)
        .delivery(Delivery::Ready { window: 8 })
        .build()
        .unwrap();
    let mut epoch = loader.epoch();
    // Sample 0 is stuck: the batches of all others that the window allows come nevertheless.
    let mut seen: Vec<Vec<u64>> =
        (0..7).map(|_| samples(&epoch.next().unwrap().unwrap())).collect();
    assert!(!flat(&seen).contains(&0));
    go.store(true, Ordering::Relaxed);
    seen.extend(epoch.map(|b| samples(&b.unwrap())));
    assert_eq!(flat(&seen), (0..40).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_sample_comes_exactly_once_within_the_window_and_the_log_replays(
        n in 1u64..200,
        batch in 1u64..12,
        workers in 0usize..5,
        io in 0usize..3,
        prefetch in 1usize..5,
        window in 1usize..6,
        policy in proptest::sample::select(PolicyKind::ALL.to_vec()),
        boundary in proptest::sample::select(vec![Boundary::Pad, Boundary::Keep]),
        seed in any::<u64>(),
    ) {
        let build = || Loader::builder(uneven(n))
            .batch_size(batch)
            .shuffle(seed)
            .boundary(boundary)
            .policy(policy)
            .prefetch(prefetch);
        let in_order = build().workers(0).build().unwrap();
        let loader = build()
            .workers(workers)
            .io_workers(if workers == 0 { 0 } else { io })
            .delivery(Delivery::Ready { window })
            .build()
            .unwrap();
        let epochs: Vec<_> = (0..3).map(|_| epoch(&loader)).collect();
        let logs = loader.order_logs();
        for (e, delivered) in epochs.iter().enumerate() {
            let planned = epoch(&in_order);
            prop_assert_eq!(flat(delivered), flat(&planned));
            let sizes = |batches: &[Vec<u64>]| batches.iter().map(Vec::len).collect::<Vec<_>>();
            prop_assert_eq!(sizes(delivered), sizes(&planned));
            let log = logs.iter().find(|log| log.epoch() == e as u64).expect("epoch was completed");
            for (place, position) in log.positions().iter().enumerate() {
                // Begun at most a window after the oldest that was not done.
                prop_assert!(*position < place as u64 + (window as u64) * batch, "{place} {position}");
            }
            let json = serde_json::to_string(log).unwrap();
            let log: OrderLog = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(&log, logs.iter().find(|l| l.epoch() == e as u64).unwrap());
        }
        let mut replay = build().workers(2);
        for log in logs {
            replay = replay.replay(log);
        }
        let replay = replay.build().unwrap();
        for delivered in epochs {
            prop_assert_eq!(epoch(&replay), delivered);
        }
    }
}

#[test]
fn a_log_of_another_plan_is_refused() {
    let loader = Loader::builder(uneven(20))
        .batch_size(4)
        .workers(2)
        .delivery(Delivery::Ready { window: 2 })
        .build()
        .unwrap();
    epoch(&loader);
    let log = loader.order_logs().remove(0);
    let error =
        Loader::builder(uneven(21)).batch_size(4).replay(log).workers(0).build().unwrap_err();
    assert!(error.to_string().contains("another plan"), "{error}");
}
