//! What every policy promises, whatever the work and the workers.

use feedline_core::schedule::{Job, MakePolicy, Policy, PolicyKind};
use proptest::prelude::*;

use crate::clock::Script;

fn scripts() -> impl Strategy<Value = Script> {
    let slowness = prop::collection::vec(1..5_u64, 1..7);
    // Costs of 0 as well: nothing is known of them.
    let batch = prop::collection::vec(prop_oneof![Just(0), 1..100_u64, 1_000..5_000_u64], 1..20);
    (slowness, prop::collection::vec(batch, 1..25), 1..6_usize)
        .prop_map(|(slowness, batches, window)| Script { slowness, batches, window })
}

fn policies() -> impl Strategy<Value = PolicyKind> {
    prop::sample::select(PolicyKind::ALL.to_vec())
}

/// Takes all that `worker` gets.
fn take_all<T: Send>(policy: &dyn Policy<T>, worker: usize) -> Vec<T> {
    std::iter::from_fn(|| policy.take(worker)).map(|job| job.work).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_job_is_taken_exactly_once(script in scripts(), kind in policies()) {
        let policy = kind.make(script.slowness.len());
        let trace = script.play_with(&*policy);
        let mut taken: Vec<(usize, usize)> =
            trace.runs.iter().map(|run| (run.batch, run.place)).collect();
        taken.sort_unstable();
        let all: Vec<(usize, usize)> = (0..script.batches.len())
            .flat_map(|batch| (0..script.batches[batch].len()).map(move |place| (batch, place)))
            .collect();
        prop_assert_eq!(taken, all);
        prop_assert_eq!(policy.queued(), 0);
    }

    #[test]
    fn no_worker_idles_while_it_could_take_a_job(script in scripts(), kind in policies()) {
        // Between two jobs of one worker there is a gap only if nothing was queued for it. Where
        // anyone may take anything that is: only if everything that was open had been begun.
        let policy = kind.make::<(usize, usize)>(script.slowness.len());
        prop_assume!(policy.anyone_may_take());
        let script = Script { batches: vec![script.batches.concat()], ..script };
        let trace = script.play_with(&*policy);
        let last_start = trace.runs.iter().map(|run| run.started).max().unwrap_or(0);
        for worker in 0..script.slowness.len() {
            let own: Vec<_> = trace.runs.iter().filter(|run| run.worker == worker).collect();
            prop_assert!(own.windows(2).all(|pair| pair[0].ended == pair[1].started));
            prop_assert!(own.last().is_none_or(|run| run.ended >= last_start));
        }
    }

    #[test]
    fn whatever_anyone_may_take_one_worker_can_take_alone(
        script in scripts(), kind in policies(), worker: prop::sample::Index,
    ) {
        let policy = kind.make(script.slowness.len());
        for batch in 0..script.batches.len() {
            policy.submit(&mut script.jobs(batch));
        }
        let queued = policy.queued();
        prop_assert_eq!(queued, script.batches.iter().map(Vec::len).sum::<usize>());
        let taken = take_all(&*policy, worker.index(script.slowness.len())).len();
        prop_assert_eq!(policy.queued(), queued - taken);
        if policy.anyone_may_take() {
            prop_assert_eq!(taken, queued);
        }
    }

    #[test]
    fn clearing_forgets_everything_and_what_comes_after_is_taken(
        script in scripts(), kind in policies(), taken in 0..10_usize,
    ) {
        let policy = kind.make(script.slowness.len());
        let workers = script.slowness.len();
        for batch in 0..script.batches.len() {
            policy.submit(&mut script.jobs(batch));
        }
        for k in 0..taken {
            policy.take(k % workers);
        }
        policy.clear();
        prop_assert_eq!(policy.queued(), 0);
        for worker in 0..workers {
            prop_assert!(policy.take(worker).is_none());
        }
        // Batches are counted from 0 again, as after a restart.
        policy.submit(&mut script.jobs(0));
        let mut again: Vec<_> = (0..workers).flat_map(|worker| take_all(&*policy, worker)).collect();
        again.sort_unstable();
        let all: Vec<_> = (0..script.batches[0].len()).map(|place| (0, place)).collect();
        prop_assert_eq!(again, all);
    }
}

#[test]
fn there_is_no_job_before_one_was_submitted() {
    for kind in PolicyKind::ALL {
        let policy = kind.make::<()>(3);
        policy.submit(&mut Vec::new());
        assert!((0..3).all(|worker| policy.take(worker).is_none()), "{}", kind.name());
        assert_eq!(policy.queued(), 0, "{}", kind.name());
        policy.clear();
    }
}

#[test]
fn submitting_leaves_the_list_empty_for_the_next_batch() {
    for kind in PolicyKind::ALL {
        let policy = kind.make(2);
        let mut jobs = vec![Job { batch: 0, cost_ns: 1, samples: 1, work: () }];
        policy.submit(&mut jobs);
        assert!(jobs.is_empty(), "{}", kind.name());
    }
}

#[test]
fn a_policy_for_nobody_serves_one_worker() {
    for kind in PolicyKind::ALL {
        let policy = kind.make(0);
        policy.submit(&mut vec![Job { batch: 0, cost_ns: 1, samples: 1, work: 7 }]);
        assert_eq!(policy.take(0).map(|job| job.work), Some(7), "{}", kind.name());
    }
}

#[test]
fn a_batch_of_equal_samples_is_ready_after_its_time_divided_by_the_workers() {
    for kind in PolicyKind::ALL {
        let script = Script { slowness: vec![1; 4], batches: vec![vec![10; 32]; 5], window: 3 };
        let trace = script.play(kind);
        for batch in 0..5 {
            let due = 10 * 32 / 4 * (batch as u64 + 1);
            // Weights are taken anew in the middle of a batch: one job may fall to the wrong one.
            let late = if kind == PolicyKind::Weighted { 10 } else { 0 };
            let finished = trace.finished(batch);
            assert!((due..=due + late).contains(&finished), "{finished}, {}", kind.name());
        }
    }
}

#[test]
fn names_lead_back_to_their_policy() {
    for kind in PolicyKind::ALL {
        assert_eq!(PolicyKind::from_name(kind.name()), Some(kind));
    }
    assert_eq!(PolicyKind::from_name("fifo"), None);
}
