//! Refusals that say what to pass instead.

use std::time::Duration;

use feedline_core::{
    Boundary, Cause, DType, Dataset, Delivery, Field, Loader, LoaderBuilder, Order, Ragged, Sample,
};

use crate::common::numbers;

fn refusal(builder: LoaderBuilder) -> String {
    builder.build().expect_err("must be refused").to_string()
}

#[test]
fn impossible_settings_are_refused_with_advice() {
    let base = || Loader::builder(numbers(10)).batch_size(4).workers(1);
    let ready = |window| Delivery::Ready { window };
    let cases = [
        (base().batch_size(0), "batch"),
        (base().batch_size(1 << 40), "at most"),
        (base().rank(2, 2), "rank"),
        (base().rank(0, 0), "world"),
        (base().prefetch(0), "`prefetch` must be at least 1"),
        (base().delivery(ready(0)), "`window` must be at least 1"),
        (base().memory(10), "raise it to at least"),
        (base().epochs(0), "`epochs` must be at least 1"),
        (base().workers(1 << 20), "at most 4096"),
        (base().workers(0).sample_timeout(Duration::from_secs(1)), "at least 1 worker"),
        (base().workers(0).io_workers(1), "at least 1 worker"),
        (base().sample_timeout(Duration::ZERO), "at least 1"),
        (base().boundary(Boundary::Drop).batch_size(11), "batch"),
        (Loader::builder(numbers(0)).workers(1), "empty"),
        (
            base().order(Order::Weighted { weights: vec![1.0; 3], samples: 3, replacement: true }),
            "10",
        ),
        (
            base().order(Order::Weighted {
                weights: vec![f64::NAN; 10],
                samples: 3,
                replacement: true,
            }),
            "NaN",
        ),
    ];
    for (i, (builder, advice)) in cases.into_iter().enumerate() {
        let text = refusal(builder);
        assert!(text.to_lowercase().contains(&advice.to_lowercase()), "case {i}: {text}");
    }
}

#[test]
fn one_sample_and_a_huge_dataset_work() {
    let loader = Loader::builder(numbers(1)).batch_size(64).shuffle(0).workers(2).build().unwrap();
    assert_eq!(crate::common::epoch(&loader), [[0]]);
    // Samples of a dataset of 2^62 are made on demand; the plan takes no memory for it.
    let loader =
        Loader::builder(numbers(1 << 62)).batch_size(8).shuffle(0).workers(2).build().unwrap();
    let batch = loader.epoch().next().unwrap().unwrap();
    assert_eq!(batch.len(), 8);
}

struct Fields(Vec<Field>);

impl Dataset for Fields {
    fn len(&self) -> u64 {
        1
    }
    fn fields(&self) -> Vec<Field> {
        self.0.clone()
    }
    fn build(&self, _raw: &[u8], _sample: &mut Sample<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn impossible_fields_are_refused_with_advice() {
    let refuse = |fields| refusal(Loader::builder(Fields(fields)).workers(0));
    assert!(refuse(vec![]).contains("at least one"));
    let twice = vec![Field::bytes("a"), Field::text("a")];
    assert!(refuse(twice).contains("`a`"));
    let huge = vec![Field::fixed("huge", DType::F64, [usize::MAX, 2])];
    assert!(refuse(huge).contains("too large"));
    let even = vec![Field::ragged("r", DType::F32, [Some(2)], Ragged::Packed)];
    assert!(refuse(even).contains("Field::fixed"));
    let inner = vec![Field::ragged("r", DType::F32, [None, None], Ragged::Packed)];
    assert!(refuse(inner).contains("first axis"));
    let pad = Ragged::PadTo { shape: vec![1, 2, 3], fill: 0.0 };
    assert!(refuse(vec![Field::ragged("r", DType::F32, [None], pad)]).contains("cannot pad"));
}

#[test]
fn read_ahead_is_as_deep_as_is_cheap() {
    // 24 bytes of rows and 4 of x per sample: 28 MB for a million of them.
    for (batch_size, workers, memory, expected) in [
        (64, 1, None, 4),
        (64, 8, None, 8),
        (1_000_000, 8, None, 3),
        (2_000_000, 8, None, 2),
        (100_000_000, 2, None, 2),
        (3, 8, None, 8),
        (2_000_000, 8, Some(1 << 30), 8),
        (64, 0, None, 1),
    ] {
        let mut builder = Loader::builder(numbers(1 << 40)).batch_size(batch_size).workers(workers);
        if let Some(memory) = memory {
            builder = builder.memory(memory);
        }
        let prefetch = builder.build().unwrap().stats().prefetch;
        assert_eq!(prefetch, expected, "{batch_size} samples, {workers} workers, {memory:?}");
    }
}
