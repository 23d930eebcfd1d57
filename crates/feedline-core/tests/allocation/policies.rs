//! Queues by themselves, with one job per sample.

use feedline_core::schedule::{Job, MakePolicy, Policy, PolicyKind};

use crate::counting::{allocations, alone};

const JOBS: u64 = 64;

/// Queues a batch and takes it with `takers` of four workers, so that the others' jobs are stolen
/// where that is possible; what nobody takes is cleared.
fn round(policy: &dyn Policy<u64>, jobs: &mut Vec<Job<u64>>, batch: u64, takers: usize) {
    jobs.extend((0..JOBS).map(|work| Job { batch, cost_ns: 10 * work, samples: 1, work }));
    policy.submit(jobs);
    let mut idle = 0;
    for worker in (0..takers).cycle() {
        match policy.take(worker) {
            Some(_) => idle = 0,
            None => idle += 1,
        }
        if idle == takers {
            break;
        }
        policy.finished(worker, 1, 100);
    }
    if takers < 4 {
        policy.clear();
    }
}

#[test]
fn a_warm_policy_queues_and_gives_out_jobs_without_allocating() {
    let _alone = alone();
    for kind in PolicyKind::ALL {
        let policy = kind.make(4);
        let mut jobs = Vec::with_capacity(JOBS as usize);
        (0..20).for_each(|batch| round(&*policy, &mut jobs, batch, 4));
        let count =
            allocations(|| (20..120).for_each(|batch| round(&*policy, &mut jobs, batch, 4)));
        // Where waiting jobs are dealt out anew, every 64 jobs, a list or two is made for them.
        let allowed = if kind == PolicyKind::Weighted { 300 } else { 20 };
        assert!(count <= allowed, "{}: {count} allocations for 6,400 jobs", kind.name());
    }
}

#[test]
fn a_warm_thief_steals_without_allocating() {
    let _alone = alone();
    let policy = PolicyKind::Steal.make(4);
    let mut jobs = Vec::with_capacity(JOBS as usize);
    // One worker takes all: three quarters of the jobs are stolen.
    (0..20).for_each(|batch| round(&*policy, &mut jobs, batch, 1));
    let before = policy.steals();
    let count = allocations(|| (20..120).for_each(|batch| round(&*policy, &mut jobs, batch, 1)));
    let stolen = policy.steals().jobs - before.jobs;
    assert_eq!(stolen, 4_800);
    assert!(count <= 20, "{count} allocations, {} steals", policy.steals().won - before.won);
}
