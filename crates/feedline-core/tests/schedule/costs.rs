//! Order by cost, and ageing.

use feedline_core::schedule::{Job, MakePolicy, PolicyKind};
use proptest::prelude::*;

use crate::clock::Script;

fn jobs(batch: u64, costs: &[u64]) -> Vec<Job<u64>> {
    costs.iter().map(|&cost| Job { batch, cost_ns: cost, samples: 1, work: cost }).collect()
}

/// The costs, in the order one worker is given them.
fn order(kind: PolicyKind, costs: &[u64]) -> Vec<u64> {
    let policy = kind.make(1);
    policy.submit(&mut jobs(0, costs));
    std::iter::from_fn(|| policy.take(0)).map(|job| job.work).collect()
}

proptest! {
    #[test]
    fn shortest_and_longest_first_order_a_batch_by_cost(
        mut costs in prop::collection::vec(0..1_000_000_u64, 1..50),
    ) {
        let (shortest, longest) =
            (order(PolicyKind::ShortestFirst, &costs), order(PolicyKind::LongestFirst, &costs));
        costs.sort_unstable();
        prop_assert_eq!(shortest, costs.clone());
        costs.reverse();
        prop_assert_eq!(longest, costs);
    }
}

#[test]
fn jobs_of_equal_cost_keep_the_planned_order() {
    for kind in [PolicyKind::ShortestFirst, PolicyKind::LongestFirst] {
        let script = Script { slowness: vec![1; 2], batches: vec![vec![50; 6]; 4], window: 4 };
        let taken: Vec<_> =
            script.play(kind).runs.iter().map(|run| (run.batch, run.place)).collect();
        assert!(taken.is_sorted(), "{taken:?}");
    }
}

#[test]
fn jobs_of_unknown_cost_keep_the_planned_order() {
    for kind in [PolicyKind::ShortestFirst, PolicyKind::LongestFirst] {
        let policy = kind.make(3);
        for batch in 0..5 {
            let jobs = (0..4).map(|i| Job { batch, cost_ns: 0, samples: 1, work: 4 * batch + i });
            policy.submit(&mut jobs.collect());
        }
        let taken: Vec<u64> = std::iter::from_fn(|| policy.take(0)).map(|job| job.work).collect();
        assert_eq!(taken, (0..20).collect::<Vec<_>>());
    }
}

/// Puts one odd job into the first of endlessly many batches of `jobs` equal jobs, takes as many jobs
/// as come, and returns in how many later batches jobs overtook the odd one.
fn postponed(kind: PolicyKind, workers: usize, jobs_per_batch: usize, odd: u64, usual: u64) -> u64 {
    let policy = kind.make(workers);
    let mut first = jobs(0, &vec![usual; jobs_per_batch - 1]);
    first.push(Job { batch: 0, cost_ns: odd, samples: 1, work: u64::MAX });
    policy.submit(&mut first);
    for batch in 1.. {
        // One batch is always queued beyond what is taken, as read-ahead has it.
        policy.submit(&mut jobs(batch, &vec![usual; jobs_per_batch]));
        let mut overtaken = false;
        for k in 0..jobs_per_batch {
            let job = policy.take(k % workers).expect("a batch more was queued than taken");
            if job.work == u64::MAX {
                return batch - 1;
            }
            overtaken |= job.batch > 0;
        }
        assert!(overtaken || batch == 1);
    }
    unreachable!()
}

proptest! {
    // A later batch's jobs come before the odd one while
    //
    //     (sum of `age` over the batches between) < |odd - usual|,    age = batch cost / workers,
    //
    // where the batch cost is a moving average between the first batch's and the others' cost. So
    // at most |odd - usual| / (smaller batch cost / workers) batches overtake it, rounded up; one
    // more was queued when it came, and one is for the rounding of ages to whole nanoseconds.
    #[test]
    fn a_dear_job_is_overtaken_by_a_bounded_number_of_batches_of_cheap_ones(
        workers in 1..9_usize, jobs in 2..64_usize, usual in 1_000..100_000_u64, times in 2..200_u64,
    ) {
        let odd = times * usual;
        let age = jobs as u64 * usual / workers as u64;
        let bound = (odd - usual).div_ceil(age - 1) + 2;
        let batches = postponed(PolicyKind::ShortestFirst, workers, jobs, odd, usual);
        prop_assert!(batches <= bound, "{} > {}", batches, bound);
    }

    #[test]
    fn a_cheap_job_is_overtaken_by_a_bounded_number_of_batches_of_dear_ones(
        workers in 1..9_usize, jobs in 2..64_usize, odd in 0..1_000_u64, usual in 1_000..100_000_u64,
    ) {
        let age = ((jobs as u64 - 1) * usual + odd) / workers as u64;
        let bound = (usual - odd).div_ceil(age - 1) + 2;
        let batches = postponed(PolicyKind::LongestFirst, workers, jobs, odd, usual);
        prop_assert!(batches <= bound, "{} > {}", batches, bound);
    }
}

#[test]
fn a_job_waits_for_about_as_many_batches_as_its_cost_is_worth() {
    // 100 x as dear as the others, batches of 10 on one worker: worth ten batches. The average batch
    // cost has the dear job in it, so ages are larger at first and it waits for less.
    let waited = postponed(PolicyKind::ShortestFirst, 1, 10, 100_000, 1_000);
    assert!((1..=10).contains(&waited), "{waited}");
    // On ten workers a batch is done ten times as fast.
    let waited = postponed(PolicyKind::ShortestFirst, 10, 10, 100_000, 1_000);
    assert!((30..=100).contains(&waited), "{waited}");
}

#[test]
fn a_substitute_comes_in_as_old_as_the_newest_batch() {
    let policy = PolicyKind::ShortestFirst.make(1);
    policy.submit(&mut jobs(0, &[10, 10]));
    policy.submit(&mut jobs(1, &[10, 10]));
    // A job of batch 0 that comes again ages nothing: the next batch is as far behind as ever.
    policy.submit(&mut jobs(0, &[5]));
    policy.submit(&mut jobs(2, &[10, 10]));
    let taken: Vec<(u64, u64)> =
        std::iter::from_fn(|| policy.take(0)).map(|job| (job.batch, job.work)).collect();
    assert_eq!(taken, [(0, 10), (0, 10), (0, 5), (1, 10), (1, 10), (2, 10), (2, 10)]);
}
