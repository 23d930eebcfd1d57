//! Who does the work: the one place where policies live.
//!
//! A [`Policy`] receives the jobs of each batch in planned order and gives them out to workers. It
//! decides who works on what and when, never *what* is delivered: the delivered order is the plan's
//! under every policy. Policies are small queues behind small locks; they know no clock and no
//! thread, so that tests drive them with scripted workers on a virtual clock.
//!
//! Uses no other room.
//!
//! | policy | file | good for |
//! | --- | --- | --- |
//! | [`PolicyKind::Steal`] (default) | `steal.rs` | everything; idle workers take half of a random victim's queue |
//! | [`PolicyKind::Central`] | `central.rs` | perfect balance at the price of one shared lock |
//! | [`PolicyKind::RoundRobin`] | `round_robin.rs` | even costs, no coordination |
//! | [`PolicyKind::Block`] | `block.rs` | even costs and locality: neighbours go to one worker |
//! | [`PolicyKind::ShortestFirst`] | `cost_first.rs` | low mean completion time |
//! | [`PolicyKind::LongestFirst`] | `cost_first.rs` | heavy tails: no long sample is left for the end |
//! | [`PolicyKind::Weighted`] | `weighted.rs` | workers of unequal capacity |

mod block;
mod central;
mod cost_first;
pub(crate) mod costs;
pub(crate) mod grain;
mod laden;
mod lanes;
mod round_robin;
mod steal;
mod weighted;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest time that histograms tell apart: one hour.
pub(crate) const LONGEST_NS: u64 = 3_600_000_000_000;

/// A piece of work for one worker: one or more neighbouring samples of one batch.
#[derive(Debug)]
pub struct Job<T> {
    /// The turn of the batch it belongs to, counted from when delivery was begun last; lower is needed sooner.
    pub batch: u64,
    /// What it is expected to cost, in nanoseconds; 0 when nothing is known.
    pub cost_ns: u64,
    /// How many samples it has.
    pub samples: u32,
    /// The work itself.
    pub work: T,
}

/// Decides which worker takes which job.
///
/// Every job that was submitted is taken exactly once, unless it is [cleared](Policy::clear).
pub trait Policy<T: Send>: Send + Sync {
    /// Takes in the jobs of one batch, in planned order, leaving `jobs` empty.
    fn submit(&self, jobs: &mut Vec<Job<T>>);

    /// The next job for `worker`, or `None` if there is none for it now.
    fn take(&self, worker: usize) -> Option<Job<T>>;

    /// Learns that `worker` spent `elapsed_ns` on a job of `samples`. Returns whether waiting jobs
    /// have changed hands, so that a sleeping worker may have one now.
    fn finished(&self, worker: usize, samples: u32, elapsed_ns: u64) -> bool {
        let _ = (worker, samples, elapsed_ns);
        false
    }

    /// Takes out all jobs that nobody has taken, to be dropped where that is safe.
    fn clear(&self) -> Vec<Job<T>>;

    /// How many jobs nobody has taken.
    fn queued(&self) -> usize;

    /// Whether any worker may take any job. If not, a new job can concern one sleeping worker
    /// alone, and all must be woken to find out which.
    fn anyone_may_take(&self) -> bool;

    /// Only the first so many workers take jobs from now on. Told only where [anyone](Policy::anyone_may_take) may
    /// take any job; jobs need not be dealt to the others.
    fn set_workers(&self, _workers: usize) {}

    /// Steals so far; zero for policies that do not steal.
    fn steals(&self) -> Steals {
        Steals::default()
    }
}

/// Steals so far.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Steals {
    /// Victims that were looked at.
    pub tried: u64,
    /// Victims that had something.
    pub won: u64,
    /// Jobs that changed hands.
    pub jobs: u64,
    /// Time spent looking and taking, by all workers together.
    pub cost_ns: u64,
}

impl Steals {
    pub(crate) fn plus(&self, other: &Steals) -> Steals {
        Steals {
            tried: self.tried + other.tried,
            won: self.won + other.won,
            jobs: self.jobs + other.jobs,
            cost_ns: self.cost_ns + other.cost_ns,
        }
    }
}

/// The policies there are.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PolicyKind {
    /// Own queues; an idle worker takes half of a random victim's.
    #[default]
    Steal,
    /// One queue for all.
    Central,
    /// Job k goes to worker k mod workers.
    RoundRobin,
    /// Each worker gets one run of neighbouring samples of each batch.
    Block,
    /// One queue ordered by expected cost, cheap jobs first, with ageing.
    ShortestFirst,
    /// One queue ordered by expected cost, dear jobs first, with ageing.
    LongestFirst,
    /// Own queues, filled in proportion to measured capacity, rebalanced from time to time.
    Weighted,
}

impl PolicyKind {
    /// Every policy.
    pub const ALL: [PolicyKind; 7] = [
        PolicyKind::Steal,
        PolicyKind::Central,
        PolicyKind::RoundRobin,
        PolicyKind::Block,
        PolicyKind::ShortestFirst,
        PolicyKind::LongestFirst,
        PolicyKind::Weighted,
    ];

    /// Its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Steal => "steal",
            PolicyKind::Central => "central",
            PolicyKind::RoundRobin => "round_robin",
            PolicyKind::Block => "block",
            PolicyKind::ShortestFirst => "shortest_first",
            PolicyKind::LongestFirst => "longest_first",
            PolicyKind::Weighted => "weighted",
        }
    }

    /// The policy with this [name](PolicyKind::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<PolicyKind> {
        PolicyKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Makes the policy of a loader. [`PolicyKind`] does; implement it to bring one of your own to
/// [`LoaderBuilder::policy`](crate::LoaderBuilder::policy).
pub trait MakePolicy {
    /// A fresh policy for `workers` workers (at least one).
    fn make<T: Send + 'static>(&self, workers: usize) -> Arc<dyn Policy<T>>;

    /// Whether it profits from knowing the cost of each single sample.
    fn wants_costs(&self) -> bool {
        false
    }
}

impl MakePolicy for PolicyKind {
    fn make<T: Send + 'static>(&self, workers: usize) -> Arc<dyn Policy<T>> {
        let workers = workers.max(1);
        match self {
            PolicyKind::Steal => Arc::new(steal::Steal::new(workers)),
            PolicyKind::Central => Arc::new(central::Central::new()),
            PolicyKind::RoundRobin => Arc::new(round_robin::RoundRobin::new(workers)),
            PolicyKind::Block => Arc::new(block::BlockPartition::new(workers)),
            PolicyKind::ShortestFirst => {
                Arc::new(cost_first::CostFirst::new(cost_first::Prefer::Cheap, workers))
            }
            PolicyKind::LongestFirst => {
                Arc::new(cost_first::CostFirst::new(cost_first::Prefer::Dear, workers))
            }
            PolicyKind::Weighted => Arc::new(weighted::WeightedLanes::new(workers)),
        }
    }

    fn wants_costs(&self) -> bool {
        matches!(self, PolicyKind::ShortestFirst | PolicyKind::LongestFirst)
    }
}
