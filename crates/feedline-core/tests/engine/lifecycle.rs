//! Epochs, dropping at any moment, budgets, states.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use feedline_core::{
    Boundary, BuildError, Cause, Delivery, Error, Loader, LoaderBuilder, Memory, Next, PageLock,
    PolicyKind,
};

use crate::common::{Numbers, epoch, flat, numbers, samples, uneven};

#[test]
fn epochs_differ_and_each_is_complete() {
    let loader = Loader::builder(numbers(100)).batch_size(9).shuffle(5).workers(2).build().unwrap();
    let epochs: Vec<_> = (0..4).map(|_| epoch(&loader)).collect();
    for e in &epochs {
        assert_eq!(flat(e), (0..100).collect::<Vec<_>>());
    }
    assert!(epochs.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn an_iterator_dropped_half_way_is_followed_by_the_next_epoch() {
    for workers in [0, 2] {
        let reference =
            Loader::builder(numbers(64)).batch_size(4).shuffle(9).workers(0).build().unwrap();
        let expected: Vec<_> = (0..3).map(|_| epoch(&reference)).collect();
        let loader =
            Loader::builder(uneven(64)).batch_size(4).shuffle(9).workers(workers).build().unwrap();
        let taken: Vec<_> = loader.epoch().take(5).map(|b| samples(&b.unwrap())).collect();
        assert_eq!(taken, expected[0][..5]);
        assert_eq!(epoch(&loader), expected[1]);
        drop(loader.epoch());
        assert_eq!(epoch(&loader), expected[2], "an epoch of which nothing was taken is not lost");
    }
}

#[test]
fn after_its_end_an_epoch_stays_ended() {
    let loader = Loader::builder(numbers(4)).batch_size(4).workers(1).build().unwrap();
    let mut epoch = loader.epoch();
    assert!(epoch.next().is_some());
    assert!(epoch.next().is_none());
    assert!(epoch.next().is_none());
}

#[test]
fn after_the_last_epoch_the_loader_says_so_once_and_ends() {
    for workers in [0, 2] {
        let loader =
            Loader::builder(numbers(8)).batch_size(4).workers(workers).epochs(2).build().unwrap();
        assert_eq!(epoch(&loader).len(), 2);
        assert_eq!(epoch(&loader).len(), 2);
        for _ in 0..2 {
            let beyond: Vec<_> = loader.epoch().collect();
            assert!(matches!(beyond[..], [Err(Error::NoMoreEpochs { epochs: 2 })]), "{beyond:?}");
        }
    }
}

#[test]
fn a_newer_iterator_supersedes_an_older_one() {
    let loader = Loader::builder(numbers(40)).batch_size(4).workers(2).build().unwrap();
    let old = loader.start_epoch();
    assert!(matches!(loader.next(old), Some(Ok(_))));
    let new = loader.start_epoch();
    assert!(matches!(loader.next(old), Some(Err(Error::Superseded))));
    let batch = loader.next(new).unwrap().unwrap();
    assert_eq!((batch.epoch(), batch.number()), (1, 0));
}

#[test]
fn several_threads_share_an_epoch_without_losing_or_doubling_a_batch() {
    let loader = Loader::builder(uneven(400)).batch_size(3).shuffle(1).workers(2).build().unwrap();
    for e in 0..3 {
        let token = loader.start_epoch();
        let all: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let consumers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut mine = Vec::new();
                        while let Some(batch) = loader.next(token) {
                            let batch = batch.unwrap();
                            assert_eq!(batch.epoch(), e);
                            mine.push(samples(&batch));
                        }
                        mine
                    })
                })
                .collect();
            consumers.into_iter().flat_map(|c| c.join().unwrap()).collect()
        });
        assert_eq!(flat(&all), (0..400).collect::<Vec<_>>());
    }
}

#[test]
fn waiting_is_bounded_and_can_be_repeated() {
    let slow = Numbers {
        n: 2,
        does: |_| {
            std::thread::sleep(Duration::from_millis(60));
            Ok(())
        },
    };
    let loader = Loader::builder(slow).batch_size(2).workers(1).build().unwrap();
    let token = loader.start_epoch();
    let mut pending = 0;
    loop {
        match loader.next_within(token, Duration::from_millis(5)) {
            Next::Pending => pending += 1,
            Next::Batch(batch) => assert_eq!(samples(&batch.unwrap()), [0, 1]),
            Next::End => break,
        }
    }
    assert!(pending > 0);
}

#[test]
fn what_the_user_holds_is_counted_and_never_waited_for() {
    let loader =
        Loader::builder(numbers(1000)).batch_size(10).workers(2).memory(4096).build().unwrap();
    let held: Vec<_> = loader.epoch().map(Result::unwrap).collect();
    let memory = loader.stats().memory;
    assert_eq!(held.len(), 100);
    assert!(memory.held_by_user >= 100 * 280, "{memory:?}");
    assert!(memory.peak <= 4096, "{memory:?}");
    for (i, batch) in held.iter().enumerate() {
        assert_eq!(samples(batch)[0], 10 * i as u64, "a kept batch keeps its content");
    }
    drop(held);
    assert_eq!(loader.stats().memory.held_by_user, 0);
}

#[test]
fn batches_outlive_their_loader() {
    let loader = Loader::builder(numbers(20)).batch_size(5).workers(2).build().unwrap();
    let held: Vec<_> = loader.epoch().map(Result::unwrap).collect();
    drop(loader);
    assert_eq!(held.iter().flat_map(samples).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
}

/// `n` numbers, and how many of them have been begun.
#[expect(clippy::type_complexity, reason = "a pair, one half of which is a closure")]
fn counted(n: u64) -> (Numbers<impl Fn(u64) -> Result<(), Cause> + Send + Sync>, Arc<AtomicU64>) {
    let started = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&started);
    let does = move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok::<(), Cause>(())
    };
    (Numbers { n, does }, started)
}

/// Waits until the count is reached, and a little longer to see that it is not exceeded.
fn assert_settles(count: &AtomicU64, expected: u64) {
    while count.load(Ordering::SeqCst) < expected {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(count.load(Ordering::SeqCst), expected);
}

#[test]
fn read_ahead_is_bounded_by_batches_and_by_bytes() {
    for (prefetch, memory, most) in [(3, 1 << 30, 3), (100, 3 * 320, 3)] {
        let (dataset, started) = counted(1000);
        // A batch of 10: 240 bytes of rows and 40 of x, in lines of 64.
        let loader = Loader::builder(dataset)
            .batch_size(10)
            .workers(3)
            .prefetch(prefetch)
            .memory(memory)
            .build()
            .unwrap();
        let mut epoch = loader.epoch();
        for taken in 1..=20 {
            epoch.next().unwrap().unwrap();
            assert!(started.load(Ordering::SeqCst) <= 10 * (taken + most));
        }
        assert_settles(&started, 10 * (20 + most));
        let stats = loader.stats();
        assert_eq!((stats.prefetch, stats.batches), (prefetch, 20));
        assert!(stats.ready as u64 <= most);
    }
}

#[test]
fn a_loop_that_holds_one_batch_takes_memory_for_one_beyond_the_read_ahead() {
    for prefetch in 1..5 {
        let (dataset, _) = counted(1000);
        let loader =
            Loader::builder(dataset).batch_size(5).workers(2).prefetch(prefetch).build().unwrap();
        let mut held = None;
        for batch in loader.epoch() {
            // The one before is dropped when this one is there.
            held = Some(batch.unwrap());
        }
        drop(held);
        let most = if prefetch == 1 { 3 } else { prefetch as u64 + 1 };
        let allocated = loader.stats().memory.allocated_blocks;
        assert!(allocated <= most, "{allocated} blocks with a read-ahead of {prefetch}");
    }
}

#[test]
fn batches_that_are_kept_or_returned_late_hold_up_nothing() {
    let (dataset, _) = counted(600);
    let loader = Loader::builder(dataset).batch_size(3).workers(2).prefetch(2).build().unwrap();
    let mut kept: VecDeque<_> = VecDeque::new();
    for (i, batch) in loader.epoch().enumerate() {
        kept.push_back(batch.unwrap());
        // All are kept, then all given back but ten, then none is left.
        let most = [100, 10, 0][i / 70];
        kept.drain(..kept.len().saturating_sub(most));
    }
    assert_eq!(loader.stats().memory.held_by_user, 0);
    assert_eq!(loader.stats().batches, 200);
}

#[test]
fn the_next_epoch_fills_while_this_one_drains_unless_it_is_the_last() {
    for (limit, expected) in [(None, 20 + 15), (Some(1), 20)] {
        let (dataset, started) = counted(20);
        let mut builder = Loader::builder(dataset).batch_size(5).workers(2).prefetch(3);
        if let Some(limit) = limit {
            builder = builder.epochs(limit);
        }
        let loader = builder.build().unwrap();
        loader.epoch().for_each(|b| drop(b.unwrap()));
        assert_settles(&started, expected);
    }
}

#[test]
fn nothing_is_worked_on_before_the_first_epoch_and_nothing_after_a_cancelled_one() {
    let (dataset, started) = counted(1_000_000);
    let loader = Loader::builder(dataset).batch_size(5).workers(2).prefetch(1000).build().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(started.load(Ordering::SeqCst), 0);
    let mut epoch = loader.epoch();
    epoch.next().unwrap().unwrap();
    drop(epoch);
    // Each worker may have been about to begin one sample; a million are left.
    let then = started.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(50));
    assert!(started.load(Ordering::SeqCst) <= then + 2);
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn loaders_dropped_at_random_moments_leave_nothing_behind() {
    let dropped = Arc::new(AtomicU64::new(0));
    let mut dice = 1u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (dice >> 33) % sides
    };
    const TRIALS: u64 = 10_000;
    for trial in 0..TRIALS {
        let counted = Counted(Arc::clone(&dropped));
        let slow = roll(4) == 0;
        let dataset = Numbers {
            n: 1 + roll(60),
            does: move |i| {
                let _alive = &counted;
                if slow && i % 3 == 0 {
                    std::thread::sleep(Duration::from_micros(20));
                }
                if i % 17 == 16 { Err("now and then".into()) } else { Ok(()) }
            },
        };
        let mut builder: LoaderBuilder = Loader::builder(dataset)
            .batch_size(1 + roll(8))
            .shuffle(trial)
            .workers(roll(4) as usize)
            .prefetch(1 + roll(5) as usize)
            .policy(PolicyKind::ALL[roll(7) as usize]);
        match roll(5) {
            0 => builder = builder.delivery(Delivery::Ready { window: 1 + roll(3) as usize }),
            1 => builder = builder.memory(1 << 12),
            2 => builder = builder.workers(1).io_workers(1 + roll(2) as usize),
            3 => builder = builder.workers(2).sample_timeout(Duration::from_secs(5)),
            _ => {}
        }
        let loader = builder.build().unwrap();
        let mut held = Vec::new();
        for _ in 0..roll(3) {
            let take = roll(20) as usize;
            held.extend(loader.epoch().take(take).filter_map(Result::ok).take(2));
        }
        if roll(2) == 0 {
            let mut left_alive = loader.epoch();
            left_alive.next();
            drop(left_alive);
        }
        drop(loader);
        assert_eq!(dropped.load(Ordering::SeqCst), trial + 1, "no thread keeps the dataset");
        drop(held);
    }
}

#[test]
fn who_waits_for_an_epochs_first_batch_does_not_take_it_from_the_next_iterator() {
    // The second epoch is in work when it is begun, so both iterators wait for the same batch.
    let (go, made) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let dataset = Numbers {
        n: 8,
        does: {
            let go = Arc::clone(&go);
            move |_| {
                let is_second = made.fetch_add(1, Ordering::Relaxed) >= 8;
                while is_second && !go.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            }
        },
    };
    let loader = Loader::builder(dataset).batch_size(2).workers(1).prefetch(1).build().unwrap();
    assert_eq!(loader.epoch().count(), 4);
    let old = loader.start_epoch();
    let seen = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| loader.next(old));
        std::thread::sleep(Duration::from_millis(20));
        let new = loader.start_epoch();
        go.store(true, Ordering::Relaxed);
        let batches = std::iter::from_fn(|| loader.next(new)).map(|batch| samples(&batch.unwrap()));
        let seen: Vec<_> = batches.collect();
        assert!(matches!(waiting.join().unwrap(), Some(Err(Error::Superseded))));
        seen
    });
    assert_eq!(seen, [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(loader.state().epoch(), 2);
}

#[test]
fn a_patience_of_for_ever_is_one() {
    let loader = Loader::builder(numbers(4)).batch_size(2).workers(1).build().unwrap();
    let token = loader.start_epoch();
    assert!(matches!(loader.next_within(token, Duration::MAX), Next::Batch(Ok(_))));
    assert!(loader.close_within(Duration::MAX));
}

#[test]
fn a_token_of_another_loader_is_void() {
    let [one, other] =
        [(); 2].map(|()| Loader::builder(numbers(4)).batch_size(2).workers(1).build().unwrap());
    let (token, _) = (one.start_epoch(), other.start_epoch());
    assert!(matches!(other.next(token), Some(Err(Error::Superseded))));
    other.cancel(token);
    assert!(matches!(one.next(token), Some(Ok(_))));
}

#[test]
fn an_epoch_knows_how_many_batches_are_left_and_stays_ended() {
    let loader = Loader::builder(numbers(10)).batch_size(4).workers(1).build().unwrap();
    let mut epoch = loader.epoch();
    for left in [3, 2, 1] {
        assert_eq!(epoch.size_hint(), (left, Some(left)));
        assert!(epoch.next().is_some());
    }
    assert_eq!(epoch.size_hint(), (0, Some(0)));
    assert!(epoch.next().is_none());
    let _other = loader.epoch();
    assert!(epoch.next().is_none(), "fused");
}

/// Panics where nothing of the user's should.
struct Clumsy;

// SAFETY: it touches nothing.
unsafe impl PageLock for Clumsy {
    fn lock(&self, _memory: Memory) {
        panic!("a driver that panics");
    }
    fn unlock(&self, _memory: Memory) {}
}

#[test]
fn a_thread_that_panics_says_why_instead_of_leaving_the_consumer_to_wait() {
    let loader =
        Loader::builder(numbers(4)).workers(2).page_lock(Arc::new(Clumsy)).build().unwrap();
    match loader.epoch().next() {
        Some(Err(Error::Broken { why })) => assert_eq!(&*why, "a driver that panics"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_that_no_machine_has_room_for_is_refused() {
    let builder = Loader::builder(numbers(4)).batch_size(1 << 31).boundary(Boundary::Pad);
    match builder.workers(1).build() {
        Err(error @ BuildError::MachineTooSmall { .. }) => {
            assert!(error.to_string().contains("use a smaller `batch_size`"), "{error}");
        }
        // A machine with over 160 GB.
        other => drop(other.unwrap()),
    }
}
