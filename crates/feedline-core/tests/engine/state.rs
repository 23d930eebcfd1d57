//! States: what comes after resuming, whatever has changed meanwhile.

use std::collections::HashMap;

use feedline_core::{Boundary, Delivery, Loader, LoaderBuilder, Order, State, StateError};
use proptest::prelude::*;

use crate::common::{Numbers, epoch, flat, numbers, samples, uneven};

/// Through JSON and back, as a checkpoint would.
fn saved(state: &State) -> State {
    let json = serde_json::to_string(state).unwrap();
    assert!(json.len() < 1000, "{} bytes: {json}", json.len());
    serde_json::from_str(&json).unwrap()
}

/// The next `count` batches, over as many epochs as it takes, and the state after them.
fn take(loader: &Loader, mut count: usize) -> (Vec<Vec<u64>>, State) {
    let mut taken = Vec::new();
    loop {
        let mut epoch = loader.epoch();
        while count > 0 {
            let Some(batch) = epoch.next() else { break };
            taken.push(samples(&batch.unwrap()));
            count -= 1;
        }
        if count == 0 {
            return (taken, saved(&loader.state()));
        }
    }
}

#[test]
fn a_state_taken_anywhere_resumes_with_exactly_what_was_not_delivered() {
    let build =
        |workers: usize| Loader::builder(numbers(47)).batch_size(5).shuffle(3).workers(workers);
    let (whole, _) = take(&build(0).build().unwrap(), 30);
    for boundary in [Boundary::Drop, Boundary::Pad, Boundary::Keep] {
        let build = |workers| build(workers).boundary(boundary);
        let (whole, _) = take(&build(0).build().unwrap(), 30);
        for delivered in 0..=25 {
            let (before, state) = take(&build(2).build().unwrap(), delivered);
            assert_eq!(before, whole[..delivered]);
            let batches = build(0).build().unwrap().len();
            assert_eq!(
                (state.epoch(), state.batch()),
                (delivered as u64 / batches, delivered as u64 % batches)
            );
            let resumed = build(1).prefetch(7).resume(state).build().unwrap();
            assert_eq!(resumed.left(), Some(batches - delivered as u64 % batches));
            let (rest, _) = take(&resumed, 30 - delivered);
            assert_eq!(rest, whole[delivered..], "{boundary:?} after {delivered}");
        }
    }
    assert_eq!(whole.len(), 30);
}

#[test]
fn a_loop_that_is_left_half_way_leaves_the_state_where_it_was() {
    let build = || Loader::builder(numbers(20)).batch_size(4).shuffle(1).workers(1);
    let (whole, _) = take(&build().build().unwrap(), 10);
    let loader = build().build().unwrap();
    loader.epoch().take(2).for_each(drop);
    let state = saved(&loader.state());
    assert_eq!((state.epoch(), state.batch()), (0, 2));
    assert_eq!(epoch(&loader), whole[5..], "the next epoch begins anew");
    loader.load_state(&state, false).unwrap();
    drop(loader.epoch());
    assert_eq!(loader.state(), state, "nothing was taken");
    assert_eq!(epoch(&loader), whole[2..5]);
    assert_eq!(epoch(&loader), whole[5..]);
}

#[test]
fn a_state_may_be_loaded_while_an_epoch_runs() {
    let loader = Loader::builder(numbers(40)).batch_size(4).shuffle(1).workers(2).build().unwrap();
    let (whole, later) = take(&loader, 7);
    let other = Loader::builder(numbers(40)).batch_size(4).shuffle(1).workers(2).build().unwrap();
    let mut running = other.epoch();
    running.next().unwrap().unwrap();
    other.load_state(&later, false).unwrap();
    assert!(running.next().unwrap().is_err(), "superseded");
    drop(running);
    assert_eq!(other.state(), later);
    assert_eq!(flat(&epoch(&other)).len() + 4 * whole.len(), 40);
}

#[test]
fn a_state_of_another_plan_or_pipeline_names_what_differs_and_can_be_forced() {
    let base =
        || Loader::builder(numbers(40)).batch_size(4).shuffle(1).workers(0).recipe("numbers");
    let (_, state) = take(&base().build().unwrap(), 3);
    let cases: [(LoaderBuilder, &str); 5] = [
        (
            Loader::builder(numbers(41)).batch_size(4).shuffle(1).recipe("numbers"),
            "the number of samples was 40 and is 41",
        ),
        (base().seed(2), "the seed was 1 and is 2"),
        (base().order(Order::Sequential), "the order was shuffled and is sequential"),
        (base().recipe("numbers | flip"), "the pipeline was `numbers` and is `numbers | flip`"),
        (
            base().order(Order::Subset { indices: (0..40).collect(), shuffle: true }),
            "the order was shuffled and is",
        ),
    ];
    for (builder, expected) in cases {
        let loader = builder.workers(0).build().unwrap();
        let error = loader.load_state(&state, false).unwrap_err();
        assert!(matches!(error, StateError::Differs { .. }));
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains("force=True"), "{error}");
        loader.load_state(&state, true).unwrap();
        assert_eq!(loader.state().batch(), 3);
        epoch(&loader);
    }
}

#[test]
fn damaged_states_are_refused() {
    let (_, state) =
        take(&Loader::builder(numbers(40)).batch_size(4).workers(0).build().unwrap(), 3);
    let json = serde_json::to_value(&state).unwrap();
    let with = |name: &str, value: serde_json::Value| {
        let mut json = json.clone();
        json[name] = value;
        let state: State = serde_json::from_value(json).unwrap();
        let loader = Loader::builder(numbers(40)).batch_size(4).workers(0).build().unwrap();
        loader.load_state(&state, false).unwrap_err().to_string()
    };
    assert!(with("version", 99.into()).contains("version 99"));
    assert!(with("batch", 10.into()).contains("damaged"));
    assert!(with("batch", u64::MAX.into()).contains("damaged"));
    assert!(with("epoch", u64::MAX.into()).contains("damaged"));
    assert!(with("batch_size", 0.into()).contains("damaged"));
    assert!(with("world_size", u64::MAX.into()).contains("damaged"));
    assert!(with("gaps", "b!".into()).contains("damaged"));
    assert!(with("own_start", 7.into()).contains("damaged"));
}

/// A run of all ranks up to a step, over the rest of one epoch.
struct Ranks {
    world: u64,
    batch: u64,
    boundary: Boundary,
    ready: bool,
}

impl Ranks {
    fn loader(&self, n: u64, rank: u64, order: &Order, from: Option<&State>) -> Loader {
        let builder = Loader::builder(uneven(n))
            .order(order.clone())
            .seed(5)
            .batch_size(self.batch)
            .boundary(self.boundary)
            .rank(rank, self.world)
            .workers(2);
        let builder = match self.ready {
            true => builder.delivery(Delivery::Ready { window: 3 }),
            false => builder,
        };
        match from {
            Some(state) => builder.resume(state.clone()).build().unwrap(),
            None => builder.build().unwrap(),
        }
    }
}

/// Delivers `steps[r]` batches on rank `r`, never beyond the epoch, and returns the states.
fn run(
    ranks: &Ranks,
    n: u64,
    order: &Order,
    from: Option<&State>,
    steps: impl Fn(u64) -> u64,
    ledger: &mut HashMap<u64, u64>,
) -> (Vec<State>, Vec<u64>) {
    let mut left = Vec::new();
    let states = (0..ranks.world)
        .map(|rank| {
            let loader = ranks.loader(n, rank, order, from);
            left.push(loader.left().expect("its plan tells"));
            if loader.current_epoch() > 0 {
                // What is left fills no batch on each rank.
                return saved(&loader.state());
            }
            let mut epoch = loader.epoch();
            for batch in epoch.by_ref().take(steps(rank) as usize) {
                samples(&batch.unwrap()).iter().for_each(|i| *ledger.entry(*i).or_default() += 1);
            }
            saved(&loader.state())
        })
        .collect();
    (states, left)
}

fn boundaries() -> impl Strategy<Value = Boundary> {
    proptest::sample::select(vec![Boundary::Drop, Boundary::Pad, Boundary::Keep])
}

fn any_order(n: u64) -> impl Strategy<Value = Order> {
    let lengths = (0..n as u32).map(|i| i * 7 % 31).collect::<Vec<_>>();
    proptest::sample::select(vec![
        Order::Sequential,
        Order::Shuffled,
        Order::Bucketed { lengths, bucket_batches: 2 },
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// 3 -> 2 -> 4 ranks and the like: each segment with another number of ranks and another batch size.
    #[test]
    fn a_chain_of_other_ranks_and_batches_delivers_each_sample_once(
        (n, order) in (30u64..120).prop_flat_map(|n| (Just(n), any_order(n))),
        boundary in boundaries(),
        chain in proptest::collection::vec((1u64..5, 1u64..5, 0u64..6, any::<bool>()), 1..4),
        last in (1u64..5, 1u64..5),
    ) {
        let mut ledger = HashMap::new();
        let mut state: Option<State> = None;
        for (world, batch, steps, ready) in chain {
            let ranks = Ranks { world, batch, boundary, ready: ready && world == 1 };
            let epoch = state.as_ref().map_or(0, State::epoch);
            if epoch > 0 {
                break;
            }
            let whole = state.is_none();
            let (states, left) = run(&ranks, n, &order, state.as_ref(), |_| steps, &mut ledger);
            prop_assert!(left.iter().all(|l| *l == left[0]), "equal step counts: {left:?}");
            if whole {
                prop_assert!(left[0] > 0);
            }
            let mut positions = states.iter().map(|s| (s.epoch(), s.batch(), s.dropped(), s.repeated()));
            let first = positions.next().unwrap();
            prop_assert!(positions.all(|other| other == first));
            state = states.into_iter().next();
        }
        let mut state = state.unwrap();
        let mut at_end = (5, 5); // No rank has more, no batch is larger.
        if state.epoch() == 0 {
            let ranks = Ranks { world: last.0, batch: last.1, boundary, ready: false };
            let (states, _) = run(&ranks, n, &order, Some(&state), |_| u64::MAX, &mut ledger);
            at_end = (ranks.world, ranks.batch);
            state = states.into_iter().next().unwrap();
        }
        prop_assert_eq!(state.epoch(), 1);
        let missing = (0..n).filter(|i| !ledger.contains_key(i)).count() as u64;
        let repeated: u64 = ledger.values().map(|times| times - 1).sum();
        let (world, batch) = at_end;
        match boundary {
            Boundary::Drop => prop_assert!(repeated == 0 && missing < world * batch),
            Boundary::Pad => prop_assert!(missing == 0 && repeated < world * batch),
            Boundary::Keep => prop_assert!(missing == 0 && repeated < world),
        }
    }

    /// Ranks stopped anywhere, also in ready order, merged and resumed by others.
    #[test]
    fn merged_states_of_unequal_ranks_neither_lose_nor_repeat_a_sample(
        n in 30u64..120,
        (world, batch, ready) in (1u64..5, 1u64..5, any::<bool>()),
        steps in proptest::collection::vec(0u64..12, 4),
        again in (1u64..5, 1u64..5, any::<bool>(), 0u64..6),
        last in (1u64..5, 1u64..5),
    ) {
        let mut ledger = HashMap::new();
        let order = Order::Shuffled;
        let boundary = Boundary::Keep;
        let ranks = Ranks { world, batch, boundary, ready };
        let (states, left) = run(&ranks, n, &order, None, |rank| steps[rank as usize], &mut ledger);
        let padding = left[0] * world * batch; // An upper bound; what was repeated is checked at the end.
        let merged = saved(&State::merge(&states).unwrap());
        let mut state = merged;
        if state.epoch() == 0 {
            let ranks = Ranks { world: again.0, batch: again.1, boundary, ready: again.2 };
            let (states, left) = run(&ranks, n, &order, Some(&state), |_| again.3, &mut ledger);
            prop_assert!(left.iter().all(|l| *l == left[0]));
            state = saved(&State::merge(&states).unwrap());
        }
        if state.epoch() == 0 {
            let ranks = Ranks { world: last.0, batch: last.1, boundary, ready: false };
            run(&ranks, n, &order, Some(&state), |_| u64::MAX, &mut ledger);
        }
        prop_assert!((0..n).all(|i| ledger.contains_key(&i)), "lost");
        // Each segment's ranks may have padded its end, some of them only.
        let repeated: u64 = ledger.values().map(|times| times - 1).sum();
        prop_assert!(repeated <= (world - 1) + (again.0 - 1) + (last.0 - 1), "{repeated} of {padding}");
    }

    /// In ready order a state names what was delivered ahead.
    #[test]
    fn states_in_ready_order_resume_with_the_rest_in_any_order(
        n in 1u64..150,
        batch in 1u64..9,
        workers in 0usize..4,
        window in 1usize..6,
        steps in proptest::collection::vec((0u64..9, any::<bool>()), 1..5),
    ) {
        let mut ledger = HashMap::new();
        let mut state: Option<State> = None;
        let mut sizes = Vec::new();
        for (steps, ready) in steps.into_iter().chain([(u64::MAX, true)]) {
            if state.as_ref().is_some_and(|state| state.epoch() > 0) {
                break;
            }
            let builder = Loader::builder(uneven(n)).batch_size(batch).shuffle(9).workers(workers);
            let builder = match ready {
                true => builder.delivery(Delivery::Ready { window }),
                false => builder,
            };
            let loader = match state {
                Some(state) => builder.resume(state).build().unwrap(),
                None => builder.build().unwrap(),
            };
            let mut epoch = loader.epoch();
            for taken in epoch.by_ref().take(usize::try_from(steps).unwrap_or(usize::MAX)) {
                let taken = samples(&taken.unwrap());
                sizes.push(taken.len() as u64);
                taken.iter().for_each(|i| *ledger.entry(*i).or_insert(0) += 1);
            }
            state = Some(saved(&loader.state()));
        }
        prop_assert_eq!(ledger.len() as u64, n);
        prop_assert!(ledger.values().all(|times| *times == 1));
        prop_assert!(sizes.iter().rev().skip(1).all(|size| *size == batch));
    }
}

#[test]
fn a_replayed_epoch_can_be_resumed_with_its_log_and_without() {
    let build = || Loader::builder(uneven(60)).batch_size(4).shuffle(2).workers(3);
    let ready = build().delivery(Delivery::Ready { window: 4 }).build().unwrap();
    let delivered = epoch(&ready);
    let log = ready.order_logs().remove(0);
    for cut in 0..15 {
        let replaying = build().replay(log.clone()).build().unwrap();
        let (before, state) = take(&replaying, cut);
        assert_eq!(before, delivered[..cut]);
        let with = build().replay(log.clone()).resume(state.clone()).build().unwrap();
        assert_eq!(epoch(&with), delivered[cut..]);
        let without = build().resume(state).build().unwrap();
        let mut rest = epoch(&without);
        rest.extend(before);
        assert_eq!(flat(&rest), (0..60).collect::<Vec<_>>());
    }
}

#[test]
fn a_log_that_begins_otherwise_is_refused() {
    let build = || Loader::builder(uneven(60)).batch_size(4).shuffle(2).workers(3);
    let ready = build().delivery(Delivery::Ready { window: 6 }).build().unwrap();
    let mut log = Vec::new();
    // Sooner or later a slow sample is overtaken within the first batches.
    while log
        .first()
        .is_none_or(|log: &feedline_core::OrderLog| log.positions()[..8].iter().max() == Some(&7))
    {
        epoch(&ready);
        log = ready.order_logs();
        log.retain(|log| log.positions()[..8].iter().max() != Some(&7));
        if ready.current_epoch() > 50 {
            return;
        }
    }
    let log = log.remove(0);
    let at = |batch: usize| {
        let loader = build().build().unwrap();
        for _ in 0..log.epoch() {
            epoch(&loader);
        }
        let mut running = loader.epoch();
        running.by_ref().take(batch).for_each(drop);
        loader.state()
    };
    let error = build().replay(log.clone()).resume(at(2)).build().unwrap_err().to_string();
    assert!(error.contains("delivers other samples first"), "{error}");
    assert!(build().replay(log.clone()).resume(at(0)).build().is_ok());
}

#[test]
fn one_rank_in_ready_order_does_not_speak_for_the_others() {
    let ranks = Ranks { world: 2, batch: 3, boundary: Boundary::Keep, ready: true };
    for attempt in 0.. {
        let (states, _) = run(&ranks, 100, &Order::Shuffled, None, |_| 5, &mut HashMap::new());
        let json = serde_json::to_string(&states[1]).unwrap();
        if !json.contains("own_gaps") {
            assert!(attempt < 200, "never was a sample overtaken");
            continue;
        }
        let alone = Loader::builder(numbers(100)).shuffle(5).batch_size(3).workers(0);
        let error = alone.resume(states[1].clone()).build().unwrap_err().to_string();
        assert!(error.contains("rank 1 of 2") && error.contains("merge_states"), "{error}");
        State::merge(&states).unwrap();
        return;
    }
}

#[test]
fn states_that_are_not_of_one_run_are_not_merged() {
    let state = |rank: u64, world: u64, batch: u64, seed: u64| {
        let builder =
            Loader::builder(numbers(100)).shuffle(seed).rank(rank, world).batch_size(batch);
        builder.workers(0).build().unwrap().state()
    };
    let refused = |states: &[State]| State::merge(states).unwrap_err().to_string();
    assert!(refused(&[]).contains("there are none"));
    assert!(refused(&[state(0, 2, 4, 1)]).contains("1 states of 2 ranks"));
    assert!(refused(&[state(0, 2, 4, 1), state(0, 2, 4, 1)]).contains("rank 0 of 2 comes twice"));
    assert!(refused(&[state(0, 2, 4, 1), state(1, 2, 4, 2)]).contains("plans"));
    assert!(refused(&[state(0, 2, 4, 1), state(1, 2, 5, 1)]).contains("batch sizes"));
    let far = |epochs: usize, steps: usize, rank: u64| {
        let loader =
            Loader::builder(numbers(40)).batch_size(4).rank(rank, 2).workers(0).build().unwrap();
        (0..epochs).for_each(|_| drop(epoch(&loader)));
        loader.epoch().take(steps).for_each(drop);
        loader.state()
    };
    assert!(refused(&[far(0, 4, 0), far(1, 1, 1)]).contains("rank 1 in epoch 1"));
    // At the next epoch's start a rank has delivered its share of this one.
    let merged = State::merge(&[far(0, 3, 0), far(1, 0, 1)]).unwrap();
    let rest =
        Loader::builder(numbers(40)).batch_size(8).workers(0).resume(merged).build().unwrap();
    assert_eq!(flat(&epoch(&rest)), [24, 26, 28, 30, 32, 34, 36, 38]);
}

#[test]
fn a_substitute_is_the_same_after_resuming() {
    let build = || {
        let does = |i| if i % 5 == 0 { Err("bad".into()) } else { Ok(()) };
        let builder = Loader::builder(Numbers { n: 50, does }).batch_size(4).shuffle(3);
        builder.on_error(feedline_core::OnError::Replace).workers(1)
    };
    let (whole, _) = take(&build().build().unwrap(), 13);
    for cut in 0..13 {
        let (_, state) = take(&build().build().unwrap(), cut);
        let (rest, _) = take(&build().resume(state).build().unwrap(), 13 - cut);
        assert_eq!(rest, whole[cut..]);
    }
}
