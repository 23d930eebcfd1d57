//! Workers that come and go while batches are made.

use std::time::{Duration, Instant};

use feedline_core::{Cause, Loader, LoaderBuilder, PolicyKind};

use crate::common::{Numbers, epoch, numbers, samples};

/// Longer than any of it takes, even three times shorter than a test's limit.
const PATIENCE: Duration = Duration::from_secs(180);

/// Samples that wait for two milliseconds.
fn sleepy(n: u64) -> Numbers {
    Numbers {
        n,
        does: |_| -> Result<(), Cause> {
            std::thread::sleep(Duration::from_millis(2));
            Ok(())
        },
    }
}

fn auto(builder: LoaderBuilder) -> LoaderBuilder {
    builder.workers(1).prefetch(1).auto_workers(Some(6)).auto_prefetch(None)
}

#[test]
fn workers_are_added_where_samples_wait_and_batches_stay_the_same() {
    for policy in [PolicyKind::Steal, PolicyKind::Central, PolicyKind::LongestFirst] {
        let plain = Loader::builder(numbers(2000)).batch_size(16).shuffle(3).workers(1).build();
        let plain = plain.unwrap();
        let builder = auto(Loader::builder(sleepy(2000)).batch_size(16).shuffle(3));
        let loader = builder.policy(policy).build().unwrap();
        let began = Instant::now();
        // On a busy machine a trial may be judged wrongly; it is made again.
        while loader.workers() < 4 {
            assert_eq!(epoch(&loader), epoch(&plain));
            assert!(began.elapsed() < PATIENCE, "{:?}", loader.stats().control);
        }
        let control = loader.stats().control.unwrap();
        assert!(control.changed > 0 && control.most_workers == 6);
        assert!(loader.stats().explain().contains("The controller is at"));
    }
}

#[test]
fn workers_that_a_slow_loop_does_not_need_are_parked() {
    let builder = Loader::builder(numbers(1 << 20)).batch_size(16).workers(8).prefetch(4);
    let loader = builder.auto_workers(None).build().unwrap();
    let (began, mut next) = (Instant::now(), 0);
    for batch in loader.epoch() {
        let batch = samples(&batch.unwrap());
        assert_eq!(batch, (next..next + 16).collect::<Vec<_>>());
        next += 16;
        std::thread::sleep(Duration::from_millis(20));
        if loader.workers() < 8 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", loader.stats().control);
    }
    let stats = loader.stats();
    assert_eq!(stats.workers.len(), 8, "those who are parked have worked");
    // Dropping it wakes those who are parked.
    loader.close();
}

#[test]
fn where_nothing_is_said_a_controller_decides() {
    let base = || Loader::builder(numbers(40)).batch_size(4);
    let control = |builder: LoaderBuilder| builder.build().unwrap().stats().control;
    let open = control(base()).unwrap();
    assert!(open.most_workers >= 64 && open.most_prefetch >= 64);
    assert_eq!(control(base().auto_workers(None).auto_prefetch(None)), Some(open));
    // Of two settings the one that is given stays.
    assert_eq!(control(base().prefetch(3)).unwrap().most_prefetch, 3);
    assert_eq!(control(base().auto_workers(Some(1))).unwrap().setting.workers, 1);
    let short = control(base().auto_prefetch(Some(2))).unwrap();
    assert_eq!((short.setting.prefetch, short.most_prefetch), (2, 2));
    for given in [
        base().workers(2),
        base().workers(0),
        base().io_workers(2),
        base().policy(PolicyKind::RoundRobin),
    ] {
        assert_eq!(control(given), None);
    }
}

#[test]
fn a_loader_may_be_dropped_while_its_workers_change() {
    for pause in [0, 50, 150, 450, 900] {
        let loader = auto(Loader::builder(sleepy(1 << 20)).batch_size(8)).build().unwrap();
        let began = Instant::now();
        for batch in loader.epoch() {
            samples(&batch.unwrap());
            if began.elapsed() >= Duration::from_millis(pause) {
                break;
            }
        }
        assert!(loader.close_within(PATIENCE));
    }
}

#[test]
fn a_sample_that_hangs_gives_its_seat_to_another_thread() {
    let hangs = Numbers {
        n: 64,
        does: |i| -> Result<(), Cause> {
            if i == 5 {
                std::thread::sleep(Duration::from_secs(30));
            }
            Ok(())
        },
    };
    let builder = Loader::builder(hangs).batch_size(8).on_error(feedline_core::OnError::Skip);
    let loader = auto(builder).sample_timeout(Duration::from_millis(300)).build().unwrap();
    let delivered: usize = epoch(&loader).iter().map(Vec::len).sum();
    assert!((1..64).contains(&delivered));
}

#[test]
fn what_a_controller_cannot_have_is_refused_with_advice() {
    let base = || Loader::builder(numbers(10)).batch_size(4);
    let cases = [
        (base().workers(0).auto_workers(None), "begin with at least 1"),
        (base().workers(0).auto_prefetch(None), "begin with at least 1"),
        (base().io_workers(2).auto_workers(None), "leave io_workers out"),
        (base().policy(PolicyKind::RoundRobin).auto_workers(None), "`steal`"),
        (base().workers(5).auto_workers(Some(4)), "at most 4"),
        (base().prefetch(5).auto_prefetch(Some(4)), "at most 4"),
        (base().auto_workers(Some(1 << 20)), "at most 4096"),
    ];
    for (i, (builder, advice)) in cases.into_iter().enumerate() {
        let text = builder.build().expect_err("must be refused").to_string();
        assert!(text.contains(advice), "case {i}: {text}");
    }
}
