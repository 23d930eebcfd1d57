//! What is delivered, in which order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use feedline_core::plan::Position;
use feedline_core::{
    Boundary, BuildError, Cause, Dataset, Delivery, Field, Group, Loader, Order, PolicyKind, Sample,
};
use proptest::prelude::*;

use crate::common::{Numbers, epoch, numbers, uneven};

/// The planned epoch, straight from the plan: the oracle of every delivered order.
fn planned(loader: &Loader, epoch: u64) -> Vec<Vec<u64>> {
    let plan = loader.plan();
    let epoch = plan.epoch(epoch);
    let batch = |b| plan.batch_range(b).map(|p| epoch.index(Position(p)).0).collect();
    (0..plan.batches()).map(batch).collect()
}

#[test]
fn the_delivered_order_is_the_planned_order_for_every_policy_and_worker_count() {
    for policy in PolicyKind::ALL {
        for workers in [0, 1, 2, 5] {
            let loader = Loader::builder(uneven(103))
                .batch_size(8)
                .shuffle(3)
                .workers(workers)
                .policy(policy)
                .build()
                .unwrap();
            for e in 0..3 {
                assert_eq!(epoch(&loader), planned(&loader, e), "{policy:?}, {workers} workers");
            }
        }
    }
}

#[test]
fn separate_io_threads_deliver_the_same() {
    let loader = Loader::builder(uneven(100))
        .batch_size(16)
        .shuffle(1)
        .workers(2)
        .io_workers(5)
        .build()
        .unwrap();
    for e in 0..2 {
        assert_eq!(epoch(&loader), planned(&loader, e));
    }
}

#[test]
fn pinned_workers_deliver_the_same() {
    let loader =
        Loader::builder(numbers(50)).batch_size(4).workers(3).pin_workers(true).build().unwrap();
    assert_eq!(epoch(&loader), planned(&loader, 0));
}

/// Rows in memory that are written a group at a time, except where the test says no.
struct Grouped {
    groups: Arc<AtomicU64>,
    answer: fn(u64) -> bool,
}

impl Dataset for Grouped {
    fn len(&self) -> u64 {
        5000
    }
    fn fields(&self) -> Vec<Field> {
        numbers(0).fields()
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        numbers(5000).build(raw, sample)
    }
    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let before = self.groups.fetch_add(1, Ordering::Relaxed);
        let indices = group.indices();
        let rows = group.rows::<i64>(0).expect("int64");
        for (row, i) in rows.chunks_exact_mut(3).zip(indices) {
            row.copy_from_slice(&[i.0 as i64, i.0 as i64 + 1, i.0 as i64 + 2]);
        }
        if !(self.answer)(before) {
            return false;
        }
        for (x, i) in group.rows::<f32>(1).expect("float32").iter_mut().zip(indices) {
            *x = i.0 as f32;
        }
        true
    }
}

#[test]
fn samples_written_in_groups_are_the_same_samples() {
    type Answer = fn(u64) -> bool;
    let answers: [(&str, Answer); 3] = [
        ("always", |_| true),
        ("every other time", |group| group % 2 == 0),
        ("panics now and then", |group| if group % 3 == 1 { panic!("no group") } else { true }),
    ];
    for (name, answer) in answers {
        for workers in [0, 2] {
            let groups = Arc::new(AtomicU64::new(0));
            let dataset = Grouped { groups: Arc::clone(&groups), answer };
            let loader = Loader::builder(dataset)
                .batch_size(64)
                .shuffle(1)
                .workers(workers)
                .build()
                .unwrap();
            for e in 0..3 {
                assert_eq!(epoch(&loader), planned(&loader, e), "{name}, {workers} workers");
            }
            assert!(groups.load(Ordering::Relaxed) > 0, "tiny samples travel together");
        }
    }
}

fn policies() -> impl Strategy<Value = PolicyKind> {
    proptest::sample::select(PolicyKind::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_settings_deliver_exactly_the_plan(
        n in 1u64..300,
        batch in 1u64..40,
        workers in 0usize..5,
        io in 0usize..3,
        prefetch in 1usize..6,
        policy in policies(),
        boundary in proptest::sample::select(vec![Boundary::Drop, Boundary::Pad, Boundary::Keep]),
        shuffled in any::<bool>(),
        world in 1u64..4,
        rank in 0u64..4,
        seed in any::<u64>(),
    ) {
        let order = if shuffled { Order::Shuffled } else { Order::Sequential };
        let built = Loader::builder(numbers(n))
            .batch_size(batch)
            .order(order)
            .seed(seed)
            .boundary(boundary)
            .rank(rank % world, world)
            .workers(workers)
            .io_workers(if workers == 0 { 0 } else { io })
            .prefetch(prefetch)
            .policy(policy)
            .build();
        let Ok(loader) = built else {
            prop_assert!(boundary == Boundary::Drop && n < batch * world);
            return Ok(());
        };
        for e in 0..2 {
            prop_assert_eq!(epoch(&loader), planned(&loader, e));
        }
    }
}

/// A listed order.
fn listed(indices: &[u64]) -> Order {
    Order::Subset { indices: indices.to_vec(), shuffle: false }
}

#[test]
fn epochs_may_be_given_an_order_each_and_nothing_else_is_made() {
    let orders: [&[u64]; 4] = [&[3, 1, 4], &[1, 5, 9, 2, 6], &[5], &[3, 5, 8, 9]];
    for workers in [0, 2] {
        for delivery in [Delivery::InOrder, Delivery::Ready { window: 2 }] {
            let made = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&made);
            let does = move |i| {
                noted.lock().unwrap().push(i);
                Ok(())
            };
            let loader = Loader::builder(Numbers { n: 10, does })
                .order(listed(&[7, 7, 7]))
                .batch_size(3)
                .workers(workers)
                .delivery(delivery)
                .epochs_apart(true)
                .build()
                .unwrap();
            for (number, order) in orders.iter().enumerate() {
                assert_eq!(loader.next_epoch(), number as u64);
                loader.set_order(listed(order)).unwrap();
                assert_eq!(loader.len(), order.len().div_ceil(3) as u64);
                let mut delivered = epoch(&loader).concat();
                if delivery != Delivery::InOrder {
                    delivered.sort_unstable();
                    let mut sorted = order.to_vec();
                    sorted.sort_unstable();
                    assert_eq!(delivered, sorted, "{workers} workers");
                } else {
                    assert_eq!(delivered, *order, "{workers} workers");
                }
            }
            loader.close();
            let mut made = made.lock().unwrap().clone();
            let mut expected = orders.concat();
            made.sort_unstable();
            expected.sort_unstable();
            assert_eq!(made, expected, "nothing is made for an epoch that was not begun");
        }
    }
}

#[test]
fn with_epochs_apart_the_plan_is_kept_until_another_comes() {
    let build = |apart: bool| {
        Loader::builder(numbers(50)).batch_size(8).shuffle(3).workers(2).epochs_apart(apart)
    };
    let (apart, usual) = (build(true).build().unwrap(), build(false).build().unwrap());
    for _ in 0..3 {
        assert_eq!(epoch(&apart), epoch(&usual));
    }
    apart.epoch().take(2).for_each(drop);
    usual.epoch().take(2).for_each(drop);
    assert_eq!(epoch(&apart), epoch(&usual), "also after a loop that was left half-way");
}

#[test]
fn a_state_of_an_epoch_with_its_own_order_goes_on_in_that_order_alone() {
    let build = || {
        let builder = Loader::builder(numbers(10)).order(listed(&[0, 1, 2, 3]));
        builder.batch_size(2).workers(1).epochs_apart(true).build().unwrap()
    };
    let loader = build();
    epoch(&loader);
    loader.set_order(listed(&[9, 8, 7, 6, 5])).unwrap();
    loader.epoch().take(1).for_each(drop);
    let state = loader.state();
    let resumed = build();
    let wrong = resumed.load_state_in(listed(&[9, 8, 7, 6, 4]), &state, false).unwrap_err();
    assert!(wrong.to_string().contains("the order's indices differ"), "{wrong}");
    assert_eq!(resumed.current_epoch(), 0, "nothing has changed");
    resumed.load_state_in(listed(&[9, 8, 7, 6, 5]), &state, false).unwrap();
    assert_eq!(resumed.next_epoch(), 1);
    assert_eq!(epoch(&resumed), [vec![7, 6], vec![5]]);
    let between = resumed.state();
    assert_eq!((between.epoch(), between.batch()), (2, 0));
    loader.load_state_in(listed(&[4]), &between, false).expect("epoch 2 may have any order");
    assert_eq!(epoch(&loader), [[4]]);
}

#[test]
fn an_order_that_cannot_be_is_refused_and_the_one_before_it_stays() {
    let loader = Loader::builder(numbers(10)).batch_size(4).order(listed(&[1, 2])).workers(0);
    let loader = loader.epochs_apart(true).build().unwrap();
    let outside = loader.set_order(listed(&[10])).unwrap_err();
    assert!(matches!(outside, BuildError::Plan(_)), "{outside}");
    let larger = loader.set_order(listed(&[1, 2, 3])).unwrap_err();
    assert!(matches!(larger, BuildError::LargerBatch { got: 3, limit: 2 }), "{larger}");
    assert_eq!(epoch(&loader), [[1, 2]]);
}
