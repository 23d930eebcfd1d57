//! Whole epochs of the engine.

use std::hint::black_box;

use feedline_core::{
    Cause, DType, Dataset, Delivery, Field, Loader, LoaderBuilder, PolicyKind, Ragged, Sample,
    SampleIndex, Stage,
};

use crate::counting::{allocations, alone};

/// Batches per epoch, whatever their size.
const BATCHES: u64 = 40;
const SMALL: u64 = 8;
const LARGE: u64 = 256;
/// What one batch may allocate: its lists, its arrays' shapes, a shared pointer for each block.
const PER_BATCH: u64 = 64;
/// What an epoch may allocate besides: the plan's epoch, queues that grow now and then, and whatever
/// the test's own runner does in the meantime.
const PER_EPOCH: u64 = 64;

/// How many batches more or less than an epoch's may be worked on while it is delivered: read-ahead
/// may be full at its start and empty at its end, or the other way round.
const AHEAD: u64 = 4;

/// Fixed fields, written in place.
struct Fixed(u64);

impl Dataset for Fixed {
    fn len(&self) -> u64 {
        self.0
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("row", DType::I64, [8]), Field::fixed("label", DType::I64, [])]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let i = sample.index().0 as i64;
        sample.view::<i64>(0)?.fill(i);
        Ok(sample.put(1, &[i])?)
    }
}

/// Bytes are loaded first and decoded then.
struct Loaded(u64);

impl Dataset for Loaded {
    fn len(&self) -> u64 {
        self.0
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("sum", DType::U64, [])]
    }
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        raw.resize(100 + (index.0 % 400) as usize, index.0 as u8);
        Ok(())
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let sum: u64 = raw.iter().map(|byte| u64::from(*byte)).sum();
        sample.begin(Stage::Transform);
        Ok(sample.put(0, &[sum])?)
    }
}

/// Every kind of field whose length differs from sample to sample, and a fixed one.
struct Varying(u64);

impl Dataset for Varying {
    fn len(&self) -> u64 {
        self.0
    }
    fn fields(&self) -> Vec<Field> {
        let longest = Ragged::PadToLongest { fill: 0.0 };
        vec![
            Field::fixed("label", DType::I64, []),
            Field::ragged("tokens", DType::I32, [None], longest),
            Field::ragged("points", DType::F32, [None, Some(3)], Ragged::Packed),
            Field::text("caption"),
        ]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        const TEXT: &str = "what is written under the picture";
        let i = sample.index().0;
        let len = 1 + (i % 30) as usize;
        sample.put(0, &[i as i64])?;
        sample.put(1, &[7_i32; 30][..len])?;
        sample.put_shaped(2, &[len, 3], &[0.5_f32; 90][..3 * len])?;
        sample.put_bytes(3, &TEXT.as_bytes()[..len])?;
        Ok(())
    }
}

/// What the epochs 4, 5 and 6 allocate: the least of them. What is allocated per sample would be in
/// each; but when more batches than ever before happen to be under way at once, one epoch makes room
/// for them.
fn warm(loader: LoaderBuilder) -> u64 {
    let loader =
        loader.shuffle(5).prefetch(AHEAD as usize).build().expect("the settings are valid");
    assert_eq!(loader.len(), BATCHES);
    let epoch = || {
        for batch in loader.epoch() {
            black_box(batch.expect("no sample fails"));
        }
    };
    (0..3).for_each(|_| epoch());
    (0..3).map(|_| allocations(epoch)).min().unwrap_or(0)
}

/// Checks that 32 times as many samples in as many batches allocate no more.
#[track_caller]
fn assert_nothing_per_sample(what: &str, loader: impl Fn(u64) -> LoaderBuilder) {
    let _alone = alone();
    let small = warm(loader(SMALL * BATCHES).batch_size(SMALL));
    let large = warm(loader(LARGE * BATCHES).batch_size(LARGE));
    let samples = (LARGE - SMALL) * BATCHES;
    let slack = PER_EPOCH + 2 * AHEAD * PER_BATCH;
    assert!(slack < samples / 10, "the slack must not hide an allocation per sample");
    assert!(
        large <= small + slack,
        "{what}: {large} allocations per epoch, {small} with {samples} samples less"
    );
    assert!(
        small <= (BATCHES + AHEAD) * PER_BATCH + PER_EPOCH,
        "{what}: {small} for {BATCHES} batches"
    );
}

#[test]
fn fixed_fields_allocate_nothing_per_sample() {
    for workers in [0, 1, 2] {
        let loader = |n| Loader::builder(Fixed(n)).workers(workers);
        assert_nothing_per_sample(&format!("{workers} workers"), loader);
    }
}

#[test]
fn loaded_bytes_allocate_nothing_per_sample() {
    for workers in [0, 2] {
        let loader = |n| Loader::builder(Loaded(n)).workers(workers);
        assert_nothing_per_sample(&format!("{workers} workers"), loader);
    }
    let loader = |n| Loader::builder(Loaded(n)).workers(1).io_workers(1);
    assert_nothing_per_sample("1 thread loads, 1 builds", loader);
}

#[test]
fn fields_of_varying_length_allocate_nothing_per_sample() {
    for workers in [0, 2] {
        let loader = |n| Loader::builder(Varying(n)).workers(workers);
        assert_nothing_per_sample(&format!("{workers} workers"), loader);
    }
}

#[test]
fn ready_order_allocates_nothing_per_sample() {
    let loader = |n| Loader::builder(Fixed(n)).workers(2).delivery(Delivery::Ready { window: 4 });
    assert_nothing_per_sample("fixed", loader);
    let loader = |n| Loader::builder(Varying(n)).workers(2).delivery(Delivery::Ready { window: 4 });
    assert_nothing_per_sample("varying", loader);
}

#[test]
fn no_policy_allocates_per_sample() {
    for policy in PolicyKind::ALL {
        let loader = |n| Loader::builder(Fixed(n)).workers(2).policy(policy);
        assert_nothing_per_sample(policy.name(), loader);
    }
}

#[test]
fn a_pool_obtains_one_block_for_each_batch_under_way() {
    let _alone = alone();
    let loader = Loader::builder(Fixed(LARGE * BATCHES)).batch_size(LARGE).workers(2).prefetch(4);
    let loader = loader.build().expect("the settings are valid");
    for _ in 0..6 {
        loader.epoch().for_each(|batch| drop(batch.expect("no sample fails")));
    }
    let memory = loader.stats().memory;
    // Four begun ahead, and one in the consumer's hands.
    assert!(memory.allocated_blocks <= 5, "{memory:?}");
    assert!(memory.reused_blocks >= 6 * BATCHES - 5, "{memory:?}");
}
