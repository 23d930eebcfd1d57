use feedline_core::plan::{Boundary, Order, Part, Plan, Position, SampleIndex, ShardSizes};
use proptest::prelude::*;

use crate::{samples, sorted};

fn orders(n: u64) -> impl Strategy<Value = Order> {
    let weights = || {
        prop::collection::vec(0.0..10.0, n as usize).prop_map(|mut weights: Vec<f64>| {
            weights[0] = 1.0;
            weights
        })
    };
    prop_oneof![
        Just(Order::Sequential),
        Just(Order::Shuffled),
        (1..n + 5, 1..n + 5)
            .prop_map(|(size, window)| Order::Windowed { shards: ShardSizes::Fixed(size), window }),
        (prop::collection::vec(0..n, 1..50), any::<bool>())
            .prop_map(|(indices, shuffle)| Order::Subset { indices, shuffle }),
        (weights(), 1..2 * n).prop_map(|(weights, samples)| Order::Weighted {
            weights,
            samples,
            replacement: true
        }),
        weights().prop_map(|weights| Order::Weighted { weights, samples: 1, replacement: false }),
        (prop::collection::vec(0..100_u32, n as usize), 1..5_u64)
            .prop_map(|(lengths, bucket_batches)| Order::Bucketed { lengths, bucket_batches }),
        (0..n, 0.0..4.0, prop::option::of(1..2 * n)).prop_map(move |(cut, weight, samples)| {
            let weight = if cut == 0 { 0.0 } else { weight };
            let parts = vec![Part { len: cut, weight }, Part { len: n - cut, weight: 1.0 }];
            Order::Mixed { parts, samples }
        }),
    ]
}

fn boundaries() -> impl Strategy<Value = Boundary> {
    prop_oneof![Just(Boundary::Drop), Just(Boundary::Pad), Just(Boundary::Keep)]
}

/// What the ranks shall get, with lists: drop or repeat until it fits, then deal like cards.
fn deal(mut epoch: Vec<u64>, world: usize, batch: usize, boundary: Boundary) -> Vec<Vec<Vec<u64>>> {
    let step = world * batch;
    let original = epoch.clone();
    match boundary {
        Boundary::Drop => epoch.truncate(epoch.len() / step * step),
        Boundary::Pad => {
            let total = epoch.len().div_ceil(step) * step;
            epoch.extend(original.iter().cycle().take(total - original.len()));
        }
        Boundary::Keep => {
            let total = epoch.len().div_ceil(world) * world;
            epoch.extend(original.iter().cycle().take(total - original.len()));
        }
    }
    (0..world)
        .map(|rank| {
            let hand: Vec<u64> = epoch.iter().copied().skip(rank).step_by(world).collect();
            hand.chunks(batch).map(<[u64]>::to_vec).collect()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ranks_are_dealt_the_epoch_with_exact_counts(
        (n, order) in (1..120_u64).prop_flat_map(|n| (Just(n), orders(n))),
        world in 1..9_u64,
        batch in 1..12_u64,
        boundary in boundaries(),
        seed: u64,
        epoch in 0..5_u64,
    ) {
        // The same epoch as one rank sees it whose batch is a step of all ranks.
        let alone = Plan::builder(n).order(order.clone()).seed(seed).batch_size(world * batch);
        let expected = deal(
            samples(&alone.build().unwrap().epoch(epoch)), world as usize, batch as usize, boundary,
        );
        for rank in 0..world {
            let plan = Plan::builder(n).order(order.clone()).seed(seed).batch_size(batch)
                .boundary(boundary).rank(rank, world).build();
            let expected = &expected[rank as usize];
            let plan = match plan {
                Ok(plan) => plan,
                Err(error) => {
                    prop_assert!(expected.is_empty(), "{error}");
                    continue;
                }
            };
            let got = plan.epoch(epoch);
            prop_assert_eq!(plan.batches(), expected.len() as u64);
            prop_assert_eq!(plan.samples(), expected.iter().map(Vec::len).sum::<usize>() as u64);
            for (number, batch) in (0..).zip(expected) {
                let range = plan.batch_range(number);
                let one_by_one: Vec<u64> =
                    range.clone().map(|position| got.index(Position(position)).0).collect();
                prop_assert_eq!(&one_by_one, batch);
            }
            prop_assert_eq!(samples(&got), expected.concat());
            prop_assert!(plan.batch_range(plan.batches()).is_empty());
            prop_assert!(plan.batch_range(u64::MAX).is_empty());
        }
    }

    #[test]
    fn seeking_is_the_same_as_reading_from_the_start(
        (n, order) in (1..300_u64).prop_flat_map(|n| (Just(n), orders(n))),
        world in 1..4_u64,
        seed: u64,
        start in 0..400_u64,
        len in 0..70_usize,
    ) {
        let plan = Plan::builder(n).order(order).seed(seed).batch_size(4).rank(world - 1, world);
        let epoch = plan.build().unwrap().epoch(3);
        let mut from_start = vec![SampleIndex(0); start as usize + len];
        epoch.fill(Position(0), &mut from_start);
        let mut sought = vec![SampleIndex(0); len];
        epoch.fill(Position(start), &mut sought);
        prop_assert_eq!(&sought, &from_start[start as usize..]);
        for (slot, position) in sought.iter().zip(start..) {
            prop_assert_eq!(*slot, epoch.index(Position(position)));
        }
    }

    /// After every rank has consumed `p` samples, the first `p * world` of the order are consumed: a
    /// run with another number of ranks can go on from there.
    #[test]
    fn progress_is_one_global_position(n in 1..200_u64, world in 1..6_u64, seed: u64) {
        let build = |rank, world| {
            Plan::builder(n).order(Order::Shuffled).seed(seed).rank(rank, world).build().unwrap()
        };
        let all = samples(&build(0, 1).epoch(0));
        for p in 0..n / world {
            let consumed = (0..world).flat_map(|rank| {
                let epoch = build(rank, world).epoch(0);
                (0..p).map(move |position| epoch.index(Position(position)).0)
            });
            let expected = all[..(p * world) as usize].to_vec();
            prop_assert_eq!(sorted(consumed.collect()), sorted(expected));
        }
        prop_assert_eq!(build(0, 1).order_fingerprint(), build(world - 1, world).order_fingerprint());
    }
}

#[test]
fn positions_far_past_the_end_have_an_answer() {
    let plan = Plan::builder(10).order(Order::Shuffled).rank(2, 3).build().unwrap();
    let epoch = plan.epoch(0);
    let expected = (u128::from(u64::MAX) * 3 + 2) % 10;
    let alone = Plan::builder(10).order(Order::Shuffled).build().unwrap().epoch(0);
    assert_eq!(epoch.index(Position(u64::MAX)), alone.index(Position(expected as u64)));
}

#[test]
fn epochs_near_the_limit_of_64_bits_work() {
    for order in [
        Order::Sequential,
        Order::Shuffled,
        Order::Windowed { shards: ShardSizes::Fixed(1000), window: 1 << 40 },
        Order::Mixed { parts: vec![Part { len: u64::MAX, weight: 1.0 }], samples: None },
    ] {
        let plan = Plan::builder(u64::MAX).order(order).batch_size(256).rank(6, 7);
        let plan = plan.boundary(Boundary::Drop).build().unwrap();
        assert_eq!(plan.batches(), u64::MAX / (7 * 256));
        let epoch = plan.epoch(u64::MAX);
        let last = plan.batch_range(plan.batches() - 1);
        let mut batch = vec![SampleIndex(0); 256];
        epoch.fill(Position(last.start), &mut batch);
        assert!(batch.iter().all(|sample| sample.0 < u64::MAX));
        assert_eq!(batch[255], epoch.index(Position(last.end - 1)));
    }
}
