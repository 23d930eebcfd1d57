//! Scripts of events on a virtual clock; and random runs against a model that keeps a list of batches and counts.

#![expect(unused_must_use, reason = "a script looks at the effects that it is about")]

use proptest::prelude::*;

use super::*;
use crate::plan::Plan;

const BATCH: u64 = 100;

type TestFlow = Flow<u64, (u64, u64)>;

fn rules(prefetch: usize) -> Rules {
    Rules {
        prefetch,
        elastic: false,
        frugal: false,
        bunch: Bunch::of(1),
        budget: 1_000_000,
        batch_bytes: BATCH,
        loose: false,
        iterated: false,
        padded: false,
        window: None,
        epochs: None,
        apart: false,
        batch_size: 4,
    }
}

/// A machine for epochs of so many batches of four samples.
fn machine(batches: u64, rules: Rules) -> TestFlow {
    let plan = Plan::builder(batches * 4).batch_size(4).build().unwrap();
    Flow::new(rules, Course::whole(&plan), &Start::at(0, 0))
}

/// Opens a batch of four jobs; `None` if it may not be opened.
fn open(flow: &mut TestFlow) -> Option<(BatchId, usize)> {
    let Opening::Batch { id, .. } = flow.open() else { return None };
    flow.took(BATCH, false, BATCH);
    let effects = flow.opened(id, 4, 4).expect("of this generation");
    Some((id, effects.wake_workers))
}

/// Finishes a batch. Returns whether the consumer is woken.
fn finish(flow: &mut TestFlow, id: BatchId) -> bool {
    let finished = Finished { batch: id.turn, positions: Vec::new(), bytes: BATCH };
    flow.finished(id, finished, None).expect("it is wanted").wake_consumer
}

/// Opens and finishes all that may be opened.
fn work(flow: &mut TestFlow) -> usize {
    std::iter::from_fn(|| open(flow).map(|(id, _)| finish(flow, id))).count()
}

fn begin(flow: &mut TestFlow) -> u64 {
    flow.begin_epoch().0
}

/// Takes the next batch, if it is there. Returns it, and how many workers are woken.
fn take(flow: &mut TestFlow, token: u64) -> (Option<u64>, usize) {
    let (answer, effects) = flow.ask(token, 0);
    let batch = match answer {
        Answer::Batch(batch, _) => Some(batch),
        _ => {
            flow.left(token);
            None
        }
    };
    (batch, effects.wake_workers)
}

/// The user drops a batch. Returns how many workers are woken.
fn give_back(flow: &mut TestFlow) -> usize {
    flow.returned(BATCH, true).1.wake_workers
}

#[test]
fn batches_leave_in_order_whatever_order_they_came_in() {
    let mut flow = machine(10, rules(3));
    let token = begin(&mut flow);
    let ids = [(); 3].map(|()| open(&mut flow).unwrap().0);
    assert_eq!(flow.ask(token, 0).0, Answer::Wait { until_ns: None });
    assert!(!finish(&mut flow, ids[2]), "not its turn");
    assert!(!finish(&mut flow, ids[1]));
    assert!(finish(&mut flow, ids[0]));
    for (turn, behind) in [(0, 2), (1, 1), (2, 0)] {
        assert_eq!(flow.ask_again(token, 0).0, Answer::Batch(turn, behind));
    }
    assert_eq!(flow.cursor().number, 3);
}

#[test]
fn who_waits_with_an_older_token_gets_no_batch_of_the_epoch_begun_meanwhile() {
    let mut flow = machine(2, rules(2));
    let first = begin(&mut flow);
    assert_eq!(work(&mut flow), 2);
    assert_eq!([(); 2].map(|()| take(&mut flow, first).0), [Some(0), Some(1)]);
    assert_eq!(flow.ask(first, 0).0, Answer::End);
    // The next epoch is in work already, and somebody waits for its first batch.
    let old = begin(&mut flow);
    assert_eq!(flow.ask(old, 0).0, Answer::Wait { until_ns: None });
    let (new, restarted, effects) = flow.begin_epoch();
    assert!(!restarted && effects.wake_consumer, "what is in flight is that epoch's");
    let (id, _) = open(&mut flow).unwrap();
    assert!(!finish(&mut flow, id), "nobody waits who may have it");
    assert_eq!(flow.ask_again(old, 0).0, Answer::Superseded);
    assert_eq!(flow.cursor().number, 0, "nothing was delivered");
    assert_eq!(take(&mut flow, new).0, Some(2));
    assert_eq!((flow.cursor().epoch, flow.cursor().number), (1, 1));
}

#[test]
fn epochs_that_are_kept_apart_are_begun_when_they_are_asked_for() {
    let mut flow = machine(2, Rules { apart: true, ..rules(8) });
    for epoch in 0..3 {
        let (token, restarted, effects) = flow.begin_epoch();
        assert!(restarted && effects.wake_workers == ALL);
        assert_eq!(work(&mut flow), 2, "there is room for more");
        assert_eq!(flow.left_of(token), Some(2));
        assert_eq!([(); 2].map(|()| take(&mut flow, token).0), [Some(0), Some(1)]);
        assert_eq!(flow.ask(token, 0).0, Answer::End);
        assert!(open(&mut flow).is_none(), "nobody has asked for the next epoch");
        assert_eq!((flow.cursor().epoch, flow.cursor().upcoming()), (epoch + 1, epoch + 1));
    }
    let token = begin(&mut flow);
    work(&mut flow);
    take(&mut flow, token);
    assert_eq!((flow.cursor().epoch, flow.cursor().upcoming()), (3, 4), "if it is left half-way");
}

#[test]
fn a_batch_of_an_older_generation_comes_back() {
    let mut flow = machine(10, rules(2));
    let token = begin(&mut flow);
    let (id, _) = open(&mut flow).unwrap();
    assert_eq!(take(&mut flow, token).0, None);
    flow.cancel(token).expect("it runs");
    let late = Finished { batch: 7, positions: Vec::new(), bytes: BATCH };
    assert_eq!(flow.finished(id, late, None).unwrap_err().batch, 7);
    assert_eq!(flow.ask(token, 0).0, Answer::End);
    assert!(flow.opened(id, 4, 1).is_none());
}

#[test]
fn what_is_finished_is_dropped_by_a_restart_and_a_stop() {
    let mut flow = machine(10, rules(2));
    let token = begin(&mut flow);
    work(&mut flow);
    take(&mut flow, token);
    let (_, restarted, effects) = flow.begin_epoch();
    assert!(restarted, "the epoch was left half-way");
    assert_eq!((effects.dropped.0, effects.wake_workers), (vec![1], usize::MAX));
    let effects = flow.stop(Some("why".into()));
    assert!(effects.wake_consumer && effects.wake_workers == usize::MAX);
    assert!(matches!(flow.open(), Opening::Stopped));
    assert_eq!(flow.ask(2, 0).0, Answer::Closed(Some("why".into())));
}

#[test]
fn a_consumer_waits_for_a_bunch_or_for_a_moment_or_until_there_is_no_more_to_come() {
    let bunches = || machine(100, Rules { elastic: true, bunch: Bunch::of(3), ..rules(2) });
    let mut flow = bunches();
    let token = begin(&mut flow);
    let doze = Answer::Wait { until_ns: Some(10 + bunch::DOZE_NS) };
    assert_eq!(flow.ask(token, 10).0, doze);
    let ids = [(); 4].map(|()| open(&mut flow).unwrap().0);
    let woken = ids.map(|id| finish(&mut flow, id));
    assert_eq!(woken, [false, false, true, true]);

    let mut flow = bunches();
    let token = begin(&mut flow);
    flow.ask(token, 10);
    assert!(!flow.idle().wake_consumer, "nothing is there");
    let (id, _) = open(&mut flow).unwrap();
    assert!(finish(&mut flow, id), "one is enough by now");

    let mut flow = bunches();
    let token = begin(&mut flow);
    flow.ask(token, 10);
    assert_eq!(flow.ask_again(token, 10 + bunch::DOZE_NS).0, Answer::Wait { until_ns: None });
    let (id, _) = open(&mut flow).unwrap();
    assert!(finish(&mut flow, id), "one is enough by now");
}

#[test]
fn workers_are_woken_when_there_is_room_for_a_bunch() {
    let mut flow = machine(100, Rules { elastic: true, bunch: Bunch::of(4), ..rules(2) });
    let token = begin(&mut flow);
    assert_eq!(work(&mut flow), 8, "two bunches");
    let woken = [(); 5].map(|()| {
        let (batch, asking) = take(&mut flow, token);
        assert!(batch.is_some());
        asking + give_back(&mut flow) > 0
    });
    assert_eq!(woken, [false, false, false, true, true]);
}

#[test]
fn a_loop_that_holds_one_batch_while_it_takes_the_next_needs_two() {
    let mut flow = machine(100, Rules { frugal: true, ..rules(2) });
    let token = begin(&mut flow);
    assert_eq!(work(&mut flow), 2);
    assert!(take(&mut flow, token).0.is_some());
    for _ in 0..3 {
        assert_eq!(work(&mut flow), 0, "one is held, one is there");
        assert!(take(&mut flow, token).0.is_some());
        assert_eq!(give_back(&mut flow), 1);
        assert_eq!(work(&mut flow), 1);
    }
}

#[test]
fn a_loop_that_keeps_its_batches_finds_the_next_one_begun() {
    let mut flow = machine(100, Rules { frugal: true, ..rules(2) });
    let token = begin(&mut flow);
    work(&mut flow);
    for turn in 0..2 {
        assert_eq!(take(&mut flow, token).0, Some(turn));
    }
    assert_eq!(work(&mut flow), 0, "both places are taken");
    assert_eq!(take(&mut flow, token), (None, 2), "noticed");
    for turn in 2..5 {
        work(&mut flow);
        assert_eq!(take(&mut flow, token).0, Some(turn));
    }
}

#[test]
fn a_budget_of_one_batch_and_a_stale_one_still_there_do_not_stop_delivery() {
    let mut flow = machine(10, Rules { budget: BATCH, ..rules(2) });
    let token = begin(&mut flow);
    open(&mut flow).unwrap();
    flow.cancel(token).unwrap();
    let token = begin(&mut flow);
    assert_eq!(flow.memory().undelivered, BATCH, "the stale one's worker has not come back");
    assert_eq!(work(&mut flow), 1, "nothing else could make room for the first");
    assert_eq!(work(&mut flow), 0);
    assert_eq!(take(&mut flow, token).0, Some(0));
    assert!(open(&mut flow).is_none());
    assert_eq!(flow.returned(BATCH, false).1.wake_workers, 1, "the stale one is gone");
    assert!(open(&mut flow).is_some());
}

#[test]
fn whoever_was_refused_for_want_of_bytes_is_woken_when_some_are_free() {
    let mut flow = machine(10, Rules { budget: 2 * BATCH, ..rules(4) });
    let token = begin(&mut flow);
    assert_eq!(work(&mut flow), 2);
    let (batch, woken) = take(&mut flow, token);
    assert_eq!((batch, woken), (Some(0), 1), "it is the user's now");
    assert_eq!(work(&mut flow), 1);
    let (is_kept, _) = flow.returned(BATCH, true);
    assert!(!is_kept, "the budget is used up");
}

fn loose() -> Rules {
    Rules { loose: true, batch_bytes: 0, budget: 1000, ..rules(4) }
}

/// Jobs of one sample each that may be begun, of those of a batch.
fn admitted(flow: &mut TestFlow, id: BatchId) -> usize {
    (0..4).filter(|n| flow.admit(id.generation, id.turn, (id.turn, *n)).is_some()).count()
}

fn open_loose(flow: &mut TestFlow) -> Option<BatchId> {
    let Opening::Batch { id, .. } = flow.open() else { return None };
    flow.opened(id, 4, 4).map(|_| id)
}

#[test]
fn before_the_first_sample_is_known_one_batch_is_begun() {
    let mut flow = machine(10, loose());
    begin(&mut flow);
    let id = open_loose(&mut flow).unwrap();
    assert!(open_loose(&mut flow).is_none());
    assert_eq!(admitted(&mut flow, id), 4);
    let (booked, effects) = flow.made((id.generation, id.turn), 1, 25, 25);
    assert_eq!((booked, effects.wake_workers), (25, 1));
    let opened = std::iter::from_fn(|| open_loose(&mut flow)).count();
    assert_eq!(opened, 3, "all that are read ahead: 4 * 4 * twice 25 bytes fit");
}

#[test]
fn samples_that_turn_out_large_hold_back_all_but_the_oldest_batch() {
    let mut flow = machine(10, loose());
    begin(&mut flow);
    let first = open_loose(&mut flow).unwrap();
    assert_eq!(admitted(&mut flow, first), 4);
    flow.made((first.generation, 0), 1, 10, 10);
    assert_eq!(flow.memory().undelivered, 10);
    let second = open_loose(&mut flow).unwrap();
    let third = open_loose(&mut flow).unwrap();
    flow.made((first.generation, 0), 1, 200, 200);
    // 210 are there, 2 more of the first may come and 4 of the second, of up to 400 each.
    assert_eq!(admitted(&mut flow, third), 0);
    assert_eq!(admitted(&mut flow, second), 0);
    assert_eq!(flow.release(), None);
    let (_, effects) = flow.made((first.generation, 0), 2, 20, 10);
    assert_eq!(effects.wake_workers, usize::MAX, "another is the oldest");
    let released: Vec<_> = std::iter::from_fn(|| flow.release()).collect();
    assert_eq!(released, [(1, 0), (1, 1), (1, 2), (1, 3)], "and comes before the third");
    assert_eq!(flow.freed(230).wake_workers, usize::MAX);
    assert_eq!(flow.release(), None, "the third has to wait for the second");
    flow.made((first.generation, 1), 4, 100, 50);
    assert_eq!(std::iter::from_fn(|| flow.release()).count(), 4);
}

/// Everything about a run that is drawn.
#[derive(Clone, Debug)]
struct Script {
    rules: Rules,
    batches: u64,
    workers: usize,
    held_by_user: usize,
    sample_bytes: u64,
    moves: Vec<u8>,
}

fn scripts() -> impl Strategy<Value = Script> {
    let numbers = (1usize..5, 1u64..9, 1usize..4, 0usize..4, 1u64..120, 1usize..4);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), proptest::option::of(1u64..4));
    let moves = proptest::collection::vec(any::<u8>(), 200);
    (numbers, flags, 1u64..12, moves).prop_map(|(numbers, flags, budget, moves)| {
        let (prefetch, batches, workers, held_by_user, sample_bytes, bunch) = numbers;
        let (frugal, is_loose, elastic, window) = flags;
        let bunch = Bunch::of(if is_loose { 1 } else { bunch.min(prefetch) });
        let rules = Rules {
            elastic,
            frugal: frugal && prefetch == 2 && window.is_none(),
            bunch,
            budget: budget * BATCH,
            loose: is_loose,
            iterated: false,
            batch_bytes: if is_loose { 0 } else { BATCH },
            window,
            ..rules(prefetch)
        };
        Script { rules, batches, workers, held_by_user, sample_bytes, moves }
    })
}

/// A batch as the model has it: what was done to it, told one by one.
#[derive(Clone, Default)]
struct Told {
    done: u64,
    in_work: u64,
    finished: bool,
    delivered: bool,
}

/// A batch of an older generation that workers still have jobs of.
struct Stale {
    generation: u64,
    turn: u64,
    told: Told,
}

/// Workers and a consumer who are driven by hand, and a list of all batches of this generation.
struct World {
    script: Script,
    flow: TestFlow,
    batches: Vec<Told>,
    stale: Vec<Stale>,
    queue: VecDeque<(u64, u64)>,
    asleep: Vec<bool>,
    /// The generation and the job.
    in_hand: Vec<Option<(u64, (u64, u64))>>,
    consumer_sleeps: bool,
    /// When it wakes by itself.
    wakes_ns: Option<u64>,
    held: usize,
    token: u64,
    /// How many samples were made, and how many batches delivered of this epoch.
    made: u64,
    in_epoch: u64,
    is_cancelled: bool,
    clock_ns: u64,
}

impl World {
    fn new(script: Script) -> World {
        let mut flow = machine(script.batches, script.rules.clone());
        let token = begin(&mut flow);
        let workers = script.workers;
        World {
            script,
            flow,
            batches: Vec::new(),
            stale: Vec::new(),
            queue: VecDeque::new(),
            asleep: vec![false; workers],
            in_hand: vec![None; workers],
            consumer_sleeps: false,
            wakes_ns: None,
            held: 0,
            token,
            made: 0,
            in_epoch: 0,
            is_cancelled: false,
            clock_ns: 0,
        }
    }

    /// The consumer begins the next epoch, wherever it is in this one.
    fn begin_epoch(&mut self, whom: u8) {
        let before = self.flow.generation();
        let (token, restarted, effects) = self.flow.begin_epoch();
        assert_eq!(restarted, self.in_epoch > 0 || self.is_cancelled, "only half-way");
        assert!(effects.wake_consumer, "whoever waits with the old token is told");
        self.token = token;
        (self.in_epoch, self.is_cancelled) = (0, false);
        match restarted {
            true => self.let_fall(before, effects, whom),
            false => self.carry_out(effects, whom),
        }
    }

    /// The consumer gives the epoch up.
    fn cancel(&mut self, whom: u8) {
        let before = self.flow.generation();
        match self.flow.cancel(self.token) {
            Some(effects) => {
                self.is_cancelled = true;
                self.let_fall(before, effects, whom);
            }
            None => assert!(self.is_cancelled || self.in_epoch == 0, "it runs"),
        }
    }

    /// A new generation is begun: nobody wants what there is.
    fn let_fall(&mut self, before: u64, effects: Effects<u64, (u64, u64)>, whom: u8) {
        assert_eq!(self.flow.generation(), before + 1);
        self.queue.clear();
        let Effects { wake_workers, wake_consumer, dropped: (finished, held), .. } = effects;
        let told = std::mem::take(&mut self.batches);
        let waiting = |told: &&Told| told.finished && !told.delivered;
        assert_eq!(finished.len(), told.iter().filter(waiting).count());
        drop(held);
        self.carry_out(Effects { wake_workers, wake_consumer, ..Effects::default() }, whom);
        for (turn, told) in told.into_iter().enumerate().filter(|(_, told)| !told.delivered) {
            self.stale.push(Stale { generation: before, turn: turn as u64, told });
        }
        self.drop_stale(whom);
    }

    /// Batches of older generations are dropped with their last job.
    fn drop_stale(&mut self, whom: u8) {
        while let Some(at) = self.stale.iter().position(|stale| stale.told.in_work == 0) {
            let stale = self.stale.swap_remove(at);
            let bytes = self.bytes_of(&stale.told);
            let effects = match self.script.rules.loose {
                true => self.flow.freed(bytes),
                false => self.flow.returned(bytes, false).1,
            };
            self.carry_out(effects, whom);
        }
    }

    fn carry_out(&mut self, effects: Effects<u64, (u64, u64)>, whom: u8) {
        if effects.wake_consumer {
            self.consumer_sleeps = false;
        }
        let workers = self.asleep.len();
        let mut left = effects.wake_workers;
        for i in 0..workers {
            let worker = (i + whom as usize) % workers;
            if left > 0 && std::mem::take(&mut self.asleep[worker]) {
                left -= 1;
            }
        }
        assert!(effects.dropped.0.is_empty() && effects.dropped.1.is_empty());
    }

    fn bytes_of(&self, told: &Told) -> u64 {
        match (self.script.rules.loose, told.delivered) {
            (_, true) => 0,
            (true, false) => told.done * self.script.sample_bytes,
            (false, false) => BATCH,
        }
    }

    /// What a sample is expected to take: twice what they take, until 64 were made.
    fn expected(&self) -> u64 {
        if self.made > 64 { self.script.sample_bytes } else { 2 * self.script.sample_bytes }
    }

    /// Undelivered bytes, counted one by one.
    fn undelivered(&self) -> u64 {
        let stale = self.stale.iter().map(|stale| &stale.told);
        self.batches.iter().chain(stale).map(|told| self.bytes_of(told)).sum()
    }

    /// What the samples of batches up to one may still take; `None` while no sample was made.
    fn to_come(&self, turn: usize) -> Option<u64> {
        let made = self.made > 0;
        let upto = self.batches.iter().take(turn.saturating_add(1));
        let left: u64 = upto.map(|told| 4 - told.done).sum();
        (made || !self.script.rules.loose).then(|| match self.script.rules.loose {
            true => left * self.expected(),
            false => 0,
        })
    }

    /// One step of a worker. Sleeps if there is nothing to do.
    fn work(&mut self, worker: usize, whom: u8) {
        if self.asleep[worker] {
            return;
        }
        if let Some((generation, (turn, _))) = self.in_hand[worker].take() {
            return self.make(generation, turn, whom);
        }
        if self.script.rules.loose
            && let Some(job) = self.flow.release()
        {
            return self.take_job(worker, job);
        }
        while let Some(job) = self.queue.pop_front() {
            let turn = job.0 as usize;
            let oldest = self.batches.iter().position(|told| told.done < 4);
            let fits = self
                .to_come(turn)
                .is_some_and(|more| self.undelivered() + more <= self.script.rules.budget);
            let expected = !self.script.rules.loose || oldest == Some(turn) || fits;
            let generation = self.flow.generation();
            let admitted = match self.script.rules.loose {
                true => self.flow.admit(generation, job.0, job),
                false => Some(job),
            };
            assert_eq!(admitted.is_some(), expected, "job {job:?}");
            if let Some(job) = admitted {
                return self.take_job(worker, job);
            }
        }
        match self.flow.open() {
            Opening::Batch { id, .. } => {
                assert_eq!(id.turn, self.batches.len() as u64);
                let not_delivered = self.batches.iter().filter(|told| !told.delivered).count();
                assert!(not_delivered < self.flow.read_ahead());
                if let Some(window) = self.script.rules.window {
                    let oldest = self.batches.iter().position(|told| told.done < 4);
                    assert!(id.turn - oldest.map_or(id.turn, |turn| turn as u64) < window);
                }
                if not_delivered > 0 && self.consumer_sleeps {
                    let more = self.to_come(usize::MAX).map(|more| match self.script.rules.loose {
                        true => more + 4 * self.expected(),
                        false => BATCH,
                    });
                    let fits = |more| self.undelivered() + more <= self.script.rules.budget;
                    assert!(more.is_some_and(fits), "opened beyond the budget");
                }
                if !self.script.rules.loose {
                    let effects = self.flow.took(BATCH, false, BATCH);
                    self.carry_out(effects, whom);
                }
                let effects = self.flow.opened(id, 4, 4).unwrap();
                self.batches.push(Told::default());
                self.queue.extend((0..4).map(|n| (id.turn, n)));
                self.carry_out(effects, whom);
            }
            _ => {
                let effects = self.flow.idle();
                self.carry_out(effects, whom);
                self.asleep[worker] = true;
            }
        }
    }

    fn take_job(&mut self, worker: usize, job: (u64, u64)) {
        self.batches[job.0 as usize].in_work += 1;
        self.in_hand[worker] = Some((self.flow.generation(), job));
    }

    fn make(&mut self, generation: u64, turn: u64, whom: u8) {
        let is_stale = generation != self.flow.generation();
        let told = match is_stale {
            false => &mut self.batches[turn as usize],
            true => {
                let is_it =
                    |stale: &&mut Stale| (stale.generation, stale.turn) == (generation, turn);
                &mut self.stale.iter_mut().find(is_it).expect("it has a job in work").told
            }
        };
        told.in_work -= 1;
        told.done += 1;
        let done = told.done;
        self.made += 1;
        if self.script.rules.loose || self.script.rules.window.is_some() {
            let bytes = if self.script.rules.loose { self.script.sample_bytes } else { 0 };
            let (_, effects) = self.flow.made((generation, turn), 1, bytes, bytes);
            self.carry_out(effects, whom);
        }
        if is_stale {
            return self.drop_stale(whom);
        }
        if done == 4 {
            self.batches[turn as usize].finished = true;
            let bytes = self.bytes_of(&self.batches[turn as usize]);
            // (epoch and number are not looked at here)
            let id = BatchId { generation, turn, epoch: 0, number: 0 };
            let finished = Finished { batch: turn, positions: Vec::new(), bytes };
            let effects = self.flow.finished(id, finished, None).unwrap();
            self.carry_out(effects, whom);
        }
    }

    /// One step of the consumer.
    fn consume(&mut self, whom: u8) {
        if self.wakes_ns.is_some_and(|wakes_ns| wakes_ns <= self.clock_ns) {
            self.consumer_sleeps = false;
        }
        if self.consumer_sleeps {
            return;
        }
        self.wakes_ns = None;
        if self.held > self.script.held_by_user || (self.held > 0 && whom.is_multiple_of(3)) {
            self.held -= 1;
            let bytes = if self.script.rules.loose { 4 * self.script.sample_bytes } else { BATCH };
            let (_, effects) = self.flow.returned(bytes, true);
            return self.carry_out(effects, whom);
        }
        let (answer, effects) = self.flow.ask_again_or_ask(self.token, self.clock_ns);
        self.carry_out(effects, whom);
        match answer {
            Answer::Batch(turn, _) => {
                let first = self.batches.iter().position(|told| !told.delivered).unwrap();
                assert_eq!(turn, first as u64, "in order, each once");
                assert!(self.batches[first].finished);
                self.batches[first].delivered = true;
                self.held += 1;
                self.in_epoch = (self.in_epoch + 1) % self.script.batches;
            }
            Answer::Wait { until_ns } => (self.consumer_sleeps, self.wakes_ns) = (true, until_ns),
            Answer::End => self.begin_epoch(whom),
            other => panic!("{other:?}"),
        }
    }

    fn check(&self) {
        assert_eq!(self.flow.memory().undelivered, self.undelivered());
        let ready = self.batches.iter().filter(|told| told.finished && !told.delivered).count();
        assert_eq!(self.flow.ready(), ready);
        let is_stuck = self.consumer_sleeps && self.asleep.iter().all(|asleep| *asleep);
        assert!(!is_stuck, "everybody sleeps");
    }
}

impl TestFlow {
    /// The consumer asks; it does not matter whether for the first time.
    fn ask_again_or_ask(
        &mut self,
        token: u64,
        now_ns: u64,
    ) -> (Answer<u64>, Effects<u64, (u64, u64)>) {
        if self.asked { self.ask_again(token, now_ns) } else { self.ask(token, now_ns) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn in_random_runs_with_restarts_batches_come_in_order_bytes_add_up_and_somebody_is_awake(
        script in scripts()
    ) {
        let mut world = World::new(script.clone());
        for whom in script.moves.iter().cycle().take(3 * script.moves.len()) {
            let who = usize::from(*whom) % (script.workers + 1);
            world.clock_ns += u64::from(*whom) * 1000;
            match who.checked_sub(1) {
                None if *whom > 250 => world.begin_epoch(*whom),
                None if *whom > 245 => world.cancel(*whom),
                None => world.consume(*whom),
                Some(worker) => world.work(worker, *whom),
            }
            world.check();
        }
        // Let everybody go on for as long as it takes to deliver some more.
        let delivered = |world: &World| world.batches.iter().filter(|told| told.delivered).count();
        let goal = if world.is_cancelled { 5 } else { delivered(&world) + 5 };
        for turn in 0..10_000 {
            for worker in 0..script.workers {
                world.work(worker, turn as u8);
            }
            world.consume(1);
            world.check();
            if delivered(&world) >= goal {
                break;
            }
        }
        prop_assert!(delivered(&world) >= goal, "delivery stopped");
        let before = world.flow.generation();
        let effects = world.flow.stop(None);
        prop_assert!(effects.wake_consumer && effects.wake_workers == ALL);
        world.let_fall(before, effects, 0);
        for worker in 0..script.workers {
            if world.in_hand[worker].is_some() {
                world.work(worker, 0);
            }
        }
        prop_assert!(matches!(world.flow.open(), Opening::Stopped));
        prop_assert_eq!(world.flow.memory().undelivered, 0);
    }
}
