//! Jobs change hands between two locks; none is lost or taken twice.

use loom::thread;
use std::sync::Arc;

use crate::schedule::{Job, MakePolicy, Policy, PolicyKind};

use super::explore;

fn jobs(count: u32) -> Vec<Job<u32>> {
    (0..count).map(|work| Job { batch: 0, cost_ns: 1, samples: 1, work }).collect()
}

/// Takes until there is nothing to take.
fn take_all(policy: &dyn Policy<u32>, worker: usize) -> Vec<u32> {
    std::iter::from_fn(|| policy.take(worker)).map(|job| job.work).collect()
}

fn sorted(parts: impl IntoIterator<Item = Vec<u32>>) -> Vec<u32> {
    let mut all: Vec<u32> = parts.into_iter().flatten().collect();
    all.sort_unstable();
    all
}

#[test]
fn thieves_neither_lose_nor_double_a_job() {
    explore(3, || {
        let policy: Arc<dyn Policy<u32>> = PolicyKind::Steal.make(3);
        policy.submit(&mut jobs(7));
        // Worker 0 is busy elsewhere: its three jobs can only be stolen, the first two at once.
        let thief = thread::spawn({
            let policy = Arc::clone(&policy);
            move || take_all(&*policy, 1)
        });
        let mine = take_all(&*policy, 2);
        let theirs = thief.join().unwrap();
        // One may leave while the loot is in the other's hands; the other then takes all of it.
        assert_eq!(sorted([mine, theirs]), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(policy.queued(), 0);
    });
}

#[test]
fn jobs_that_come_while_thieves_look_are_taken_once() {
    explore(3, || {
        let policy: Arc<dyn Policy<u32>> = PolicyKind::Steal.make(2);
        let thief = thread::spawn({
            let policy = Arc::clone(&policy);
            move || take_all(&*policy, 1)
        });
        policy.submit(&mut jobs(6));
        let mine = take_all(&*policy, 0);
        let theirs = thief.join().unwrap();
        // The thief may have come too early or left its lane half full.
        let rest = take_all(&*policy, 1);
        assert_eq!(sorted([mine, theirs, rest]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(policy.queued(), 0);
    });
}

#[test]
fn clearing_while_a_thief_works_leaves_each_job_with_at_most_one_owner() {
    explore(3, || {
        let policy: Arc<dyn Policy<u32>> = PolicyKind::Steal.make(2);
        policy.submit(&mut jobs(6));
        let thief = thread::spawn({
            let policy = Arc::clone(&policy);
            move || take_all(&*policy, 1)
        });
        policy.clear();
        let taken = thief.join().unwrap();
        let mut once = sorted([taken.clone()]);
        once.dedup();
        assert_eq!(once.len(), taken.len());
        // What was in the thief's hands while the queues were cleared it has taken by now.
        assert!(policy.take(0).is_none());
        assert_eq!(policy.queued(), 0);
    });
}

#[test]
fn rebalancing_loses_no_job_to_a_worker_that_takes_meanwhile() {
    explore(3, || {
        let policy: Arc<dyn Policy<u32>> = PolicyKind::Weighted.make(2);
        policy.submit(&mut jobs(3));
        for _ in 0..63 {
            assert!(!policy.finished(0, 1, 100), "not time to rebalance yet");
        }
        let other = thread::spawn({
            let policy = Arc::clone(&policy);
            move || take_all(&*policy, 1)
        });
        policy.finished(0, 1, 100);
        let mine = take_all(&*policy, 0);
        let theirs = other.join().unwrap();
        // Jobs may have been dealt to the other after it looked; the engine rings for it then.
        let rest = take_all(&*policy, 1);
        assert_eq!(sorted([mine, theirs, rest]), [0, 1, 2]);
        assert_eq!(policy.queued(), 0);
    });
}
