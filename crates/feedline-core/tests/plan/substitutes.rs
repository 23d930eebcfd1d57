use std::collections::HashSet;

use feedline_core::plan::{Order, Part, Plan, Position};

use crate::statistics::{assert_plausible, uniform};
use crate::whole;

#[test]
fn a_substitute_is_never_the_failed_sample_and_attempts_differ() {
    for n in [2_u64, 3, 17, 300] {
        let epoch = whole(n, Order::Shuffled, 6).epoch(2);
        for position in (0..n).map(Position) {
            let failed = epoch.index(position);
            let attempts = (n - 1).min(40) as u32;
            let tried: HashSet<_> = (0..attempts).map(|a| epoch.substitute(position, a)).collect();
            assert!(!tried.contains(&failed));
            assert_eq!(tried.len(), attempts as usize, "attempts repeat each other");
            assert!(tried.iter().all(|sample| sample.0 < n));
        }
    }
}

#[test]
fn substitutes_are_uniform_over_the_dataset() {
    let epoch = whole(1_000, Order::Shuffled, 1).epoch(0);
    let mut counts = vec![0; 20];
    for position in 0..1_000 {
        for attempt in 0..40 {
            counts[(epoch.substitute(Position(position), attempt).0 / 50) as usize] += 1;
        }
    }
    assert_plausible(uniform(&counts, 19.0), "substitutes");
}

#[test]
fn a_substitute_depends_on_seed_epoch_rank_position_and_attempt_only() {
    let plan = |seed, batch, rank| {
        let builder = Plan::builder(1 << 40).order(Order::Sequential).seed(seed);
        builder.batch_size(batch).rank(rank, 4).build().unwrap()
    };
    let first = plan(1, 8, 2).substitute(3, Position(5), 0);
    assert_eq!(plan(1, 16, 2).substitute(3, Position(5), 0), first);
    assert_eq!(plan(1, 8, 2).epoch(3).substitute(Position(5), 0), first);
    for other in [
        plan(2, 8, 2).substitute(3, Position(5), 0),
        plan(1, 8, 1).substitute(3, Position(5), 0),
        plan(1, 8, 2).substitute(4, Position(5), 0),
        plan(1, 8, 2).substitute(3, Position(6), 0),
        plan(1, 8, 2).substitute(3, Position(5), 1),
    ] {
        assert_ne!(other, first);
    }
}

/// A training split must not be padded from the validation split.
#[test]
fn a_substitute_stays_within_the_order() {
    let subset =
        whole(100, Order::Subset { indices: vec![3, 50, 3, 70], shuffle: true }, 0).epoch(0);
    let weights = vec![0.0, 1e12, 0.0, 1.0, 0.0];
    let draws = Order::Weighted { weights: weights.clone(), samples: 50, replacement: true };
    let draws = whole(5, draws, 0).epoch(0);
    let single = whole(5, Order::Weighted { weights, samples: 1, replacement: false }, 0).epoch(0);
    let parts = vec![Part { len: 5, weight: 0.0 }, Part { len: 2, weight: 1.0 }];
    let mixed = whole(7, Order::Mixed { parts, samples: Some(9) }, 0).epoch(0);
    for (epoch, allowed) in
        [(subset, vec![3, 50, 70]), (draws, vec![1, 3]), (single, vec![1, 3]), (mixed, vec![5, 6])]
    {
        for position in (0..epoch.plan().samples()).map(Position) {
            for attempt in 0..20 {
                let substitute = epoch.substitute(position, attempt);
                assert!(allowed.contains(&substitute.0), "{substitute:?} is not in {epoch:?}");
                assert_ne!(substitute, epoch.index(position));
            }
        }
    }
}

#[test]
fn where_there_is_no_other_sample_the_same_comes_back() {
    assert_eq!(whole(1, Order::Shuffled, 0).substitute(0, Position(0), 9).0, 0);
    let subset = whole(9, Order::Subset { indices: vec![4; 5], shuffle: false }, 0);
    assert_eq!(subset.substitute(0, Position(2), 0).0, 4);
}
