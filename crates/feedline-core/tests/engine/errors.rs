//! Failing, panicking and hanging samples.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use feedline_core::{
    Cause, DType, Dataset, Delivery, Error, Failure, Field, Loader, LoaderBuilder, OnError,
    PolicyKind, Sample, SampleIndex, Stage,
};

use crate::common::{Numbers, flat, outcomes, samples};

/// Samples 5 and 13 fail, 21 panics.
fn bad() -> Numbers {
    Numbers {
        n: 40,
        does: |i| match i {
            5 | 13 => Err(format!("bad bytes at {i}").into()),
            21 => panic!("lost my head"),
            _ => Ok(()),
        },
    }
}

const BAD: [u64; 3] = [5, 13, 21];

fn all_modes(set: impl Fn(LoaderBuilder) -> LoaderBuilder) -> Vec<(String, Loader)> {
    let mut loaders = Vec::new();
    for (workers, io) in [(0, 0), (1, 0), (3, 0), (2, 2)] {
        for ready in [false, true] {
            let mut builder =
                Loader::builder(bad()).batch_size(8).workers(workers).io_workers(io).prefetch(3);
            if ready {
                builder = builder.delivery(Delivery::Ready { window: 4 });
            }
            let name = format!("{workers} workers, {io} io, ready {ready}");
            loaders.push((name, set(builder).build().unwrap()));
        }
    }
    loaders
}

#[test]
fn raise_costs_the_batch_and_not_the_epoch() {
    for (name, loader) in all_modes(|b| b) {
        let outcomes = outcomes(&loader);
        assert_eq!(outcomes.len(), 5, "{name}");
        let mut good = BTreeSet::new();
        for outcome in outcomes {
            match outcome {
                Ok(samples) => good.extend(samples),
                Err(Error::Sample(error)) => {
                    assert!(BAD.contains(&error.index.0), "{name}: {error}");
                    assert_eq!(error.stage, Stage::Decode);
                    assert_eq!(error.origin, Some(format!("number {}", error.index.0)));
                    let text = error.to_string();
                    if error.index.0 == 21 {
                        assert_eq!(error.failure, Failure::Panic);
                        assert!(
                            text.contains("panicked") && text.contains("lost my head"),
                            "{text}"
                        );
                    } else {
                        assert_eq!(error.failure, Failure::Error);
                        assert!(text.contains("bad bytes") && text.contains("decode"), "{text}");
                    }
                }
                Err(other) => panic!("{name}: {other}"),
            }
        }
        assert!(BAD.iter().all(|i| !good.contains(i)));
        assert!(good.len() >= 40 - 3 * 8, "{name}: only batches with a bad sample fail");
    }
}

#[test]
fn skip_shortens_the_batch_and_keeps_the_count() {
    for (name, loader) in all_modes(|b| b.on_error(OnError::Skip)) {
        let batches: Vec<_> = outcomes(&loader).into_iter().map(Result::unwrap).collect();
        assert_eq!(batches.len(), 5, "{name}");
        let expected: Vec<u64> = (0..40).filter(|i| !BAD.contains(i)).collect();
        assert_eq!(flat(&batches), expected, "{name}");
        let listed: BTreeSet<u64> = loader.errors().iter().map(|e| e.index.0).collect();
        assert!(listed.is_superset(&BAD.into()), "{name}: {listed:?}");
    }
}

#[test]
fn a_batch_of_failures_alone_is_delivered_empty() {
    let dataset = Numbers { n: 8, does: |i| if i < 4 { Err("no".into()) } else { Ok(()) } };
    let loader =
        Loader::builder(dataset).batch_size(4).on_error(OnError::Skip).workers(2).build().unwrap();
    let batches: Vec<_> = loader.epoch().map(Result::unwrap).collect();
    assert_eq!(batches.len(), 2);
    assert!(batches[0].is_empty());
    assert_eq!(batches[0].get("row").unwrap().shape(), [0, 3]);
    assert_eq!(batches[1].len(), 4);
}

#[test]
fn replace_keeps_batches_full_with_the_same_substitutes_everywhere() {
    let mut seen = BTreeSet::new();
    for (name, loader) in all_modes(|b| b.on_error(OnError::Replace)) {
        let batches: Vec<_> = outcomes(&loader).into_iter().map(Result::unwrap).collect();
        assert!(batches.iter().all(|b| b.len() == 8), "{name}");
        assert!(flat(&batches).iter().all(|i| !BAD.contains(i)), "{name}");
        let mut errors: Vec<_> = loader
            .errors()
            .iter()
            .filter(|e| e.epoch == 0)
            .map(|e| (e.index.0, e.replaced_by.expect("replaced").0))
            .collect();
        errors.sort_unstable();
        errors.dedup();
        seen.insert(errors);
        seen.insert(flat(&batches).into_iter().map(|i| (i, 0)).collect());
    }
    // One list of substitutes and one multiset of samples, however they were made.
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn too_many_errors_are_an_error_themselves() {
    for workers in [0, 2] {
        let dataset =
            Numbers { n: 100, does: |i| if i % 2 == 0 { Err("odd only".into()) } else { Ok(()) } };
        let loader = Loader::builder(dataset)
            .batch_size(10)
            .on_error(OnError::Skip)
            .max_errors(7)
            .workers(workers)
            .build()
            .unwrap();
        let first_too_many = loader.epoch().find_map(Result::err).expect("50 errors, 7 allowed");
        assert!(
            matches!(first_too_many, Error::TooManyErrors { limit: 7, .. }),
            "{first_too_many}"
        );
        assert!(first_too_many.to_string().contains("max_errors"), "{first_too_many}");
    }
}

#[test]
fn errors_count_in_the_order_of_delivery_whichever_came_first() {
    let begun = Arc::new((Mutex::new(false), Condvar::new()));
    let does = move |i| {
        let (begun, changed) = &*begun;
        match i {
            // Fails when sample 2 has failed, and sample 4 is being made.
            0 => drop(changed.wait_while(begun.lock().unwrap(), |begun| !*begun).unwrap()),
            4 => {
                *begun.lock().unwrap() = true;
                changed.notify_all();
            }
            _ => {}
        }
        if i == 0 || i == 2 { Err::<(), Cause>(format!("bad {i}").into()) } else { Ok(()) }
    };
    let loader = Loader::builder(Numbers { n: 6, does })
        .batch_size(2)
        .on_error(OnError::Skip)
        .max_errors(1)
        .workers(2)
        .policy(PolicyKind::Central)
        .prefetch(4)
        .epochs(1)
        .build()
        .unwrap();
    let mut epoch = loader.epoch();
    assert_eq!(samples(&epoch.next().unwrap().unwrap()), [1], "one may fail");
    let failed = || loader.errors().iter().map(|error| error.index.0).collect::<Vec<_>>();
    assert_eq!(failed(), [0], "the others are not delivered");
    match epoch.next() {
        Some(Err(Error::TooManyErrors { count: 2, last, .. })) => assert_eq!(last.index.0, 2),
        other => panic!("{other:?}"),
    }
    assert_eq!(samples(&epoch.next().unwrap().unwrap()), [4, 5]);
    assert_eq!(failed(), [0, 2]);
}

#[test]
fn of_several_errors_in_a_batch_the_first_in_order_is_raised_whichever_came_first() {
    let begun = Arc::new((Mutex::new(false), Condvar::new()));
    let does = move |i| {
        let (begun, changed) = &*begun;
        match i {
            // Fails when sample 1 has failed, and sample 2 is being made.
            0 => drop(changed.wait_while(begun.lock().unwrap(), |begun| !*begun).unwrap()),
            2 => {
                *begun.lock().unwrap() = true;
                changed.notify_all();
            }
            _ => {}
        }
        if i < 2 { Err::<(), Cause>(format!("bad {i}").into()) } else { Ok(()) }
    };
    let loader = Loader::builder(Numbers { n: 3, does })
        .batch_size(3)
        .workers(2)
        .policy(PolicyKind::Central)
        .epochs(1)
        .build()
        .unwrap();
    match loader.epoch().next() {
        Some(Err(Error::Sample(error))) => assert_eq!(error.index.0, 0),
        other => panic!("{other:?}"),
    }
    let failed: Vec<u64> = loader.errors().iter().map(|error| error.index.0).collect();
    assert_eq!(failed, [0, 1]);
}

#[test]
fn when_everything_fails_replacing_gives_up_with_the_first_cause() {
    let dataset = Numbers { n: 4, does: |i| Err(format!("broken {i}").into()) };
    let loader = Loader::builder(dataset)
        .batch_size(4)
        .on_error(OnError::Replace)
        .workers(1)
        .build()
        .unwrap();
    match loader.epoch().next() {
        Some(Err(Error::Sample(error))) => assert_eq!(error.index.0, 0),
        other => panic!("{other:?}"),
    }
}

/// Sample 3 hangs until it is let go.
struct Hangs {
    go: Arc<AtomicBool>,
    stage: Stage,
}

impl Hangs {
    fn hang(&self, index: u64, stage: Stage) {
        while index == 3 && stage == self.stage && !self.go.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Dataset for Hangs {
    fn len(&self) -> u64 {
        24
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("i", DType::U64, [])]
    }
    fn load(&self, index: SampleIndex, _raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.hang(index.0, Stage::Load);
        Ok(())
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let i = sample.index().0;
        self.hang(i, Stage::Decode);
        sample.begin(Stage::Transform);
        self.hang(i, Stage::Transform);
        Ok(sample.put(0, &[i])?)
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        Some(format!("slow {}", index.0))
    }
}

#[test]
fn a_hanging_sample_is_given_up_and_the_others_go_on() {
    // All at once: each mostly waits for its limit, which is generous, because a worker that the
    // machine does not let run for so long counts as hanging, too.
    std::thread::scope(|scope| {
        for stage in Stage::ALL {
            for threads in [(1, 0), (2, 0), (1, 1)] {
                for on_error in [OnError::Raise, OnError::Skip, OnError::Replace] {
                    for ready in [false, true] {
                        scope.spawn(move || hang(stage, threads, on_error, ready));
                    }
                }
            }
        }
    });
}

fn hang(stage: Stage, (workers, io): (usize, usize), on_error: OnError, ready: bool) {
    let what = format!("{stage} {workers}+{io} {on_error:?} ready {ready}");
    let go = Arc::new(AtomicBool::new(false));
    let mut builder = Loader::builder(Hangs { go: Arc::clone(&go), stage })
        .batch_size(4)
        .workers(workers)
        .io_workers(io)
        .on_error(on_error)
        .epochs(1)
        .sample_timeout(Duration::from_secs(1));
    if ready {
        builder = builder.delivery(Delivery::Ready { window: 2 });
    }
    let loader = builder.build().unwrap();
    let outcomes: Vec<_> = loader.epoch().collect();
    assert_eq!(outcomes.len(), 6, "{what}");
    let delivered: usize = outcomes.iter().flatten().map(|batch| batch.len()).sum();
    let expected = match on_error {
        OnError::Raise => 20,
        OnError::Skip => 23,
        OnError::Replace => 24,
        other => panic!("what is expected of {other:?} is not known here"),
    };
    assert_eq!(delivered, expected, "{what}");
    let errors = loader.errors();
    assert_eq!(errors.len(), 1, "{what}: {errors:?}");
    assert_eq!(errors[0].failure, Failure::Timeout, "{what}");
    assert_eq!(errors[0].index.0, 3, "{what}");
    assert_eq!(errors[0].stage, stage, "{what}");
    assert_eq!(errors[0].origin.as_deref(), Some("slow 3"), "{what}");
    // The batches say which samples they have, and the error which one took its place.
    assert_eq!(errors[0].replaced_by.is_some(), on_error == OnError::Replace, "{what}");
    let mut members = Vec::new();
    for batch in outcomes.iter().flatten() {
        let indices: Vec<u64> = batch.indices().iter().map(|index| index.0).collect();
        assert_eq!(batch.arrays()[0].as_slice::<u64>().unwrap(), indices, "{what}");
        members.extend(indices);
    }
    assert!(!members.contains(&3), "{what}");
    if let Some(substitute) = errors[0].replaced_by {
        let twice = members.iter().filter(|index| **index == substitute.0).count();
        assert_eq!(twice, 2, "{what}");
    }
    assert_eq!(loader.stats().lost_workers, 1, "{what}");
    // Dropped while the worker still hangs: must not wait for it.
    drop(loader);
    go.store(true, Ordering::Relaxed);
}

/// Writes only one of its two fields.
struct Forgetful;

impl Dataset for Forgetful {
    fn len(&self) -> u64 {
        4
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("a", DType::U8, []), Field::fixed("b", DType::U8, [])]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        sample.put(0, &[1u8])?;
        if sample.index().0 != 2 {
            sample.put(1, &[2u8])?;
        }
        Ok(())
    }
}

#[test]
fn a_field_left_out_is_an_error_and_not_an_old_value() {
    let loader = Loader::builder(Forgetful).batch_size(1).workers(1).build().unwrap();
    let errors: Vec<_> = loader.epoch().filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].to_string().contains("field `b` was not written"), "{}", errors[0]);
}

/// Sample 3 raises. The first load of another sample that was loaded before, which is that of a substitute, hangs.
struct RaisesThenHangs {
    go: Arc<AtomicBool>,
    raises: Stage,
    loads: Mutex<Loads>,
}

#[derive(Default)]
struct Loads {
    loaded: BTreeSet<u64>,
    raised: bool,
    hung: bool,
}

impl RaisesThenHangs {
    fn raise(&self, index: SampleIndex, stage: Stage) -> Result<(), Cause> {
        if index.0 != 3 || stage != self.raises {
            return Ok(());
        }
        // Where others load, all are loaded before.
        while stage != Stage::Load && self.loads.lock().unwrap().loaded.len() < 7 {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.loads.lock().unwrap().raised = true;
        Err("sample 3 is torn".into())
    }
}

impl Dataset for RaisesThenHangs {
    fn len(&self) -> u64 {
        8
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("i", DType::U64, [])]
    }
    fn load(&self, index: SampleIndex, _raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.raise(index, Stage::Load)?;
        if index.0 == 3 {
            return Ok(());
        }
        let mut loads = self.loads.lock().unwrap();
        let is_again = !loads.loaded.insert(index.0);
        let hangs = is_again && loads.raised && !loads.hung;
        loads.hung |= hangs;
        drop(loads);
        while hangs && !self.go.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        self.raise(sample.index(), Stage::Decode)?;
        let i = sample.index().0;
        Ok(sample.put(0, &[i])?)
    }
}

#[test]
fn a_substitute_that_hangs_is_given_up_and_the_first_failure_is_what_is_reported() {
    // With threads that only load, who builds makes the substitute of what cannot be built, and loads it, too.
    for (workers, io_workers, raises) in
        [(1, 0, Stage::Load), (1, 1, Stage::Load), (1, 1, Stage::Decode), (2, 2, Stage::Decode)]
    {
        let go = Arc::new(AtomicBool::new(false));
        let dataset = RaisesThenHangs { go: Arc::clone(&go), raises, loads: Mutex::default() };
        let loader = Loader::builder(dataset)
            .batch_size(8)
            .workers(workers)
            .io_workers(io_workers)
            .on_error(OnError::Replace)
            .epochs(1)
            .sample_timeout(Duration::from_secs(1))
            .build()
            .unwrap();
        let batch = loader.epoch().next().unwrap().unwrap();
        go.store(true, Ordering::Relaxed);
        let errors: Vec<_> = loader.errors().into_iter().filter(|e| e.index.0 == 3).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].failure, Failure::Error, "it raised; its substitute hung");
        assert_eq!(errors[0].stage, raises);
        assert!(loader.stats().lost_workers > 0, "a load was given up");
        assert_eq!(errors[0].cause().to_string(), "sample 3 is torn");
        let substitute = errors[0].replaced_by.expect("another one was found");
        assert_eq!(batch.indices()[3], substitute);
        assert_eq!(batch.arrays()[0].as_slice::<u64>().unwrap()[3], substitute.0);
    }
}
