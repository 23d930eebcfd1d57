//! Who gets which job where queues are the workers' own.

use feedline_core::schedule::{Job, MakePolicy, Policy, PolicyKind, Steals};
use proptest::prelude::*;

use crate::clock::Script;

/// Jobs numbered on from `first`, each of so many samples.
fn jobs(first: usize, samples: &[u32]) -> Vec<Job<usize>> {
    let job = |(i, samples): (usize, &u32)| Job {
        batch: 0,
        cost_ns: 100,
        samples: *samples,
        work: first + i,
    };
    samples.iter().enumerate().map(job).collect()
}

fn take(policy: &dyn Policy<usize>, worker: usize) -> Option<usize> {
    policy.take(worker).map(|job| job.work)
}

fn take_all(policy: &dyn Policy<usize>, worker: usize) -> Vec<usize> {
    std::iter::from_fn(|| take(policy, worker)).collect()
}

proptest! {
    #[test]
    fn round_robin_gives_job_k_to_worker_k_mod_workers(
        workers in 1..9_usize, sizes in prop::collection::vec(1..30_usize, 1..10),
    ) {
        let policy = PolicyKind::RoundRobin.make(workers);
        let mut submitted = 0;
        for size in sizes {
            policy.submit(&mut jobs(submitted, &vec![1; size]));
            submitted += size;
        }
        for worker in 0..workers {
            let expected: Vec<usize> = (worker..submitted).step_by(workers).collect();
            prop_assert_eq!(take_all(&*policy, worker), expected);
        }
    }

    #[test]
    fn block_gives_each_worker_one_run_of_neighbours(
        workers in 1..9_usize, batches in prop::collection::vec(1..40_usize, 1..6),
    ) {
        let policy = PolicyKind::Block.make(workers);
        for (batch, size) in batches.into_iter().enumerate() {
            policy.submit(&mut jobs(0, &vec![1; size]));
            let mut begun = 0;
            // The first run moves on by one worker from batch to batch.
            for worker in (0..workers).map(|w| (batch + w) % workers) {
                let run = take_all(&*policy, worker);
                let expected: Vec<usize> = (begun..begun + run.len()).collect();
                prop_assert_eq!(&run, &expected);
                prop_assert!((size / workers..=size.div_ceil(workers)).contains(&run.len()));
                begun += run.len();
            }
            prop_assert_eq!(begun, size);
        }
    }
}

#[test]
fn block_shares_samples_evenly_not_jobs() {
    let policy = PolicyKind::Block.make(2);
    policy.submit(&mut jobs(0, &[6, 2, 2, 2]));
    assert_eq!(take_all(&*policy, 0), [0]);
    assert_eq!(take_all(&*policy, 1), [1, 2, 3]);
}

#[test]
fn a_thief_takes_the_older_half_of_its_victims_queue() {
    let policy = PolicyKind::Steal.make(2);
    policy.submit(&mut jobs(0, &[1; 12]));
    // Dealt out in turn: worker 0 has the even jobs, worker 1 the odd ones.
    let own = [0, 2, 4, 6, 8, 10].map(Some);
    assert_eq!([(); 6].map(|()| take(&*policy, 0)), own);
    assert_eq!(policy.steals(), Steals::default(), "own work first");

    assert_eq!(take(&*policy, 0), Some(1));
    let first = policy.steals();
    assert_eq!((first.tried, first.won, first.jobs), (1, 1, 3));
    assert_eq!(take(&*policy, 1), Some(7), "the victim keeps the younger half");
    assert_eq!([take(&*policy, 0), take(&*policy, 0)], [Some(3), Some(5)], "now its own");

    // Of what is left, [9, 11], one is half.
    assert_eq!(take(&*policy, 0), Some(9));
    assert_eq!(take(&*policy, 1), Some(11));
    let both = policy.steals();
    assert_eq!((both.tried, both.won, both.jobs), (2, 2, 4));

    assert_eq!(take(&*policy, 0), None);
    assert_eq!(policy.steals(), both, "nobody is asked while nothing is queued");
}

#[test]
fn of_an_odd_queue_a_thief_takes_the_larger_half() {
    let policy = PolicyKind::Steal.make(2);
    policy.submit(&mut jobs(0, &[1; 10]));
    (0..5).for_each(|_| assert!(take(&*policy, 0).is_some()));
    assert_eq!(take(&*policy, 0), Some(1), "of 1 3 5 7 9");
    assert_eq!(policy.steals().jobs, 3);
    assert_eq!(take_all(&*policy, 1), [7, 9, 3, 5], "its own, then stolen back");
}

#[test]
fn a_lone_worker_robs_nobody() {
    let policy = PolicyKind::Steal.make(1);
    policy.submit(&mut jobs(0, &[1; 3]));
    assert_eq!(take_all(&*policy, 0), [0, 1, 2]);
    assert_eq!(policy.steals(), Steals::default());
}

#[test]
fn thieves_choose_their_victims_at_random() {
    let policy = PolicyKind::Steal.make(4);
    let mut robbed = [0; 4];
    for round in 0..300 {
        policy.submit(&mut jobs(0, &[1; 4]));
        let own = take(&*policy, 0).expect("one is dealt to each");
        let stolen = take(&*policy, 0).expect("three others have one");
        // Job j was dealt to the worker j places after the one that job 0 was dealt to.
        robbed[(stolen + 4 - own) % 4] += 1;
        policy.clear();
        assert_eq!(policy.steals().won, round + 1);
    }
    assert_eq!(robbed[0], 0, "not itself");
    // A victim is asked first with probability 1/4 (5/12 for the one after the thief itself).
    assert!(robbed[1..].iter().all(|times| (40..=180).contains(times)), "{robbed:?}");
}

#[test]
fn only_stealing_steals() {
    for kind in PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Steal) {
        let policy = kind.make(2);
        policy.submit(&mut jobs(0, &[1; 8]));
        while policy.take(0).is_some() {}
        assert_eq!(policy.steals(), Steals::default(), "{}", kind.name());
    }
}

#[test]
fn skewed_costs_unbalance_fixed_shares_and_not_stealing() {
    // Every fourth job costs nine times as much: with four workers they all fall to one.
    let striped: Vec<u64> = (0..64).map(|k| if k % 4 == 0 { 900 } else { 100 }).collect();
    // The dear ones are neighbours: they fall to one worker's run.
    let heaped: Vec<u64> = (0..64).map(|k| if k < 16 { 900 } else { 100 }).collect();
    for (kind, costs) in [(PolicyKind::RoundRobin, &striped), (PolicyKind::Block, &heaped)] {
        let script = Script::at_once(4, costs);
        assert_eq!(script.play(kind).imbalance(), 3.0, "{}", kind.name());
        let stolen = script.play(PolicyKind::Steal);
        assert!(stolen.imbalance() < 1.15, "{}", stolen.imbalance());
        assert!(2 * stolen.makespan() < script.play(kind).makespan());
    }
}
