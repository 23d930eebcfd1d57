use feedline_core::plan::{Boundary, Order, Part, Plan, PlanBuilder, PlanError, ShardSizes};

#[track_caller]
fn refused(builder: PlanBuilder, words: &[&str]) -> PlanError {
    let error = builder.build().expect_err("this cannot work");
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
    assert!(message.contains("pass "), "{message:?} does not say what to pass instead");
    error
}

fn weighted(weights: Vec<f64>, samples: u64, replacement: bool) -> PlanBuilder {
    Plan::builder(3).order(Order::Weighted { weights, samples, replacement })
}

#[test]
fn counts_of_zero_are_refused() {
    refused(Plan::builder(0), &["empty", "at least 1 sample"]);
    refused(Plan::builder(5).batch_size(0), &["batch_size", "got 0"]);
    refused(Plan::builder(5).rank(0, 0), &["world", "got 0"]);
    let windowed = |shards, window| Plan::builder(5).order(Order::Windowed { shards, window });
    refused(windowed(ShardSizes::Fixed(2), 0), &["window", "got 0"]);
    refused(windowed(ShardSizes::Fixed(0), 2), &["shard size", "got 0"]);
    refused(weighted(vec![1.0; 3], 0, true), &["samples", "got 0"]);
    let bucketed = Order::Bucketed { lengths: vec![1; 5], bucket_batches: 0 };
    refused(Plan::builder(5).order(bucketed), &["bucket_batches", "got 0"]);
    let mixed = Order::Mixed { parts: vec![Part { len: 5, weight: 1.0 }], samples: Some(0) };
    refused(Plan::builder(5).order(mixed), &["samples", "got 0"]);
}

#[test]
fn a_rank_outside_the_world_is_refused() {
    let error = refused(Plan::builder(5).rank(4, 4), &["rank", "got 4", "0..4"]);
    assert_eq!(error, PlanError::RankOutOfRange { rank: 4, world: 4 });
}

#[test]
fn dropping_everything_is_refused() {
    let builder = Plan::builder(63).batch_size(16).rank(1, 4).boundary(Boundary::Drop);
    refused(builder.clone(), &["63", "16", "4 ranks", "smaller batch", "Keep", "Pad"]);
    assert_eq!(builder.boundary(Boundary::Pad).build().unwrap().batches(), 1);
    let one = Plan::builder(1).batch_size(2).boundary(Boundary::Drop);
    refused(one, &["1 samples"]);
    assert_eq!(Plan::builder(1).build().unwrap().samples(), 1);
}

#[test]
fn epochs_beyond_64_bits_are_refused() {
    let builder = |n| Plan::builder(n).batch_size(1000).boundary(Boundary::Pad).rank(0, 3);
    refused(builder(u64::MAX), &["2^64", "Drop", "smaller"]);
    refused(builder(u64::MAX - 500), &["2^64"]);
    assert!(builder(1 << 63).build().is_ok());
    let huge = Plan::builder(5).batch_size(u64::MAX).rank(0, u64::MAX);
    refused(huge.clone().boundary(Boundary::Pad), &["2^64"]);
    refused(huge.clone().boundary(Boundary::Drop), &["5 samples"]);
    assert_eq!(huge.build().unwrap().samples(), 1);
}

#[test]
fn weights_that_are_no_weights_are_refused() {
    for replacement in [true, false] {
        for (bad, shown) in [(f64::NAN, "NaN"), (-0.5, "-0.5"), (f64::INFINITY, "inf")] {
            let builder = weighted(vec![1.0, bad, 1.0], 1, replacement);
            refused(builder, &["weight 1", shown, "finite"]);
        }
        refused(weighted(vec![0.0; 3], 1, replacement), &["all 3 weights are 0"]);
        refused(weighted(vec![1.0; 4], 1, replacement), &["weights", "4", "3 samples"]);
        refused(weighted(vec![], 1, replacement), &["weights has 0"]);
    }
    refused(weighted(vec![1.0, 0.0, 1.0], 3, false), &["3 samples", "2 positive", "replacement"]);
    assert!(weighted(vec![1.0, 0.0, 1.0], 3, true).build().is_ok());
    let too_large = Order::Weighted { weights: vec![], samples: 1, replacement: true };
    refused(Plan::builder((1 << 32) + 1).order(too_large), &["2^32", "4294967297"]);
}

#[test]
fn tables_that_do_not_fit_the_dataset_are_refused() {
    let subset = |indices| Plan::builder(5).order(Order::Subset { indices, shuffle: false });
    refused(subset(vec![]), &["empty", "at least 1 index"]);
    let error = refused(subset(vec![0, 4, 5, 9]), &["index 5", "position 2", "length 5"]);
    assert_eq!(error, PlanError::SubsetIndex { position: 2, value: 5, len: 5 });
    let sizes = |sizes| Order::Windowed { shards: ShardSizes::Sizes(sizes), window: 2 };
    refused(Plan::builder(5).order(sizes(vec![2, 2])), &["2 shards", "4", "5 samples"]);
    refused(Plan::builder(5).order(sizes(vec![u64::MAX, 6])), &["18446744073709551621"]);
    let bucketed = Order::Bucketed { lengths: vec![1; 4], bucket_batches: 1 };
    refused(Plan::builder(5).order(bucketed), &["lengths", "4", "5 samples"]);
    let bucketed = Order::Bucketed { lengths: vec![1; 4], bucket_batches: 1 };
    refused(Plan::builder(1 << 40).order(bucketed), &["bucketed", "2^32"]);
}

#[test]
fn mixtures_that_cannot_be_mixed_are_refused() {
    let mixed = |parts: &[(u64, f64)]| {
        let parts = parts.iter().map(|&(len, weight)| Part { len, weight }).collect();
        Plan::builder(5).order(Order::Mixed { parts, samples: None })
    };
    refused(mixed(&[(2, 1.0), (2, 1.0)]), &["2 parts", "4", "5 samples"]);
    refused(mixed(&[]), &["0 parts"]);
    refused(mixed(&[(2, 0.0), (3, 0.0)]), &["all 2 weights are 0"]);
    refused(mixed(&[(2, f64::NAN), (3, 1.0)]), &["weight 0", "NaN"]);
    refused(mixed(&[(0, 2.5), (5, 1.0)]), &["part 0", "empty", "2.5"]);
    assert!(mixed(&[(0, 0.0), (5, 1.0)]).build().is_ok());
}
