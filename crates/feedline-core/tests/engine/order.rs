//! What is delivered, in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline_core::plan::Position;
use feedline_core::{Boundary, Cause, Dataset, Field, Group, Loader, Order, PolicyKind, Sample};
use proptest::prelude::*;

use crate::common::{epoch, numbers, uneven};

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
