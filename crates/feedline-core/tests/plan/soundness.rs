//! The shuffle against the uniform distribution. Sizes below 16,385 are tables, above computed.

use std::collections::HashMap;

use feedline_core::plan::{Key, Order, SampleIndex, Shuffle};

use crate::statistics::{assert_plausible, chi_square, rank_correlation, uniform};
use crate::{samples, whole};

fn order(n: u64, seed: u64, epoch: u64) -> Vec<u64> {
    let mut out = vec![SampleIndex(0); n as usize];
    Shuffle::new(n, Key::new(seed, epoch)).fill(0, &mut out);
    out.into_iter().map(|sample| sample.0).collect()
}

#[test]
fn all_orders_of_up_to_six_samples_are_equally_likely() {
    for (n, orders) in [(2, 2), (3, 6), (4, 24), (5, 120), (6, 720)] {
        let mut counts: HashMap<Vec<u64>, u64> = HashMap::new();
        for trial in 0..orders * 200 {
            // Neighbouring seeds and neighbouring epochs, as users choose them.
            *counts.entry(order(n, trial / 50, trial % 50)).or_default() += 1;
        }
        assert_eq!(counts.len() as u64, orders, "some order of {n} never occurs");
        let counts: Vec<u64> = counts.into_values().collect();
        assert_plausible(uniform(&counts, orders as f64 - 1.0), &format!("orders of {n}"));
    }
}

#[test]
fn every_sample_is_equally_likely_at_every_position() {
    for n in [7_u64, 16, 17, 60, 200] {
        let mut counts = vec![0; (n * n) as usize];
        for seed in 0..5_000 {
            for (place, sample) in (0..).zip(order(n, seed, 1)) {
                counts[(place * n + sample) as usize] += 1;
            }
        }
        let degrees = (n - 1) * (n - 1);
        assert_plausible(uniform(&counts, degrees as f64), &format!("positions, n = {n}"));
    }
}

#[test]
fn every_sample_is_equally_likely_to_follow_every_other() {
    for n in [7_u64, 16, 17, 60, 200] {
        let mut counts = vec![0; (n * n) as usize];
        for seed in 0..5_000 {
            for pair in order(n, seed, 1).windows(2) {
                counts[(pair[0] * n + pair[1]) as usize] += 1;
            }
        }
        let pairs: Vec<u64> =
            (0..n * n).filter(|i| i / n != i % n).map(|i| counts[i as usize]).collect();
        let degrees = pairs.len() as f64 - 1.0;
        assert_plausible(uniform(&pairs, degrees), &format!("neighbours, n = {n}"));
    }
}

/// The cells of a table of 25 x 25 bins hit by pairs of numbers below `n`, a multiple of 25.
fn cells<'a>(n: u64, pairs: impl Iterator<Item = (&'a u64, &'a u64)>, counts: &mut [u64]) {
    for (x, y) in pairs {
        counts[(x / (n / 25) * 25 + y / (n / 25)) as usize] += 1;
    }
}

#[test]
fn large_shuffles_spread_positions_and_neighbours_evenly() {
    for n in [10_000, 16_375, 16_400, 100_000] {
        let places: Vec<u64> = (0..n).collect();
        let (mut positions, mut neighbours) = (vec![0; 625], vec![0; 625]);
        for seed in 0..20 {
            let order = order(n, seed, 0);
            cells(n, places.iter().zip(&order), &mut positions);
            cells(n, order.iter().zip(&order[1..]), &mut neighbours);
        }
        assert_plausible(uniform(&positions, 576.0), &format!("positions, n = {n}"));
        assert_plausible(uniform(&neighbours, 576.0), &format!("neighbours, n = {n}"));
    }
}

/// Of a dataset too large to look at whole, the beginning of an epoch, as one rank of several sees it.
#[test]
fn the_beginning_of_a_huge_shuffle_is_spread_evenly() {
    for n in [1_000_000_000, (1 << 30) + 1, (1 << 32) + 1, 1 << 63] {
        for stride in [1, 8, 1_000] {
            let mut joint = vec![0; 625];
            for seed in 0..5 {
                let shuffle = Shuffle::new(n, Key::new(seed, 0));
                let bin = |i: u64| u128::from(shuffle.apply(i * stride)) * 25 / u128::from(n);
                let bins: Vec<u64> = (0..10_000).map(|i| bin(i) as u64).collect();
                for pair in bins.windows(2) {
                    joint[(pair[0] * 25 + pair[1]) as usize] += 1;
                }
            }
            assert_plausible(uniform(&joint, 624.0), &format!("n = {n}, every {stride}th"));
        }
    }
}

/// Pairs of keys that users will have side by side: neighbours in seed, in epoch, and swapped.
fn related_keys() -> impl Iterator<Item = [(u64, u64); 2]> {
    (0..12).flat_map(|k| {
        [
            [(k, 0), (k + 1, 0)],
            [(0, k), (0, k + 1)],
            [(k, k), (k + 1, k + 1)],
            [(k, k + 1), (k + 1, k)],
            [(1 << k, 0), (0, 1 << k)],
            [(k, 0), (k | 1 << 63, 0)],
        ]
    })
}

#[test]
fn orders_of_different_seeds_and_epochs_are_not_correlated() {
    for n in [1_000, 20_000] {
        let (mut joint, mut squares, mut pairs, mut meetings) = (vec![0; 625], 0.0, 0, 0);
        for [(seed, epoch), (other_seed, other_epoch)] in related_keys() {
            let (x, y) = (order(n, seed, epoch), order(n, other_seed, other_epoch));
            let correlation = rank_correlation(&x, &y);
            assert_plausible(
                correlation,
                &format!("({seed}, {epoch}), ({other_seed}, {other_epoch})"),
            );
            squares += correlation * correlation;
            pairs += 1;
            meetings += x.iter().zip(&y).filter(|(x, y)| x == y).count() as u64;
            cells(n, x.iter().zip(&y), &mut joint);
        }
        // Together the correlations must have the right size, not only each be small.
        assert_plausible(
            (squares - f64::from(pairs)) / f64::from(2 * pairs).sqrt(),
            "correlations",
        );
        assert_plausible(uniform(&joint, 576.0), &format!("joint positions, n = {n}"));
        // Two independent orders have one sample at the same place on average, Poisson distributed.
        let excess = meetings as f64 - f64::from(pairs);
        assert_plausible(excess / f64::from(pairs).sqrt(), "samples at the same place");
    }
}

#[test]
fn an_order_is_not_correlated_with_the_dataset() {
    for n in [100, 2_048, 2_049, 16_384, 50_000] {
        let places: Vec<u64> = (0..n).collect();
        for seed in 0..10 {
            let order = order(n, seed, seed);
            assert_plausible(rank_correlation(&places, &order), &format!("n = {n}, seed {seed}"));
            // Nor is a sample with the one that follows it.
            assert_plausible(rank_correlation(&order[1..], &order[..order.len() - 1]), "next");
        }
    }
}

/// Windows are permuted without a table; the smallest are exact.
#[test]
fn all_orders_within_a_small_window_are_equally_likely() {
    use feedline_core::plan::ShardSizes;
    let order = Order::Windowed { shards: ShardSizes::Fixed(u64::MAX), window: 4 };
    let plan = whole(4 * 500, order, 11);
    let mut counts: HashMap<Vec<u64>, u64> = HashMap::new();
    for epoch in 0..20 {
        for window in samples(&plan.epoch(epoch)).chunks(4) {
            *counts.entry(window.iter().map(|sample| sample % 4).collect()).or_default() += 1;
        }
    }
    assert_eq!(counts.len(), 24);
    assert_plausible(uniform(&counts.into_values().collect::<Vec<_>>(), 23.0), "windows of 4");
}

#[test]
fn steps_of_a_window_are_uniform_at_sizes_without_a_table() {
    use feedline_core::plan::ShardSizes;
    for window in [17_u64, 20, 100] {
        let order = Order::Windowed { shards: ShardSizes::Fixed(u64::MAX), window };
        let plan = whole(window * 3_000, order, 5);
        let mut counts = vec![0; (window * window) as usize];
        for chunk in samples(&plan.epoch(0)).chunks(window as usize) {
            for pair in chunk.windows(2) {
                counts[(pair[0] % window * window + pair[1] % window) as usize] += 1;
            }
        }
        let mean = 3_000.0 * (window - 1) as f64 / (window * (window - 1)) as f64;
        let (mut observed, mut expected) = (Vec::new(), Vec::new());
        for i in (0..window * window).filter(|i| i / window != i % window) {
            observed.push(counts[i as usize]);
            expected.push(mean);
        }
        let degrees = observed.len() as f64 - 1.0;
        assert_plausible(chi_square(&observed, &expected, degrees), &format!("window {window}"));
    }
}
