use std::collections::HashMap;

use feedline_core::plan::Order;

use crate::statistics::{assert_plausible, chi_square, uniform};
use crate::{samples, whole};

fn weighted(weights: &[f64], samples: u64, replacement: bool) -> Order {
    Order::Weighted { weights: weights.to_vec(), samples, replacement }
}

#[test]
fn frequencies_with_replacement_match_the_weights() {
    let skewed: Vec<f64> = (1..=50).map(|i| f64::from(i).powi(-1)).collect();
    let holes: Vec<f64> = (0..64).map(|i| f64::from(i % 4)).collect();
    for weights in [vec![1.0; 10], vec![1.0, 2.0, 3.0, 4.0], skewed, holes] {
        let draws = 200_000;
        let plan = whole(weights.len() as u64, weighted(&weights, draws, true), 9);
        let mut counts = vec![0; weights.len()];
        samples(&plan.epoch(4)).iter().for_each(|&sample| counts[sample as usize] += 1);
        let total: f64 = weights.iter().sum();
        let positive = |i: &usize| weights[*i] > 0.0;
        let observed: Vec<u64> = (0..weights.len()).filter(positive).map(|i| counts[i]).collect();
        let expected: Vec<f64> =
            weights.iter().filter(|&&w| w > 0.0).map(|w| w / total * draws as f64).collect();
        assert_eq!(observed.iter().sum::<u64>(), draws);
        let degrees = observed.len() as f64 - 1.0;
        assert_plausible(chi_square(&observed, &expected, degrees), "frequencies");
    }
}

#[test]
fn draws_with_replacement_are_independent_of_each_other_and_of_the_last_epoch() {
    let plan = whole(8, weighted(&[1.0; 8], 50_000, true), 0);
    let (first, second) = (samples(&plan.epoch(0)), samples(&plan.epoch(1)));
    let joint = |pairs: &mut dyn Iterator<Item = (&u64, &u64)>| {
        let mut counts = vec![0; 64];
        pairs.for_each(|(x, y)| counts[(x * 8 + y) as usize] += 1);
        uniform(&counts, 63.0)
    };
    assert_plausible(joint(&mut first.iter().zip(&first[1..])), "successive draws");
    assert_plausible(joint(&mut first.iter().zip(&second)), "successive epochs");
}

/// The probability of drawing `order` one by one, each by weight among the rest.
fn probability(order: &[u64], weights: &[f64]) -> f64 {
    let mut left: f64 = weights.iter().sum();
    order.iter().fold(1.0, |probability, &sample| {
        let weight = weights[sample as usize];
        let now = probability * weight / left;
        left -= weight;
        now
    })
}

/// All orders of `count` different samples out of `n`.
fn arrangements(n: u64, count: usize) -> Vec<Vec<u64>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = arrangements(n, count - 1);
    let extend = |order: &Vec<u64>| {
        let order = order.clone();
        let next = (0..n).filter(move |sample| !order.contains(sample));
        next.collect::<Vec<_>>()
    };
    shorter
        .iter()
        .flat_map(|order| extend(order).into_iter().map(move |next| [&order[..], &[next]].concat()))
        .collect()
}

#[test]
fn orders_without_replacement_have_the_probability_of_drawing_one_by_one() {
    let weights = [1.0, 2.0, 3.0, 6.0];
    for count in 1..=4 {
        let plan = whole(4, weighted(&weights, count as u64, false), 3);
        let draws = 40_000;
        let mut counts: HashMap<Vec<u64>, u64> = HashMap::new();
        for epoch in 0..draws {
            *counts.entry(samples(&plan.epoch(epoch))).or_default() += 1;
        }
        let orders = arrangements(4, count);
        let observed: Vec<u64> =
            orders.iter().map(|order| counts.get(order).copied().unwrap_or(0)).collect();
        let expected: Vec<f64> =
            orders.iter().map(|order| probability(order, &weights) * draws as f64).collect();
        assert!((expected.iter().sum::<f64>() - draws as f64).abs() < 1e-6);
        let degrees = orders.len() as f64 - 1.0;
        assert_plausible(chi_square(&observed, &expected, degrees), &format!("{count} of 4"));
    }
}

#[test]
fn equal_weights_without_replacement_are_a_shuffle() {
    let plan = whole(5, weighted(&[0.3; 5], 5, false), 8);
    let mut counts: HashMap<Vec<u64>, u64> = HashMap::new();
    for epoch in 0..24_000 {
        *counts.entry(samples(&plan.epoch(epoch))).or_default() += 1;
    }
    assert_eq!(counts.len(), 120);
    assert_plausible(uniform(&counts.into_values().collect::<Vec<_>>(), 119.0), "orders of 5");
}

/// Weights beyond the range of 4-byte floats keep their order of magnitude.
#[test]
fn a_tiny_weight_comes_last_but_comes() {
    let plan = whole(3, weighted(&[1e-300, 1e300, 1e-290], 3, false), 1);
    for epoch in 0..50 {
        assert_eq!(samples(&plan.epoch(epoch))[0], 1);
    }
}
