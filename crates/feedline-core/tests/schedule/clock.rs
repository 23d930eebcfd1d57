//! An event-driven simulation of workers under a policy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use feedline_core::plan::Stream;
use feedline_core::schedule::{Job, MakePolicy, Policy, PolicyKind};

/// What is to be done, by whom.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// How long worker w takes per unit of cost.
    pub(crate) slowness: Vec<u64>,
    /// The costs of the jobs of each batch.
    pub(crate) batches: Vec<Vec<u64>>,
    /// How many batches may be open at once: a batch is open until it and all before it are done.
    pub(crate) window: usize,
}

/// One job's fate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) batch: usize,
    /// Its place in its batch.
    pub(crate) place: usize,
    pub(crate) worker: usize,
    pub(crate) started: u64,
    pub(crate) ended: u64,
}

/// What came of a script: jobs in the order they were taken.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) runs: Vec<Run>,
    pub(crate) busy: Vec<u64>,
}

impl Script {
    /// Equal workers, and all jobs at once in one batch.
    pub(crate) fn at_once(workers: usize, costs: &[u64]) -> Script {
        Script { slowness: vec![1; workers], batches: vec![costs.to_vec()], window: 1 }
    }

    /// Runs to the end. A job that nobody may take would end it too early, and the trace shows it.
    pub(crate) fn play(&self, kind: PolicyKind) -> Trace {
        self.play_with(&*kind.make(self.slowness.len()))
    }

    pub(crate) fn play_with(&self, policy: &dyn Policy<(usize, usize)>) -> Trace {
        let workers = self.slowness.len();
        let mut trace = Trace { runs: Vec::new(), busy: vec![0; workers] };
        let mut left: Vec<usize> = self.batches.iter().map(Vec::len).collect();
        let (mut now, mut opened) = (0, 0);
        let mut idle: Vec<bool> = vec![true; workers];
        let mut events: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
        loop {
            let delivered = left.iter().take_while(|left| **left == 0).count();
            while opened < self.batches.len() && opened - delivered.min(opened) < self.window {
                policy.submit(&mut self.jobs(opened));
                opened += 1;
            }
            for (worker, idle) in idle.iter_mut().enumerate().filter(|(_, idle)| **idle) {
                if let Some(job) = policy.take(worker) {
                    let (batch, place) = job.work;
                    let elapsed = self.batches[batch][place] * self.slowness[worker];
                    let run = Run { batch, place, worker, started: now, ended: now + elapsed };
                    events.push(Reverse((run.ended, worker, trace.runs.len())));
                    trace.runs.push(run);
                    trace.busy[worker] += elapsed;
                    *idle = false;
                }
            }
            let Some(Reverse((time, worker, run))) = events.pop() else { return trace };
            now = time;
            idle[worker] = true;
            left[trace.runs[run].batch] -= 1;
            policy.finished(worker, 1, now - trace.runs[run].started);
        }
    }

    pub(crate) fn jobs(&self, batch: usize) -> Vec<Job<(usize, usize)>> {
        let job = |(place, cost): (usize, &u64)| Job {
            batch: batch as u64,
            cost_ns: *cost,
            samples: 1,
            work: (batch, place),
        };
        self.batches[batch].iter().enumerate().map(job).collect()
    }
}

impl Trace {
    /// When the last job ended.
    pub(crate) fn makespan(&self) -> u64 {
        self.runs.iter().map(|run| run.ended).max().unwrap_or(0)
    }

    /// When the last job of a batch ended.
    pub(crate) fn finished(&self, batch: usize) -> u64 {
        self.runs.iter().filter(|run| run.batch == batch).map(|run| run.ended).max().unwrap_or(0)
    }

    /// The sum over all jobs of the time they were done at.
    pub(crate) fn completions(&self) -> u64 {
        self.runs.iter().map(|run| run.ended).sum()
    }

    /// `max / mean` of the workers' time: 1 is perfect balance.
    pub(crate) fn imbalance(&self) -> f64 {
        let most = *self.busy.iter().max().expect("at least one worker") as f64;
        most * self.busy.len() as f64 / self.busy.iter().sum::<u64>() as f64
    }
}

/// `n` costs of log-normal distribution with median 1,000 and the given sigma.
pub(crate) fn log_normal(n: usize, sigma: f64, seed: u64) -> Vec<u64> {
    let mut stream = Stream::new(seed, 0, 0);
    // Box and Muller; 1 - u is never zero.
    let mut normal = || {
        let (radius, angle) = (1.0 - stream.unit_f64(), std::f64::consts::TAU * stream.unit_f64());
        (-2.0 * radius.ln()).sqrt() * angle.cos()
    };
    (0..n).map(|_| (1000.0 * (sigma * normal()).exp()).ceil() as u64).collect()
}
