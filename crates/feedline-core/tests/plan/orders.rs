use std::collections::HashMap;

use feedline_core::plan::{Key, Order, Plan, SampleIndex, ShardSizes, Shuffle};
use proptest::prelude::*;

use crate::{samples, sorted, whole};

fn windowed(n: u64, shards: ShardSizes, window: u64, seed: u64) -> Plan {
    whole(n, Order::Windowed { shards, window }, seed)
}

/// Cuts `0..n` into shards as `shards` says.
fn cut(n: u64, shards: &ShardSizes) -> Vec<Vec<u64>> {
    let all: Vec<u64> = (0..n).collect();
    match shards {
        ShardSizes::Fixed(size) => all.chunks(*size as usize).map(<[u64]>::to_vec).collect(),
        ShardSizes::Sizes(sizes) => {
            let mut all = all.into_iter();
            sizes.iter().map(|&size| all.by_ref().take(size as usize).collect()).collect()
        }
    }
}

/// A stream of whole shards is the shards in some order.
fn assert_whole_shards(stream: &[u64], mut shards: Vec<Vec<u64>>) {
    let mut rest = stream;
    shards.retain(|shard| !shard.is_empty());
    while !rest.is_empty() {
        let next = shards.iter().position(|shard| shard[0] == rest[0]).expect("a shard begins");
        let shard = shards.swap_remove(next);
        assert_eq!(rest[..shard.len()], shard, "a shard is whole");
        rest = &rest[shard.len()..];
    }
    assert!(shards.is_empty(), "every shard comes");
}

fn shards() -> impl Strategy<Value = (u64, ShardSizes)> {
    prop_oneof![
        (1..400_u64, 1..60_u64).prop_map(|(n, size)| (n, ShardSizes::Fixed(size))),
        prop::collection::vec(0..40_u64, 1..20).prop_filter_map("no samples", |sizes| {
            let n = sizes.iter().sum();
            (n > 0).then_some((n, ShardSizes::Sizes(sizes)))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn shuffled_is_a_permutation(n in 1..2_000_u64, seed: u64, epoch: u64) {
        let got = samples(&whole(n, Order::Shuffled, seed).epoch(epoch));
        prop_assert_eq!(sorted(got), (0..n).collect::<Vec<_>>());
    }

    #[test]
    fn a_shuffle_inverts_itself(n in 1..=u64::MAX, i: u64, seed: u64) {
        let (i, shuffle) = (i % n, Shuffle::new(n, Key::new(seed, 0)));
        prop_assert!(shuffle.apply(i) < n);
        prop_assert_eq!(shuffle.invert(shuffle.apply(i)), i);
        prop_assert_eq!(shuffle.apply(shuffle.invert(i)), i);
    }

    #[test]
    fn a_small_shuffle_inverts_itself(n in 1..40_000_u64, i: u64, seed: u64) {
        let (i, shuffle) = (i % n, Shuffle::new(n, Key::new(seed, 0)));
        prop_assert_eq!(shuffle.invert(shuffle.apply(i)), i);
    }

    #[test]
    fn a_window_of_one_gives_whole_shards((n, shards) in shards(), seed: u64) {
        let stream = samples(&windowed(n, shards.clone(), 1, seed).epoch(2));
        assert_whole_shards(&stream, cut(n, &shards));
    }

    /// The windows pass over the same stream of shards, whatever their size.
    #[test]
    fn windows_mix_neighbours_only((n, shards) in shards(), window in 1..100_u64, seed: u64) {
        let stream = samples(&windowed(n, shards.clone(), 1, seed).epoch(2));
        let mixed = samples(&windowed(n, shards, window, seed).epoch(2));
        prop_assert_eq!(stream.len(), mixed.len());
        for (of_stream, of_mixed) in
            stream.chunks(window as usize).zip(mixed.chunks(window as usize))
        {
            prop_assert_eq!(sorted(of_stream.to_vec()), sorted(of_mixed.to_vec()));
        }
    }

    #[test]
    fn a_subset_is_exactly_its_list(indices in prop::collection::vec(0..100_u64, 1..300), seed: u64) {
        let plan = |shuffle| whole(100, Order::Subset { indices: indices.clone(), shuffle }, seed);
        prop_assert_eq!(&samples(&plan(false).epoch(1)), &indices);
        prop_assert_eq!(sorted(samples(&plan(true).epoch(1))), sorted(indices));
    }

    #[test]
    fn draws_without_replacement_are_different_and_have_weight(
        weights in prop::collection::vec(prop_oneof![Just(0.0), 1e-30..1e30], 1..200),
        part in 0.0..1.0,
        seed: u64,
    ) {
        let positive = weights.iter().filter(|&&weight| weight > 0.0).count();
        prop_assume!(positive > 0);
        let count = ((positive as f64 * part) as u64).max(1);
        let n = weights.len() as u64;
        let order = Order::Weighted { weights: weights.clone(), samples: count, replacement: false };
        let mut got = sorted(samples(&whole(n, order, seed).epoch(0)));
        prop_assert!(got.iter().all(|&sample| weights[sample as usize] > 0.0));
        got.dedup();
        prop_assert_eq!(got.len() as u64, count);
    }

    #[test]
    fn draws_with_replacement_have_weight(
        weights in prop::collection::vec(prop_oneof![Just(0.0), Just(1e-300), 1e-30..1e300], 1..200),
        seed: u64,
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0.0));
        let n = weights.len() as u64;
        let order = Order::Weighted { weights: weights.clone(), samples: 500, replacement: true };
        let got = samples(&whole(n, order, seed).epoch(0));
        prop_assert_eq!(got.len(), 500);
        prop_assert!(got.iter().all(|&sample| weights[sample as usize] > 0.0));
    }

    /// A step takes its members from `bucket_batches` neighbouring steps of the sorted list, with at
    /// most the short step's gap between them; full steps of a bucket of one do not overlap at all.
    #[test]
    fn buckets_hold_similar_lengths(
        lengths in prop::collection::vec(0..50_u32, 1..400),
        (batch, world) in (1..9_u64, 1..4_u64),
        bucket_batches in 1..4_u64,
        seed: u64,
    ) {
        let n = lengths.len() as u64;
        let step = batch * world;
        let order = Order::Bucketed { lengths: lengths.clone(), bucket_batches };
        let plan = Plan::builder(n).order(order).seed(seed).batch_size(step).build().unwrap();
        let epoch = samples(&plan.epoch(1));
        prop_assert_eq!(sorted(epoch.clone()), (0..n).collect::<Vec<_>>());

        let mut by_length: Vec<u64> = (0..n).collect();
        by_length.sort_by_key(|&i| lengths[i as usize]);
        let rank: HashMap<u64, u64> = by_length.into_iter().zip(0..).collect();
        let mut spans = Vec::new();
        for members in epoch.chunks(step as usize) {
            let ranks = members.iter().map(|sample| rank[sample]);
            let (low, high) = (ranks.clone().min().unwrap(), ranks.max().unwrap());
            prop_assert!(high - low < bucket_batches * step + n % step);
            if members.len() as u64 == step {
                spans.push((low, high));
            }
        }
        spans.sort_unstable();
        if bucket_batches == 1 {
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}

/// Above 2,048 samples the shuffle is computed.
#[test]
fn large_shuffles_are_permutations() {
    for n in [2_047, 2_048, 2_049, 2_116, 4_096, 4_097, 16_384, 65_536, 99_991, 1 << 20] {
        let mut seen = vec![false; n as usize];
        for sample in samples(&whole(n, Order::Shuffled, n).epoch(0)) {
            assert!(!std::mem::replace(&mut seen[sample as usize], true), "{sample} of {n} twice");
        }
    }
}

#[test]
fn every_random_order_changes_with_epoch_and_seed() {
    let n = 100;
    let lengths: Vec<u32> = (0..n as u32).collect();
    for order in [
        Order::Shuffled,
        Order::Windowed { shards: ShardSizes::Fixed(10), window: 20 },
        Order::Windowed { shards: ShardSizes::Sizes(vec![30, 50, 20]), window: 20 },
        Order::Weighted { weights: vec![1.0; 100], samples: 100, replacement: true },
        Order::Weighted { weights: vec![1.0; 100], samples: 100, replacement: false },
        Order::Subset { indices: (0..50).collect(), shuffle: true },
        Order::Bucketed { lengths, bucket_batches: 20 },
        Order::Mixed {
            parts: vec![feedline_core::plan::Part { len: 100, weight: 1.0 }],
            samples: None,
        },
    ] {
        let mut seen = std::collections::HashSet::new();
        for seed in [0, 1, 2, u64::MAX] {
            for epoch in [0, 1, 2, u64::MAX] {
                let plan = whole(n, order.clone(), seed);
                assert!(seen.insert(samples(&plan.epoch(epoch))), "{order:?} repeats itself");
                assert_eq!(samples(&plan.epoch(epoch)), samples(&plan.clone().epoch(epoch)));
            }
        }
    }
}

/// What the short last step drops must not always be the longest samples.
#[test]
fn every_sample_of_a_bucketed_order_is_sometimes_dropped() {
    use feedline_core::plan::Boundary;
    let order = Order::Bucketed { lengths: (0..23).collect(), bucket_batches: 2 };
    let plan =
        Plan::builder(23).order(order).batch_size(4).boundary(Boundary::Drop).build().unwrap();
    let mut dropped = std::collections::HashSet::new();
    for epoch in 0..200 {
        let kept = samples(&plan.epoch(epoch));
        dropped.extend((0..23).filter(|sample| !kept.contains(sample)));
    }
    assert_eq!(dropped.len(), 23);
}

#[test]
fn a_shuffle_of_nothing_or_one_answers() {
    assert_eq!(Shuffle::new(0, Key::new(0, 0)).apply(5), 0);
    assert_eq!(Shuffle::new(1, Key::new(0, 0)).apply(5), 0);
    assert_eq!(Shuffle::new(1, Key::new(0, 0)).invert(0), 0);
    let mut out = [SampleIndex(9); 3];
    Shuffle::new(2, Key::new(0, 0)).fill(u64::MAX, &mut out);
    assert!(out.iter().all(|sample| sample.0 < 2));
}
