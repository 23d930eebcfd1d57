//! Datasets whose samples come one after the other, until there are no more. What must come is told by a plain loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use feedline_core::{
    Batch, Boundary, BuildError, Cause, DType, Dataset, Delivery, Error, Failure, Field, Iterable,
    Loader, LoaderBuilder, OnError, Order, Pass, Sample, Samples, State, StateError,
};

type Give = dyn Fn(Pass, u64) -> Result<Option<u64>, Cause> + Send + Sync;

/// Numbers: the `i`-th of a pass is what `give` says; each is also delivered as text of that length.
#[derive(Clone)]
struct Stream {
    give: Arc<Give>,
    shares: bool,
    /// Whether iterators can tell where they are.
    tells: bool,
    /// How often an iterator was asked for a sample.
    asked: Arc<AtomicU64>,
    passes: Arc<Mutex<Vec<Pass>>>,
}

fn stream(
    give: impl Fn(Pass, u64) -> Result<Option<u64>, Cause> + Send + Sync + 'static,
) -> Stream {
    let (asked, passes) = (Arc::default(), Arc::default());
    Stream { give: Arc::new(give), shares: false, tells: false, asked, passes }
}

/// The numbers below `n`.
fn below(n: u64) -> Stream {
    stream(move |_, i| Ok((i < n).then_some(i)))
}

struct Iter {
    stream: Stream,
    pass: Pass,
    at: u64,
}

impl Dataset for Stream {
    fn len(&self) -> u64 {
        0
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("x", DType::U64, []), Field::text("text")]
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let x = u64::from_ne_bytes(raw.try_into()?);
        sample.put(0, &[x])?;
        sample.put_bytes(1, "x".repeat(x as usize % 100).as_bytes())?;
        Ok(())
    }
    fn iterable(&self) -> Option<&dyn Iterable> {
        Some(self)
    }
    fn origin(&self, _: feedline_core::SampleIndex) -> Option<String> {
        Some("a stream".into())
    }
}

impl Iterable for Stream {
    fn iterate(&self, pass: Pass) -> Result<Box<dyn Samples>, Cause> {
        self.passes.lock().unwrap().push(pass);
        Ok(Box::new(Iter { stream: self.clone(), pass, at: 0 }))
    }
    fn shares(&self) -> bool {
        self.shares
    }
}

impl Samples for Iter {
    fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
        assert!(raw.is_empty());
        self.stream.asked.fetch_add(1, Ordering::Relaxed);
        self.at += 1;
        let next = (self.stream.give)(self.pass, self.at - 1)?;
        raw.extend(next.iter().flat_map(|x| x.to_ne_bytes()));
        Ok(next.is_some())
    }
    fn state(&mut self) -> Result<Option<String>, Cause> {
        Ok(self.stream.tells.then(|| format!("at {}", self.at)))
    }
    fn restore(&mut self, state: &str, samples: u64) -> Result<bool, Cause> {
        assert_eq!(state, format!("at {samples}"));
        self.at = samples;
        Ok(self.stream.tells)
    }
}

fn numbers(batch: &Batch) -> Vec<u64> {
    let x = batch.get("x").unwrap().as_slice::<u64>().unwrap().to_vec();
    let offsets = batch.get("text_offsets").unwrap().as_slice::<i64>().unwrap();
    let lengths: Vec<u64> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u64).collect();
    assert_eq!(lengths, x.iter().map(|x| x % 100).collect::<Vec<_>>());
    x
}

fn epoch(loader: &Loader) -> Vec<Vec<u64>> {
    loader.epoch().map(|batch| numbers(&batch.unwrap())).collect()
}

fn chunks(n: u64, size: usize) -> Vec<Vec<u64>> {
    (0..n).collect::<Vec<_>>().chunks(size).map(<[u64]>::to_vec).collect()
}

fn builder(stream: &Stream) -> LoaderBuilder {
    Loader::builder(stream.clone()).batch_size(4)
}

#[test]
fn batches_are_the_same_whatever_the_workers_and_the_last_one_is_short_or_dropped() {
    for (workers, io_workers) in [(0, 0), (1, 0), (3, 0), (2, 2)] {
        for n in 0..14 {
            let build = || builder(&below(n)).workers(workers).io_workers(io_workers);
            let loader = build().build().unwrap();
            for _ in 0..3 {
                assert_eq!(epoch(&loader), chunks(n, 4), "{n} samples, {workers} workers");
            }
            let dropping = build().boundary(Boundary::Drop).build().unwrap();
            for _ in 0..3 {
                assert_eq!(epoch(&dropping), chunks(n - n % 4, 4));
            }
        }
    }
}

#[test]
fn each_epoch_is_a_pass_of_its_own_and_is_begun_when_somebody_wants_it() {
    let stream = stream(|pass, i| Ok((i < 3 + pass.epoch).then_some(100 * pass.epoch + i)));
    let loader = builder(&stream).seed(9).workers(2).build().unwrap();
    assert!(stream.passes.lock().unwrap().is_empty());
    for e in 0..3 {
        let expected: Vec<u64> = (0..3 + e).map(|i| 100 * e + i).collect();
        assert_eq!(epoch(&loader), expected.chunks(4).collect::<Vec<_>>());
        let begun: Vec<_> = stream.passes.lock().unwrap().iter().map(|p| p.epoch).collect();
        assert_eq!(begun, (0..=e).collect::<Vec<_>>(), "nothing is begun ahead");
    }
    assert!(stream.passes.lock().unwrap().iter().all(|p| (p.seed, p.rank, p.world) == (9, 0, 1)));
}

#[test]
fn how_many_batches_come_is_known_when_the_end_is_found() {
    let loader = builder(&below(6)).workers(0).build().unwrap();
    let mut epoch = loader.epoch();
    assert_eq!((epoch.size_hint(), loader.left()), ((0, None), None));
    epoch.next().unwrap().unwrap();
    epoch.next().unwrap().unwrap();
    assert_eq!(epoch.size_hint(), (0, Some(0)));
    assert!(epoch.next().is_none() && epoch.next().is_none());
}

#[test]
fn an_endless_stream_is_read_no_further_than_the_read_ahead() {
    for workers in [0, 3] {
        let stream = below(u64::MAX);
        let loader = builder(&stream).workers(workers).prefetch(5).build().unwrap();
        let taken: Vec<_> = loader.epoch().take(10).map(|b| numbers(&b.unwrap())).collect();
        assert_eq!(taken, chunks(40, 4));
        let read = stream.asked.load(Ordering::Relaxed);
        assert!(read <= 40 + 6 * 4, "read {read} for 40");
        let second: Vec<_> = loader.epoch().take(2).map(|b| numbers(&b.unwrap())).collect();
        assert_eq!(second, chunks(8, 4), "and begins anew");
    }
}

#[test]
fn the_byte_budget_holds_for_what_was_read_ahead() {
    struct Large;
    impl Dataset for Large {
        fn len(&self) -> u64 {
            0
        }
        fn fields(&self) -> Vec<Field> {
            vec![Field::bytes("bytes")]
        }
        fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
            Ok(sample.put_bytes(0, raw)?)
        }
        fn iterable(&self) -> Option<&dyn Iterable> {
            Some(self)
        }
    }
    impl Iterable for Large {
        fn iterate(&self, _: Pass) -> Result<Box<dyn Samples>, Cause> {
            Ok(Box::new(Pieces(0)))
        }
    }
    struct Pieces(u64);
    impl Samples for Pieces {
        fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
            raw.resize(1 << 16, self.0 as u8);
            self.0 += 1;
            Ok(self.0 <= 200)
        }
    }
    const BUDGET: u64 = 4 << 20;
    let loader = Loader::builder(Large)
        .batch_size(4)
        .workers(2)
        .prefetch(100)
        .memory(BUDGET)
        .build()
        .unwrap();
    let mut sizes = Vec::new();
    for batch in loader.epoch() {
        sizes.push(batch.unwrap().len());
        let memory = loader.stats().memory;
        assert!(memory.undelivered <= BUDGET, "{memory:?}");
    }
    assert_eq!(sizes, [4; 50]);
    let memory = loader.stats().memory;
    assert!(memory.peak <= BUDGET, "{memory:?}");
    assert_eq!(memory.undelivered, 0, "what was taken is given back: {memory:?}");
}

#[test]
fn ranks_take_turns_and_all_end_after_the_last_complete_round() {
    for n in 0..20 {
        for world in [2, 3] {
            for rank in 0..world {
                let loader = builder(&below(n)).batch_size(2).rank(rank, world).workers(2);
                let own: Vec<u64> = (0..n / world).map(|p| p * world + rank).collect();
                let loader = loader.build().unwrap();
                assert_eq!(epoch(&loader), own.chunks(2).collect::<Vec<_>>(), "{rank} of {world}");
            }
        }
    }
}

#[test]
fn a_sample_that_fails_is_an_error_of_its_own_rank_alone() {
    let stream = stream(|_, i| match i {
        5 => Err("lost".into()),
        i => Ok((i < 8).then_some(i)),
    });
    let sizes = |rank| {
        let loader = builder(&stream).batch_size(2).rank(rank, 2).workers(1).build().unwrap();
        loader.epoch().map(|batch| batch.map_or(0, |batch| batch.len())).collect::<Vec<_>>()
    };
    assert_eq!((sizes(0), sizes(1)), (vec![2, 2], vec![2, 0]));
}

#[test]
fn a_dataset_that_gives_each_rank_its_own_is_left_to_it() {
    let mut stream = stream(|pass, i| Ok((i < 5).then_some(10 * pass.rank + i)));
    stream.shares = true;
    for rank in 0..2 {
        let loader = builder(&stream).rank(rank, 2).workers(1).build().unwrap();
        let own: Vec<u64> = (0..5).map(|i| 10 * rank + i).collect();
        assert_eq!(epoch(&loader), own.chunks(4).collect::<Vec<_>>());
    }
}

#[test]
fn an_error_is_that_of_its_sample_and_a_panic_the_last() {
    let fails = |pass: Pass, i: u64| match (pass.epoch, i) {
        (0, 6) => Err("the line is cut".into()),
        (1, 1) => panic!("out of order"),
        (_, i) => Ok((i < 9).then_some(i)),
    };
    for workers in [0, 2] {
        let loader = builder(&stream(fails)).workers(workers).build().unwrap();
        let mut outcomes = loader.epoch();
        assert_eq!(numbers(&outcomes.next().unwrap().unwrap()), [0, 1, 2, 3]);
        let Some(Err(Error::Sample(error))) = outcomes.next() else { panic!("the second fails") };
        assert_eq!((error.index.0, error.position.0, error.failure), (6, 6, Failure::Error));
        let text = "sample 6 (a stream) failed in stage load (epoch 0): the line is cut";
        assert_eq!(error.to_string(), text);
        assert_eq!(numbers(&outcomes.next().unwrap().unwrap()), [8], "it goes on after it");
        assert!(outcomes.next().is_none());
        let outcomes: Vec<_> = loader.epoch().collect();
        let [Err(Error::Sample(error))] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!((error.index.0, error.failure), (1, Failure::Panic));
        assert_eq!(epoch(&loader), chunks(9, 4), "the one after it is whole");
        assert_eq!(loader.errors().len(), 2);

        let skipping = builder(&stream(fails)).workers(workers).on_error(OnError::Skip);
        let skipping = skipping.boundary(Boundary::Drop).build().unwrap();
        assert_eq!(epoch(&skipping), [vec![0, 1, 2, 3], vec![4, 5, 7]]);
        assert_eq!(epoch(&skipping), [[0]]);
    }
}

#[test]
fn a_pass_that_cannot_be_begun_is_an_error_of_its_first_batch() {
    struct Closed;
    impl Dataset for Closed {
        fn len(&self) -> u64 {
            0
        }
        fn fields(&self) -> Vec<Field> {
            vec![Field::text("x")]
        }
        fn build(&self, _: &[u8], _: &mut Sample<'_>) -> Result<(), Cause> {
            unreachable!("nothing is given")
        }
        fn iterable(&self) -> Option<&dyn Iterable> {
            Some(self)
        }
    }
    impl Iterable for Closed {
        fn iterate(&self, pass: Pass) -> Result<Box<dyn Samples>, Cause> {
            Err(format!("no connection in epoch {}", pass.epoch).into())
        }
    }
    let loader = Loader::builder(Closed).batch_size(4).workers(1).build().unwrap();
    for e in 0..2 {
        let outcomes: Vec<_> = loader.epoch().collect();
        let [Err(Error::Sample(error))] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert!(error.to_string().ends_with(&format!("no connection in epoch {e}")), "{error}");
    }
}

#[test]
fn a_state_goes_on_with_what_was_not_delivered() {
    for tells in [false, true] {
        for n in [0, 3, 8, 11, 12] {
            let stream = Stream { tells, ..below(n) };
            let reference = builder(&stream).workers(0).build().unwrap();
            let whole: Vec<Vec<u64>> =
                std::iter::repeat_with(|| epoch(&reference)).take(3).flatten().collect();
            for delivered in 0..=whole.len() {
                let first = builder(&stream).workers(2).build().unwrap();
                let before = batches(&first, delivered);
                assert_eq!(before, whole[..delivered]);
                let state: State =
                    serde_json::from_str(&serde_json::to_string(&first.state()).unwrap()).unwrap();
                let fresh = Stream { asked: Arc::default(), ..stream.clone() };
                let second = builder(&fresh).workers(1).prefetch(3).build().unwrap();
                second.load_state(&state, false).unwrap();
                let rest = batches(&second, whole.len() - delivered);
                assert_eq!(rest, whole[delivered..], "{n} samples, {delivered} delivered");
            }
        }
    }
}

/// So many batches, of as many epochs as it takes.
fn batches(loader: &Loader, count: usize) -> Vec<Vec<u64>> {
    let mut taken = Vec::new();
    while taken.len() < count {
        for batch in loader.epoch() {
            taken.push(numbers(&batch.unwrap()));
            if taken.len() == count {
                break;
            }
        }
    }
    taken
}

#[test]
fn an_iterator_that_can_tell_where_it_is_gives_nothing_twice() {
    let stream = Stream { tells: true, ..below(1000) };
    let first = builder(&stream).workers(2).prefetch(8).build().unwrap();
    batches(&first, 100);
    let state = first.state();
    let fresh = Stream { asked: Arc::default(), ..stream };
    let second = builder(&fresh).workers(0).resume(state).build().unwrap();
    assert_eq!(batches(&second, 1), [[400, 401, 402, 403]]);
    assert_eq!(fresh.asked.load(Ordering::Relaxed), 4);
}

#[test]
fn other_batches_and_other_ranks_go_on_where_the_last_round_was() {
    for tells in [false, true] {
        let stream = Stream { tells, ..below(31) };
        let ranks = |world, size| {
            let stream = stream.clone();
            (0..world)
                .map(move |rank| builder(&stream).batch_size(size).rank(rank, world).workers(1))
        };
        let states: Vec<State> = ranks(2, 4)
            .map(|loader| {
                let loader = loader.build().unwrap();
                batches(&loader, 2);
                loader.state()
            })
            .collect();
        // 16 are delivered, 15 are left: five rounds of three.
        for state in [states[0].clone(), states[1].clone(), State::merge(&states).unwrap()] {
            let rest: Vec<Vec<u64>> = ranks(3, 3)
                .flat_map(|loader| epoch(&loader.resume(state.clone()).build().unwrap()))
                .collect();
            assert_eq!(
                rest,
                [[16, 19, 22], [25, 28, 0], [17, 20, 23], [26, 29, 0], [18, 21, 24], [27, 30, 0]]
                    .map(|batch| batch.into_iter().filter(|x| *x > 0).collect::<Vec<_>>())
            );
        }
    }
}

#[test]
fn states_that_no_iterator_can_go_on_from_are_refused() {
    let mut stream = below(100);
    let state_of = |stream: &Stream, rank, count| {
        let loader = builder(stream).rank(rank, 2).workers(0).build().unwrap();
        batches(&loader, count);
        loader.state()
    };
    let apart = State::merge(&[state_of(&stream, 0, 1), state_of(&stream, 1, 2)]).unwrap();
    let refused = builder(&stream).resume(apart).build().unwrap_err();
    assert!(matches!(refused, BuildError::State(StateError::Unmergeable { .. })), "{refused}");
    stream.shares = true;
    let state = state_of(&stream, 1, 2);
    let loader = builder(&stream).rank(0, 2).workers(0).build().unwrap();
    let refused = loader.load_state(&state, false).unwrap_err();
    assert!(refused.to_string().contains("it was rank 1 of 2 and is rank 0 of 2"), "{refused}");
    assert_eq!(epoch(&loader).len(), 25, "nothing has changed");
}

#[test]
fn settings_that_need_all_samples_are_refused() {
    let build = || builder(&below(9)).workers(1);
    let window = 2;
    for (loader, what) in [
        (build().shuffle(1), "order"),
        (build().order(Order::Subset { indices: vec![1], shuffle: false }), "order"),
        (build().boundary(Boundary::Pad), "pad"),
        (build().delivery(Delivery::Ready { window }), "ready"),
        (build().on_error(OnError::Replace), "on_error = replace"),
    ] {
        let error = loader.build().unwrap_err();
        assert!(matches!(error, BuildError::Conflict { first, .. } if first == what), "{error}");
    }
}

#[test]
fn a_loader_is_dropped_while_its_iterator_waits() {
    let (sender, receiver) = std::sync::mpsc::channel::<u64>();
    let receiver = Mutex::new(receiver);
    let stream = stream(move |_, _| Ok(receiver.lock().unwrap().recv().ok()));
    let loader = builder(&stream).workers(2).build().unwrap();
    (0..4).for_each(|i| sender.send(i).unwrap());
    let mut running = loader.epoch();
    assert_eq!(numbers(&running.next().unwrap().unwrap()), [0, 1, 2, 3]);
    drop(running);
    loader.close_within(std::time::Duration::ZERO);
    drop(sender);
    drop(loader);
}
