//! The smallest program: a dataset of ten lines, what was measured, and the verdict.
//!
//!     cargo run --release --example squares
#![allow(clippy::print_stdout, reason = "a program talks to its user")]

use feedline::{Cause, DType, Dataset, Field, Loader, Sample};

struct Squares;

impl Dataset for Squares {
    fn len(&self) -> u64 {
        100_000
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("square", DType::U64, [])]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let i = sample.index().0;
        Ok(sample.put(0, &[i * i])?)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loader = Loader::builder(Squares).batch_size(256).shuffle(42).workers(2).build()?;
    let mut sum = 0;
    for batch in loader.epoch() {
        let batch = batch?;
        let squares = batch.get("square").ok_or("the dataset declares it")?;
        sum += squares.as_slice::<u64>()?.iter().sum::<u64>();
    }
    assert_eq!(sum, (0..100_000).map(|i| i * i).sum::<u64>());

    let stats = loader.stats();
    println!("sum of squares: {sum}");
    for worker in &stats.workers {
        let busy_ms = worker.busy_ns as f64 / 1e6;
        println!("worker {}: {} samples in {busy_ms:.1} ms", worker.worker, worker.samples);
    }
    println!("{}", stats.explain());
    Ok(())
}

#[test]
fn the_sum_is_right() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
