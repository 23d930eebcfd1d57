use feedline_core::plan::{Order, Part, Plan};
use proptest::prelude::*;

use crate::{samples, whole};

/// Largest remainder for integer weights, in exact fractions.
fn quotas(weights: &[u64], total: u64) -> Vec<u64> {
    let sum: u64 = weights.iter().sum();
    let mut quotas: Vec<u64> = weights.iter().map(|weight| weight * total / sum).collect();
    while quotas.iter().sum::<u64>() < total {
        // The part with the largest remainder that has not been rounded up yet; the first of equals.
        let due = (0..weights.len())
            .filter(|&i| quotas[i] * sum <= weights[i] * total)
            .rev()
            .max_by_key(|&i| weights[i] * total % sum);
        quotas[due.unwrap()] += 1;
    }
    quotas
}

fn mixed(lens: &[u64], weights: &[u64], samples: Option<u64>, seed: u64) -> Plan {
    let parts = lens.iter().zip(weights).map(|(&len, &weight)| Part { len, weight: weight as f64 });
    whole(lens.iter().sum(), Order::Mixed { parts: parts.collect(), samples }, seed)
}

fn part_of(lens: &[u64], sample: u64) -> (usize, u64) {
    let mut first = 0;
    for (part, len) in lens.iter().enumerate() {
        if sample < first + len {
            return (part, sample - first);
        }
        first += len;
    }
    panic!("sample {sample} is outside the dataset");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_part_gets_its_exact_quota_and_passes_go_on_across_epochs(
        parts in prop::collection::vec((1..60_u64, 0..8_u64), 1..6),
        samples_wanted in prop::option::of(1..200_u64),
        epochs in 1..6_u64,
        seed: u64,
    ) {
        let (lens, weights): (Vec<u64>, Vec<u64>) = parts.into_iter().unzip();
        prop_assume!(weights.iter().any(|&weight| weight > 0));
        let plan = mixed(&lens, &weights, samples_wanted, seed);
        let total = samples_wanted.unwrap_or(lens.iter().sum());
        prop_assert_eq!(plan.samples(), total);
        let expected = quotas(&weights, total);
        let mut seen: Vec<Vec<u64>> = lens.iter().map(|&len| vec![0; len as usize]).collect();
        for epoch in 0..epochs {
            let mut counts = vec![0; lens.len()];
            for sample in samples(&plan.epoch(epoch)) {
                let (part, offset) = part_of(&lens, sample);
                counts[part] += 1;
                seen[part][offset as usize] += 1;
            }
            prop_assert_eq!(&counts, &expected);
        }
        // Complete passes and one begun: no sample of a part comes twice more often than another.
        for (part, seen) in seen.iter().enumerate() {
            let taken = epochs * expected[part];
            let (low, high) = (taken / lens[part], taken.div_ceil(lens[part]));
            prop_assert!(seen.iter().all(|&times| times == low || times == high));
        }
    }
}

#[test]
fn quotas_are_exact_for_awkward_weights() {
    let count = |weights: &[f64], samples: u64| {
        let parts: Vec<Part> = weights.iter().map(|&weight| Part { len: 1000, weight }).collect();
        let n = parts.len() as u64 * 1000;
        let plan = whole(n, Order::Mixed { parts, samples: Some(samples) }, 1);
        let mut counts = vec![0; weights.len()];
        crate::samples(&plan.epoch(0))
            .iter()
            .for_each(|sample| counts[(sample / 1000) as usize] += 1);
        counts
    };
    assert_eq!(count(&[0.1, 0.2, 0.7], 10), [1, 2, 7]);
    assert_eq!(count(&[1.0, 1.0, 1.0], 100), [34, 33, 33]);
    assert_eq!(count(&[1e308, 1e308], 10), [5, 5]);
    assert_eq!(count(&[5e-324, 1e-323], 9), [3, 6]);
    assert_eq!(count(&[1.0, 1e-300], 1000), [1000, 0]);
}

/// The arrangement is a shuffle of the epoch: parts do not come in blocks.
#[test]
fn parts_are_spread_over_the_epoch() {
    let plan = mixed(&[10_000, 10_000], &[1, 3], None, 4);
    let epoch = samples(&plan.epoch(0));
    for tenth in epoch.chunks(2_000) {
        let first = tenth.iter().filter(|&&sample| sample < 10_000).count() as f64;
        assert!((first - 500.0).abs() < 4.5 * (2_000.0_f64 * 0.25 * 0.75).sqrt());
    }
}
