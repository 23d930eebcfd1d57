//! The network alone, at sizes where a [`Shuffle`](crate::plan::Shuffle) would take a table.

use super::*;

/// The chi-square statistic of `counts` against equal expectation, in standard deviations from its
/// mean (Wilson and Hilferty's cube-root approximation, good from a few degrees of freedom on).
fn deviation(counts: &[u64], degrees: f64) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let chi: f64 = counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
    let spread = 2.0 / (9.0 * degrees);
    ((chi / degrees).cbrt() - (1.0 - spread)) / spread.sqrt()
}

fn order(n: u64, seed: u64) -> Vec<u64> {
    let network = Feistel::new(n, Key::new(seed, 0));
    (0..n).map(|i| network.apply(i)).collect()
}

#[test]
fn every_size_is_permuted_and_inverted() {
    let squares = [30, 31, 32, 33, 255, 256, 257].map(|root: u64| root * root);
    for n in (1..200).chain(squares).chain(squares.map(|n| n + 1)).chain(squares.map(|n| n - 1)) {
        let network = Feistel::new(n, Key::new(n, 3));
        let mut seen = vec![false; n as usize];
        for i in 0..n {
            let y = network.apply(i);
            assert!(!std::mem::replace(&mut seen[y as usize], true), "{y} comes twice, n = {n}");
            assert_eq!(network.invert(y), i);
        }
    }
}

#[test]
fn the_largest_sizes_neither_overflow_nor_hang() {
    for n in
        [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) + 1, (1 << 32) + 1, 1 << 32, u32::MAX as u64]
    {
        let network = Feistel::new(n, Key::new(1, 0));
        for i in (0..1000).flat_map(|i| [i, n - 1 - i, n / 2 + i]) {
            let y = network.apply(i);
            assert!(y < n);
            assert_eq!(network.invert(y), i);
        }
    }
}

#[test]
fn many_at_once_are_the_same_as_one_by_one() {
    for n in [7, 100, 1 << 20, (1 << 32) + 1] {
        let network = Feistel::new(n, Key::new(5, 5));
        let mut entries: Vec<_> = (0..n.min(1003)).map(SampleIndex).collect();
        network.apply_all(&mut entries);
        for (i, entry) in (0..).zip(entries) {
            assert_eq!(entry.0, network.apply(i));
        }
    }
}

/// Every number is equally likely at every place, over keys.
#[test]
fn positions_are_uniform() {
    for n in [7, 16, 17, 18, 30, 64, 101, 256] {
        let mut counts = vec![0; (n * n) as usize];
        for seed in 0..20_000 {
            for (place, y) in (0..).zip(order(n, seed)) {
                counts[(place * n + y) as usize] += 1;
            }
        }
        // Rows and columns are fixed sums, hence (n - 1)^2 degrees of freedom.
        let scaled = deviation(&counts, ((n - 1) * (n - 1)) as f64);
        assert!(scaled.abs() < 4.5, "n = {n}: {scaled}");
    }
}

/// Every ordered pair is equally likely to be neighbours, over keys.
#[test]
fn neighbours_are_uniform() {
    for n in [7, 16, 17, 18, 30, 64, 101, 256] {
        let mut counts = vec![0; (n * n) as usize];
        for seed in 0..20_000 {
            for pair in order(n, seed).windows(2) {
                counts[(pair[0] * n + pair[1]) as usize] += 1;
            }
        }
        let pairs: Vec<u64> =
            (0..n * n).filter(|i| i / n != i % n).map(|i| counts[i as usize]).collect();
        let scaled = deviation(&pairs, (n * (n - 1) - 1) as f64);
        assert!(scaled.abs() < 4.5, "n = {n}: {scaled}");
    }
}

/// Within one permutation, the distances of neighbours are spread like those of random pairs.
#[test]
fn distances_within_one_order_are_uniform() {
    for n in [500, 1000, 1024, 2000, 16_385, 100_003, 1 << 20] {
        let bins = 64;
        let mut counts = vec![0; bins as usize];
        for seed in 0..8 {
            for pair in order(n, seed).windows(2) {
                let distance = (pair[1] + n - pair[0]) % n;
                counts[((distance - 1) * bins / (n - 1)) as usize] += 1;
            }
        }
        let cells = |bin: u64| (0..n - 1).filter(|d| d * bins / (n - 1) == bin).count() as f64;
        let total: u64 = counts.iter().sum();
        let scaled: f64 = (0..bins)
            .map(|bin| {
                let expected = total as f64 * cells(bin) / (n - 1) as f64;
                (counts[bin as usize] as f64 - expected).powi(2) / expected
            })
            .sum();
        let spread = 2.0 / (9.0 * (bins - 1) as f64);
        let scaled = ((scaled / (bins - 1) as f64).cbrt() - (1.0 - spread)) / spread.sqrt();
        assert!(scaled.abs() < 4.5, "n = {n}: {scaled}");
    }
}
