//! Stops in the middle of an epoch, saves the state as JSON, and goes on in a new loader with another
//! number of workers: exactly the batches that were missing come.
//!
//!     cargo run --release --example checkpoint
#![allow(clippy::print_stdout, reason = "a program talks to its user")]

use feedline::{BuildError, Cause, DType, Dataset, Field, Loader, Sample, State};

struct Numbers;

impl Dataset for Numbers {
    fn len(&self) -> u64 {
        1000
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("number", DType::U64, [])]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let i = sample.index().0;
        Ok(sample.put(0, &[i])?)
    }
}

/// The loader of both runs; only what may differ is an argument.
fn loader(workers: usize, state: Option<State>) -> Result<Loader, BuildError> {
    let builder = Loader::builder(Numbers).batch_size(100).shuffle(7).workers(workers);
    match state {
        Some(state) => builder.resume(state).build(),
        None => builder.build(),
    }
}

/// The numbers in the next `batches` batches of the epoch.
fn numbers(loader: &Loader, batches: usize) -> Result<Vec<Vec<u64>>, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    for batch in loader.epoch().take(batches) {
        let batch = batch?;
        let numbers = batch.get("number").ok_or("the dataset declares it")?;
        all.push(numbers.as_slice::<u64>()?.to_vec());
    }
    Ok(all)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uninterrupted = numbers(&loader(1, None)?, usize::MAX)?;

    // The state is taken while the epoch runs, between two batches.
    let first = loader(2, None)?;
    let mut epoch = first.epoch();
    for _ in 0..4 {
        epoch.next().ok_or("the epoch has ten batches")??;
    }
    let saved = serde_json::to_string(&first.state())?;
    drop(epoch);
    println!("after 4 of {} batches: {saved}", first.len());

    let state: State = serde_json::from_str(&saved)?;
    let resumed = numbers(&loader(4, Some(state))?, usize::MAX)?;
    assert_eq!(resumed, uninterrupted[4..]);
    println!("the other {} came after resuming, the very same", resumed.len());
    for (number, batch) in resumed.iter().enumerate() {
        println!("  batch {}: {:?} ...", number + 4, &batch[..6]);
    }
    Ok(())
}

#[test]
fn the_missing_batches_come() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
