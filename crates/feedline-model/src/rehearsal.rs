//! A run of a loader, batch by batch, with mean times: how long it takes until all batches are taken.
//!
//! Workers make samples and put batches together, each as fast as [`Cores`] let it; a training loop takes the
//! batches in order and steps. Between two events nothing changes, so the clock jumps from one to the next. No chance
//! is in it: all samples take the same, as many of them together nearly do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::calibrate::{Assignment, WorkCosts};
use crate::contention::{Cores, Speeds};

/// A loader at work.
#[derive(Clone, Debug)]
pub(crate) struct Rehearsal {
    pub(crate) assignment: Assignment,
    pub(crate) costs: WorkCosts,
    pub(crate) cores: Cores,
    pub(crate) workers: usize,
    pub(crate) batch_size: u32,
    /// Batches that may be begun and not taken.
    pub(crate) ahead: usize,
    pub(crate) batches: usize,
    pub(crate) step: f64,
    /// When the training loop asks for its first batch.
    pub(crate) asks_at: f64,
    /// When the first worker is started, and how much later each further one is.
    pub(crate) started_at: (f64, f64),
    /// Seconds on a core until a started worker begins to work.
    pub(crate) spin_up: f64,
    /// Seconds that the loop, when it wakes up, has a core to itself.
    pub(crate) head_start: f64,
    /// Seconds on a core for the memory of a batch, where none is used again.
    pub(crate) new_memory: f64,
}

/// When batches came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rehearsed {
    /// When each batch was in the loop's hands.
    pub(crate) at: Vec<f64>,
    /// How long the loop waited for each.
    pub(crate) waits: Vec<f64>,
    /// The most batches that were begun and not let go at a time.
    pub(crate) most_begun: usize,
}

/// What a worker is at.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Doing {
    Nothing,
    /// The batch it makes, or makes samples of.
    Making(usize),
    Collating(usize),
    Starting,
}

/// What happens at a known time.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Starts(usize),
    /// The loop lets go of a batch's memory, then it steps.
    LetsGo,
    /// The loop asks for its next batch.
    Asks,
}

/// Workers that advance at one speed: who begins at progress `p` with work `w` is done at progress `p + w`.
#[derive(Default)]
struct Abreast {
    progress: f64,
    members: BinaryHeap<Reverse<(Ordered, usize)>>,
}

impl Abreast {
    fn join(&mut self, worker: usize, work: f64) {
        self.members.push(Reverse((Ordered(self.progress + work), worker)));
    }

    /// How long until the next is done.
    fn next(&self, speed: f64) -> f64 {
        let Some(Reverse((Ordered(done), _))) = self.members.peek() else { return f64::INFINITY };
        (done - self.progress).max(0.0) / speed
    }

    fn advance(&mut self, time: f64, speed: f64) {
        self.progress = if self.members.is_empty() { 0.0 } else { self.progress + time * speed };
    }

    fn leave(&mut self) -> Option<usize> {
        self.members.pop().map(|Reverse((_, worker))| worker)
    }
}

/// Everything that changes.
struct Rehearsing<'a> {
    run: &'a Rehearsal,
    now: f64,
    doing: Vec<Doing>,
    making: Abreast,
    /// And all others who want a core: workers that start, and (numbered after them) the loop when it lets go.
    collating: Abreast,
    /// What the loop has left of its work in its head start, and after that.
    ahead: Option<(f64, f64)>,
    events: BinaryHeap<Reverse<(Ordered, Known)>>,
    /// By samples: workers that have nothing to do.
    idle: Vec<usize>,
    /// By batches: the next one of each worker.
    next_of: Vec<usize>,
    /// By samples: the next share of a batch to be made, and how many there are of each.
    next: usize,
    shares: usize,
    /// Shares that are not made yet, by batch.
    left: Vec<usize>,
    is_ready: Vec<bool>,
    /// Batches that had no memory to use again, and how many could have.
    is_new: Vec<bool>,
    spare: usize,
    /// Batches that were let go.
    released: usize,
    /// Whether workers were told what to make.
    is_told: bool,
    /// Since when the loop asks, if it does.
    asks: Option<f64>,
    taken: Rehearsed,
    /// How fast so many workers advance that make samples, and that collate.
    speeds: HashMap<(usize, usize, bool), Speeds>,
}

impl Rehearsal {
    pub(crate) fn taken(&self) -> Rehearsed {
        let shares = match self.assignment {
            Assignment::Samples => (self.batch_size as usize)
                .min(SHARES.max(4 * self.workers))
                .min((MOST_SHARES / self.batches.max(1)).max(1)),
            Assignment::Batches => 1,
        };
        let mut state = Rehearsing {
            run: self,
            now: 0.0,
            doing: vec![Doing::Nothing; self.workers],
            making: Abreast::default(),
            collating: Abreast::default(),
            ahead: None,
            events: BinaryHeap::new(),
            idle: Vec::new(),
            next_of: vec![usize::MAX; self.workers],
            next: 0,
            shares,
            left: vec![shares; self.batches],
            is_ready: vec![false; self.batches],
            is_new: vec![false; self.batches],
            spare: 0,
            released: 0,
            is_told: self.assignment == Assignment::Samples,
            asks: None,
            taken: Rehearsed::default(),
            speeds: HashMap::new(),
        };
        for worker in 0..self.workers {
            let at = self.started_at.0 + self.started_at.1 * worker as f64;
            state.events.push(Reverse((Ordered(at), Known::Starts(worker))));
        }
        state.events.push(Reverse((Ordered(self.asks_at), Known::Asks)));
        while state.taken.at.len() < self.batches && state.step() {}
        state.taken
    }
}

/// A batch is cut into at most so many shares, or a few for each worker.
const SHARES: usize = 48;

/// All batches together into at most so many, which are followed in a fraction of a second.
const MOST_SHARES: usize = 1 << 20;

impl Rehearsing<'_> {
    /// Goes on to the next event; false if there is none.
    fn step(&mut self) -> bool {
        let (making, collating) = (self.making.members.len(), self.collating.members.len());
        let is_ahead = self.ahead.is_some();
        let worked_out = || {
            let cores = if is_ahead { self.run.cores.but_one() } else { self.run.cores };
            cores.speeds(&self.run.costs, making, collating)
        };
        let speeds = *self.speeds.entry((making, collating, is_ahead)).or_insert_with(worked_out);
        let known =
            self.events.peek().map_or(f64::INFINITY, |Reverse((Ordered(at), _))| at - self.now);
        let made = self.making.next(speeds.making);
        let collated = self.collating.next(speeds.collating);
        let head = self.ahead.map_or(f64::INFINITY, |(left, _)| left);
        let time = known.min(made).min(collated).min(head);
        if time == f64::INFINITY {
            return false;
        }
        self.now += time;
        self.making.advance(time, speeds.making);
        self.collating.advance(time, speeds.collating);
        if let Some((left, later)) = self.ahead {
            self.ahead = (time < head).then_some((left - time, later));
            if time == head {
                self.collating.join(self.run.workers, later);
                return true;
            }
        }
        if time == known {
            match self.events.pop() {
                Some(Reverse((_, Known::Starts(worker)))) => {
                    self.doing[worker] = Doing::Starting;
                    self.collating.join(worker, self.run.spin_up);
                }
                Some(Reverse((_, Known::LetsGo))) => {
                    let release = self.run.costs.release * f64::from(self.run.batch_size);
                    // A single core is shared from the start.
                    let has_other = self.run.cores.count > 1.0;
                    let head = if has_other { release.min(self.run.head_start) } else { 0.0 };
                    self.ahead = Some((head, release - head));
                }
                _ => self.ask(),
            }
        } else if time == made {
            if let Some(worker) = self.making.leave() {
                self.made(worker);
            }
        } else if let Some(worker) = self.collating.leave() {
            if worker == self.run.workers {
                let asks = self.now + self.run.step;
                self.events.push(Reverse((Ordered(asks), Known::Asks)));
                return true;
            }
            match self.doing[worker] {
                Doing::Collating(batch) => self.finish(batch),
                _ => self.next_of[worker] = worker,
            }
            self.begin(worker);
        }
        true
    }

    fn may_begin(&self, batch: usize) -> bool {
        self.is_told && batch < self.run.batches && batch < self.released + self.run.ahead
    }

    /// Gives a worker something to do, if there is anything.
    fn begin(&mut self, worker: usize) {
        let batch = match self.run.assignment {
            Assignment::Batches => self.next_of[worker],
            Assignment::Samples => self.next / self.shares,
        };
        if self.next_of[worker] == usize::MAX || !self.may_begin(batch) {
            self.doing[worker] = Doing::Nothing;
            self.idle.push(worker);
            return;
        }
        if self.next.is_multiple_of(self.shares) {
            self.is_new[batch] = self.spare == 0;
            self.spare = self.spare.saturating_sub(1);
        }
        self.next += 1;
        self.next_of[worker] += self.run.workers;
        self.doing[worker] = Doing::Making(batch);
        let begun = batch + 1 - self.released;
        self.taken.most_begun = self.taken.most_begun.max(begun);
        let samples = f64::from(self.run.batch_size) / self.shares as f64;
        let new = if self.is_new[batch] { self.run.new_memory / self.shares as f64 } else { 0.0 };
        self.making.join(worker, samples * self.run.costs.sample() + new);
    }

    fn made(&mut self, worker: usize) {
        let Doing::Making(batch) = self.doing[worker] else { return };
        self.left[batch] -= 1;
        if self.left[batch] > 0 {
            return self.begin(worker);
        }
        self.doing[worker] = Doing::Collating(batch);
        self.collating.join(worker, self.run.costs.collating(self.run.batch_size));
    }

    fn finish(&mut self, batch: usize) {
        self.is_ready[batch] = true;
        self.take();
    }

    fn ask(&mut self) {
        self.asks = Some(self.now);
        if !self.is_told {
            // Workers are told what to make when all of them have been started.
            self.is_told = true;
            (0..self.run.workers)
                .filter(|it| self.doing[*it] == Doing::Nothing)
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|worker| self.begin(worker));
        }
        if self.run.assignment == Assignment::Samples {
            // The loop drops a batch when it asks for the next.
            self.spare += self.taken.at.len() - self.released;
            self.released = self.taken.at.len();
            self.wake();
        }
        self.take();
    }

    /// The loop takes the batch that it asks for, if it is there.
    fn take(&mut self) {
        let batch = self.taken.at.len();
        let Some(since) = self.asks.filter(|_| self.is_ready.get(batch) == Some(&true)) else {
            return;
        };
        self.asks = None;
        let has_it = self.now + self.run.costs.handover;
        self.taken.at.push(has_it);
        self.taken.waits.push(has_it - since);
        self.events.push(Reverse((Ordered(has_it), Known::LetsGo)));
        if self.run.assignment == Assignment::Batches {
            self.released = batch + 1;
            self.wake();
        }
    }

    /// A batch was let go: who has nothing to do may have.
    fn wake(&mut self) {
        match self.run.assignment {
            Assignment::Batches => {
                let worker = (self.released + self.run.ahead - 1) % self.run.workers;
                if self.doing[worker] == Doing::Nothing {
                    self.begin(worker);
                }
            }
            Assignment::Samples => {
                for worker in std::mem::take(&mut self.idle) {
                    self.begin(worker);
                }
            }
        }
    }
}

/// A number that is never NaN, in order.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(assignment: Assignment, workers: usize, costs: WorkCosts) -> Rehearsal {
        Rehearsal {
            assignment,
            costs,
            cores: Cores { count: 4.0, efficiency: 1.0, switching: 0.0 },
            workers,
            batch_size: 16,
            ahead: 2 * workers,
            batches: 10,
            step: 0.0,
            asks_at: 0.0,
            started_at: (0.0, 0.0),
            spin_up: 0.0,
            head_start: 0.0,
            new_memory: 0.0,
        }
    }

    /// Ten batches of 16 samples that wait 10 ms: dealt out one by one, or batch by batch.
    #[test]
    fn waiting_samples_take_as_long_as_the_worker_with_the_most() {
        let costs = WorkCosts { wait: 0.01, ..WorkCosts::default() };
        for workers in 1..=12usize {
            let last = |assignment| *run(assignment, workers, costs).taken().at.last().unwrap();
            let by_samples = 160usize.div_ceil(workers) as f64 * 0.01;
            let by_batches = 10usize.div_ceil(workers) as f64 * 0.16;
            assert!((last(Assignment::Samples) - by_samples).abs() < 1e-9, "{workers}");
            assert!((last(Assignment::Batches) - by_batches).abs() < 1e-9, "{workers}");
        }
    }

    #[test]
    fn a_loop_that_is_slower_waits_for_its_first_batch_alone() {
        let costs = WorkCosts { wait: 0.01, handover: 0.001, ..WorkCosts::default() };
        let taken = Rehearsal { step: 1.0, ..run(Assignment::Batches, 2, costs) }.taken();
        assert!((taken.waits[0] - 0.161).abs() < 1e-9);
        assert!(taken.waits[1..].iter().all(|wait| (wait - 0.001).abs() < 1e-9), "{taken:?}");
        assert!((taken.at[9] - (0.161 + 9.0 * 1.001)).abs() < 1e-9);
    }

    #[test]
    fn a_worker_makes_no_more_than_may_be_ahead() {
        // One ahead: it makes the next batch while the loop steps, never two.
        let costs = WorkCosts { wait: 0.01, ..WorkCosts::default() };
        let slow = Rehearsal { ahead: 1, step: 0.08, ..run(Assignment::Samples, 1, costs) }.taken();
        // By samples a batch is let go when the next is asked for, so making and stepping alternate.
        assert!((slow.at[9] - (10.0 * 0.16 + 9.0 * 0.08)).abs() < 1e-9, "{slow:?}");
        let fast = Rehearsal { ahead: 2, step: 0.08, ..run(Assignment::Samples, 1, costs) }.taken();
        assert!((fast.at[9] - 10.0 * 0.16).abs() < 1e-9, "{fast:?}");
    }

    #[test]
    fn batches_put_together_at_a_time_share_the_cores() {
        // Eight workers end their samples together and want four cores: twice as long.
        let costs = WorkCosts { wait: 0.01, collate: 0.001, ..WorkCosts::default() };
        let taken = Rehearsal { batches: 8, ..run(Assignment::Batches, 8, costs) }.taken();
        assert!((taken.at[7] - (0.16 + 0.032)).abs() < 1e-6, "{taken:?}");
    }

    #[test]
    fn a_loop_that_wakes_up_shares_its_core_after_its_head_start() {
        // Two workers always want both cores. Letting go takes 16 ms: of two thirds of a core 24, after 4 ms to itself 4 + 18.
        let costs = WorkCosts { cpu: 1.0, release: 0.001, ..WorkCosts::default() };
        let cores = Cores { count: 2.0, efficiency: 1.0, switching: 0.0 };
        for (head_start, takes) in [(0.0, 0.024), (0.004, 0.022), (0.1, 0.016)] {
            let run = Rehearsal { cores, head_start, ..run(Assignment::Batches, 2, costs) };
            let taken = run.taken();
            // A batch of each worker is there at a time: the second is asked for when the first is let go of.
            let between = taken.at[1] - taken.at[0];
            assert!((between - takes).abs() < 1e-9, "{head_start}: {between}");
        }
    }

    #[test]
    fn workers_that_begin_later_end_later() {
        let costs = WorkCosts { wait: 0.01, ..WorkCosts::default() };
        let late =
            Rehearsal { started_at: (0.5, 0.25), batches: 2, ..run(Assignment::Batches, 2, costs) };
        let taken = late.taken();
        assert!((taken.at[0] - 0.66).abs() < 1e-9 && (taken.at[1] - 0.91).abs() < 1e-9);
    }
}
