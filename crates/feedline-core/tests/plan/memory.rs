use feedline_core::plan::{EpochPlan, Order, Part, Plan, Position, SampleIndex, ShardSizes};

use crate::counting::kept;

/// What a plan and an epoch may keep besides tables: the structs behind their shared pointers.
const STRUCTS: isize = 1024;
/// The table of a small shuffle.
const SMALL_TABLE: usize = 4 << 10;

/// Builds plan and epoch; checks that the tables they report are all the memory they keep.
#[track_caller]
fn tables(n: u64, order: impl Fn() -> Order) -> (Plan, EpochPlan) {
    let (plan, bytes) = kept(|| Plan::builder(n).order(order()).batch_size(32).build().unwrap());
    let reported = plan.table_bytes() as isize;
    assert!((reported..reported + STRUCTS).contains(&bytes), "{bytes} kept, {reported} reported");
    let (epoch, bytes) = kept(|| plan.epoch(1));
    let reported = epoch.table_bytes() as isize;
    assert!((reported..reported + STRUCTS).contains(&bytes), "{bytes} kept, {reported} reported");
    let mut batch = [SampleIndex(0); 32];
    let ((), bytes) = kept(|| epoch.fill(Position(3), &mut batch));
    assert_eq!(bytes, 0, "answering keeps nothing");
    (plan, epoch)
}

#[test]
fn computed_orders_keep_no_table() {
    for n in [1_000_000_000, (1 << 30) + 1, (1 << 32) + 1, u64::MAX] {
        for order in [
            Order::Sequential,
            Order::Shuffled,
            Order::Windowed { shards: ShardSizes::Fixed(1_000), window: 100_000 },
        ] {
            let (plan, epoch) = tables(n, || order.clone());
            assert_eq!(plan.table_bytes() + epoch.table_bytes(), 0);
        }
    }
}

#[test]
fn small_shuffles_keep_at_most_4_kib() {
    for n in [1, 16, 17, 1_000, 2_048, 2_049] {
        let (plan, epoch) = tables(n, || Order::Shuffled);
        assert_eq!(plan.table_bytes(), 0);
        assert!(epoch.table_bytes() <= SMALL_TABLE.min(2 * n as usize));
    }
}

#[test]
fn a_mixture_keeps_a_constant_per_part() {
    for len in [1_000, 1_000_000_000] {
        let parts = || vec![Part { len, weight: 1.0 }; 10];
        let (plan, epoch) = tables(len * 10, || Order::Mixed { parts: parts(), samples: None });
        assert!(plan.table_bytes() + epoch.table_bytes() <= 10 * 1024 + SMALL_TABLE);
    }
}

#[test]
fn listed_shards_keep_two_words_each() {
    let shards = || ShardSizes::Sizes(vec![10_000; 50_000]);
    let order = || Order::Windowed { shards: shards(), window: 64 };
    let (plan, epoch) = tables(500_000_000, order);
    assert_eq!(plan.table_bytes() + epoch.table_bytes(), 16 * 50_000);
}

#[test]
fn given_tables_keep_at_most_8_bytes_per_sample() {
    let n = 100_000_u64;
    let weights: Vec<f64> = (0..n).map(|i| (i % 7) as f64 + 1.0).collect();
    for order in [
        Order::Weighted { weights: weights.clone(), samples: n, replacement: true },
        Order::Weighted { weights, samples: n, replacement: false },
        Order::Subset { indices: (0..n).collect(), shuffle: true },
        Order::Bucketed { lengths: (0..n as u32).rev().collect(), bucket_batches: 8 },
    ] {
        let (plan, epoch) = tables(n, || order.clone());
        let bytes = plan.table_bytes() + epoch.table_bytes();
        assert!(bytes <= 8 * n as usize, "{bytes} bytes");
    }
    let wide = Order::Subset { indices: (0..n).map(|i| i << 20).collect(), shuffle: true };
    let (plan, epoch) = tables(1 << 50, || wide.clone());
    assert_eq!(plan.table_bytes() + epoch.table_bytes(), 8 * n as usize);
}
