//! Weights follow the workers' speed.

use feedline_core::schedule::{MakePolicy, PolicyKind};

use crate::clock::{Script, Trace, log_normal};

/// Which share of the jobs after the first `skipped` each worker did.
fn shares(trace: &Trace, workers: usize, skipped: usize) -> Vec<f64> {
    let late = &trace.runs[skipped..];
    let of = |worker| late.iter().filter(|run| run.worker == worker).count();
    (0..workers).map(|worker| of(worker) as f64 / late.len() as f64).collect()
}

#[test]
fn a_worker_of_three_times_the_speed_gets_three_times_the_jobs() {
    let batches = vec![vec![1_000; 32]; 100];
    let script = Script { slowness: vec![3, 1], batches, window: 4 };
    let shares = shares(&script.play(PolicyKind::Weighted), 2, 640);
    assert!((0.23..=0.27).contains(&shares[0]), "{shares:?}");
}

#[test]
fn shares_follow_speed_when_costs_vary_from_job_to_job() {
    let batches = log_normal(6_400, 0.5, 1).chunks(32).map(<[u64]>::to_vec).collect();
    let script = Script { slowness: vec![1, 2, 4], batches, window: 6 };
    let shares = shares(&script.play(PolicyKind::Weighted), 3, 1_280);
    for (share, due) in shares.iter().zip([4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]) {
        assert!((share / due - 1.0).abs() < 0.15, "{shares:?}");
    }
}

#[test]
fn equal_workers_keep_equal_shares() {
    let batches = vec![vec![1_000; 32]; 40];
    let script = Script { slowness: vec![2; 4], batches, window: 4 };
    for share in shares(&script.play(PolicyKind::Weighted), 4, 0) {
        assert!((share / 0.25 - 1.0).abs() < 0.02, "{share}");
    }
}

#[test]
fn of_many_equal_workers_none_is_left_without_work() {
    // Weights are taken after so few jobs that some workers have not done enough to be judged.
    for workers in [7, 8, 9, 16, 40] {
        let batches = log_normal(8_000, 1.0, 2).chunks(64).map(<[u64]>::to_vec).collect();
        let script = Script { slowness: vec![1; workers], batches, window: 4 };
        let shares = shares(&script.play(PolicyKind::Weighted), workers, 2_000);
        let due = 1.0 / workers as f64;
        assert!(shares.iter().all(|share| *share > due / 2.0), "{workers} workers: {shares:?}");
    }
}

#[test]
fn a_very_slow_worker_is_judged_before_it_is_left_aside() {
    // It finishes fewer than eight of the first 64 jobs.
    let script = Script { slowness: vec![1, 12], batches: vec![vec![1_000; 32]; 200], window: 4 };
    let shares = shares(&script.play(PolicyKind::Weighted), 2, 1_280);
    assert!((0.06..=0.09).contains(&shares[1]), "a thirteenth is due: {shares:?}");
}

#[test]
fn a_change_of_pace_leaves_nobody_without_work() {
    // From a microsecond to ten milliseconds, as when a cache runs out, and back.
    let pace = |batch: usize| if batch % 40 < 20 { 1_000 } else { 10_000_000 };
    for workers in [2, 3, 8, 20] {
        let batches: Vec<Vec<u64>> = (0..240).map(|batch| vec![pace(batch); 33]).collect();
        let script = Script { slowness: vec![1; workers], batches, window: 4 };
        let trace = script.play(PolicyKind::Weighted);
        for (at, runs) in trace.runs.chunks(20 * 33).enumerate() {
            let of = |worker| runs.iter().filter(|run| run.worker == worker).count();
            let fewest = (0..workers).map(of).min().unwrap_or(0);
            let due = runs.len() / workers;
            assert!(4 * fewest > due, "{fewest} instead of {due} of {workers}, stretch {at}");
        }
    }
}

#[test]
fn jobs_that_wait_at_a_slow_worker_change_hands_when_weights_change() {
    let policy = PolicyKind::Weighted.make(2);
    let jobs = Script { slowness: vec![1, 9], batches: vec![vec![100; 80]], window: 1 };
    policy.submit(&mut jobs.jobs(0));
    let mut told = 0;
    // Worker 0 does 32 jobs at 100 each; worker 1 meanwhile 32 at 900 (sixty-four finish in all).
    for _ in 0..32 {
        for (worker, elapsed) in [(0, 100), (1, 900)] {
            assert!(policy.take(worker).is_some());
            told += u32::from(policy.finished(worker, 1, elapsed));
        }
    }
    assert_eq!(told, 1, "once, at the sixty-fourth");
    assert_eq!(policy.queued(), 16);
    let left = |worker| std::iter::from_fn(|| policy.take(worker)).count();
    let (fast, slow) = (left(0), left(1));
    assert_eq!(fast + slow, 16);
    assert!((13..=15).contains(&fast), "nine tenths of 16, got {fast}");
}

#[test]
fn unequal_workers_finish_sooner_by_weights_than_in_turn() {
    let script = Script { slowness: vec![3, 1], batches: vec![vec![1_000; 32]; 100], window: 4 };
    let makespan = |kind| script.play(kind).makespan();
    // In turn the slow worker does half: 3/2 of the fast one's whole. By capacity: 3/4.
    let (turns, weights) = (makespan(PolicyKind::RoundRobin), makespan(PolicyKind::Weighted));
    assert_eq!(turns, 3_200 * 1_000 * 3 / 2);
    let ideal = 3_200 * 1_000 * 3 / 4;
    assert!(weights < ideal * 110 / 100, "{weights} against {ideal}");
}
