//! Passes that are changed: what must come is told by the standard library's iterators.

use std::sync::Arc;

use feedline_core::{Cause, DType, Dataset, Field, Iterable, Loader, Pass, Sample, Samples, State};
use feedline_sources::{Concat, Iterated, PassChange, SourceError};

/// The numbers below `n`; `fails` is one that cannot be read. Iterators can tell where they are.
struct Numbers {
    n: u64,
    fails: Option<u64>,
}

impl Dataset for Numbers {
    fn len(&self) -> u64 {
        0
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("x", DType::U64, [])]
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        Ok(sample.put_bytes(0, raw)?)
    }
    fn iterable(&self) -> Option<&dyn Iterable> {
        Some(self)
    }
}

impl Iterable for Numbers {
    fn iterate(&self, _: Pass) -> Result<Box<dyn Samples>, Cause> {
        Ok(Box::new(Counting { n: self.n, fails: self.fails, at: 0 }))
    }
}

struct Counting {
    n: u64,
    fails: Option<u64>,
    at: u64,
}

impl Samples for Counting {
    fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
        let next = self.at;
        self.at += 1;
        if self.fails == Some(next) {
            return Err("cannot be read".into());
        }
        raw.extend(next.to_ne_bytes());
        Ok(next < self.n)
    }
    fn state(&mut self) -> Result<Option<String>, Cause> {
        Ok(Some(self.at.to_string()))
    }
    fn restore(&mut self, state: &str, _: u64) -> Result<bool, Cause> {
        self.at = state.parse()?;
        Ok(true)
    }
}

fn loader(n: u64, changes: &[PassChange], from: Option<&State>) -> Loader {
    let dataset = Iterated::new(Arc::new(Numbers { n, fails: None }), changes.to_vec());
    let builder = Loader::builder(dataset).batch_size(3).seed(4).workers(1);
    match from {
        Some(state) => builder.resume(state.clone()),
        None => builder,
    }
    .build()
    .unwrap()
}

fn numbers(loader: &Loader) -> Vec<u64> {
    let batches = loader.epoch().map(|batch| batch.unwrap());
    batches.flat_map(|batch| batch.get("x").unwrap().as_slice::<u64>().unwrap().to_vec()).collect()
}

#[test]
fn taking_and_skipping_are_those_of_iterators_in_any_order() {
    for (n, a, b) in [(10, 3, 5), (10, 20, 2), (10, 0, 4), (2, 1, 1), (0, 2, 2)] {
        let taken: Vec<u64> = (0..n).take(a as usize).skip(b as usize).collect();
        assert_eq!(numbers(&loader(n, &[PassChange::Take(a), PassChange::Skip(b)], None)), taken);
        let skipped: Vec<u64> = (0..n).skip(b as usize).take(a as usize).collect();
        assert_eq!(numbers(&loader(n, &[PassChange::Skip(b), PassChange::Take(a)], None)), skipped);
    }
}

#[test]
fn a_resumed_pass_goes_on_where_it_was_through_any_change() {
    for changes in [
        vec![PassChange::Skip(4), PassChange::Take(15)],
        vec![PassChange::Take(15), PassChange::Skip(4)],
        vec![PassChange::Shuffle(5), PassChange::Take(10)],
        vec![PassChange::Skip(2), PassChange::Shuffle(5)],
    ] {
        let whole = numbers(&loader(20, &changes, None));
        let first = loader(20, &changes, None);
        first.epoch().take(2).for_each(drop);
        let rest = numbers(&loader(20, &changes, Some(&first.state())));
        assert_eq!(rest, whole[6..], "{changes:?}");
    }
}

#[test]
fn a_buffer_shuffles_each_epoch_anew_and_loses_nothing() {
    let shuffled = loader(50, &[PassChange::Shuffle(8)], None);
    let epochs = [numbers(&shuffled), numbers(&shuffled)];
    assert_ne!(epochs[0], epochs[1]);
    for epoch in &epochs {
        assert!(epoch.iter().zip(0..).all(|(number, place)| *number < place + 8), "{epoch:?}");
        let mut sorted = epoch.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..50));
    }
    assert_eq!(
        numbers(&loader(50, &[PassChange::Shuffle(8)], None)),
        epochs[0],
        "by its seed alone"
    );
    let twice = numbers(&loader(50, &[PassChange::Shuffle(8), PassChange::Shuffle(8)], None));
    assert!(twice.iter().zip(0..).all(|(number, place)| *number < place + 15));
    assert_ne!(twice, epochs[0]);
}

#[test]
fn what_waits_in_a_buffer_comes_before_an_error() {
    let dataset = Arc::new(Numbers { n: 9, fails: Some(5) });
    let dataset = Iterated::new(dataset, vec![PassChange::Shuffle(100)]);
    let loader = Loader::builder(dataset).workers(1).build().unwrap();
    let outcomes: Vec<bool> = loader.epoch().map(|batch| batch.is_ok()).collect();
    assert_eq!(outcomes, [true, true, true, true, true, false, true, true, true]);
}

#[test]
fn datasets_of_unknown_length_are_not_appended() {
    let part: Arc<dyn Dataset> = Arc::new(Numbers { n: 3, fails: None });
    let refused = Concat::new(vec![part]).err().unwrap();
    assert!(matches!(refused, SourceError::UnknownLength { what: "concat" }), "{refused}");
}
