//! Makespans and completion times against the bounds that theory gives.

use feedline_core::schedule::PolicyKind;
use proptest::prelude::*;

use crate::clock::{Script, log_normal};

/// Policies that let no worker idle while a job waits: list scheduling in Graham's sense.
const GREEDY: [PolicyKind; 4] =
    [PolicyKind::Steal, PolicyKind::Central, PolicyKind::ShortestFirst, PolicyKind::LongestFirst];

/// The shortest makespan there is, by trying every assignment.
fn optimum(costs: &[u64], loads: &mut [u64]) -> u64 {
    let Some((cost, rest)) = costs.split_first() else {
        return loads.iter().copied().max().unwrap_or(0);
    };
    let mut best = u64::MAX;
    for worker in 0..loads.len() {
        loads[worker] += cost;
        best = best.min(optimum(rest, loads));
        loads[worker] -= cost;
        if loads[worker] == 0 {
            // Empty workers are alike.
            break;
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn greedy_policies_keep_grahams_bound(
        costs in prop::collection::vec(1..1_000_u64, 1..9), workers in 1..4_usize,
    ) {
        let best = optimum(&costs, &mut vec![0; workers]);
        let m = workers as u64;
        for kind in GREEDY {
            let makespan = Script::at_once(workers, &costs).play(kind).makespan();
            prop_assert!(makespan >= best, "{}", kind.name());
            // makespan <= (2 - 1/m) optimum
            prop_assert!(m * makespan <= (2 * m - 1) * best, "{}", kind.name());
        }
        let longest = Script::at_once(workers, &costs).play(PolicyKind::LongestFirst).makespan();
        // makespan <= (4/3 - 1/(3m)) optimum
        prop_assert!(3 * m * longest <= (4 * m - 1) * best, "{} against {}", longest, best);
    }

    // Shortest first minimises the sum of completion times on equal workers (Conway, Maxwell &
    // Miller, 1967).
    #[test]
    fn nothing_beats_shortest_first_in_mean_completion_time(
        costs in prop::collection::vec(1..1_000_u64, 1..60), workers in 1..7_usize,
    ) {
        let script = Script::at_once(workers, &costs);
        let least = script.play(PolicyKind::ShortestFirst).completions();
        for kind in PolicyKind::ALL {
            prop_assert!(least <= script.play(kind).completions(), "{}", kind.name());
        }
    }
}

#[test]
fn grahams_worst_case_for_a_list_is_none_for_longest_first() {
    // m(m - 1) jobs of 1 and then one of m: a list takes 2m - 1, the optimum is m.
    let m = 5;
    let costs: Vec<u64> = std::iter::repeat_n(1, m * (m - 1)).chain([m as u64]).collect();
    let script = Script::at_once(m, &costs);
    assert_eq!(script.play(PolicyKind::Central).makespan(), 2 * m as u64 - 1);
    assert_eq!(script.play(PolicyKind::LongestFirst).makespan(), m as u64);
}

#[test]
fn grahams_worst_case_for_longest_first() {
    // 2m + 1 jobs of 2m-1, 2m-1, 2m-2, 2m-2, ..., m+1, m+1, m, m, m: it takes 4m - 1, the optimum is 3m.
    let m = 4;
    let mut costs: Vec<u64> = (m + 1..2 * m).rev().flat_map(|cost| [cost, cost]).collect();
    costs.extend([m; 3]);
    let makespan = Script::at_once(m as usize, &costs).play(PolicyKind::LongestFirst).makespan();
    assert_eq!(makespan, 4 * m - 1);
    assert_eq!(optimum(&costs, &mut vec![0; m as usize]), 3 * m);
}

#[test]
fn log_normal_costs_stay_within_the_bounds_by_far() {
    for workers in [2, 3, 8] {
        for seed in 0..5 {
            let costs = log_normal(4_000, 1.0, seed);
            let script = Script::at_once(workers, &costs);
            let (sum, largest) = (costs.iter().sum::<u64>(), *costs.iter().max().unwrap());
            let least = sum.div_ceil(workers as u64).max(largest);
            for kind in GREEDY {
                // The bound behind 2 - 1/m: when the last job began, every worker was busy.
                let makespan = script.play(kind).makespan() as f64;
                let m = workers as f64;
                let bound = sum as f64 / m + (1.0 - 1.0 / m) * largest as f64;
                assert!(makespan <= bound, "{}: {makespan} > {bound}", kind.name());
            }
            let longest = script.play(PolicyKind::LongestFirst).makespan();
            assert!(longest <= least + least / 1_000, "{longest} against {least}");
        }
    }
}

#[test]
fn in_a_window_of_batches_stealing_and_longest_first_are_within_five_per_cent_of_the_least() {
    for seed in 0..5 {
        let costs = log_normal(4_000, 1.0, seed);
        let least = costs.iter().sum::<u64>() / 2;
        let batches = costs.chunks(32).map(<[u64]>::to_vec).collect();
        let script = Script { slowness: vec![1; 2], batches, window: 4 };
        for kind in [PolicyKind::Steal, PolicyKind::LongestFirst, PolicyKind::Central] {
            let trace = script.play(kind);
            let (makespan, imbalance) = (trace.makespan(), trace.imbalance());
            assert!(makespan <= least * 105 / 100, "{}: {makespan}, {least}", kind.name());
            assert!(imbalance < 1.05, "{}: {imbalance}", kind.name());
        }
    }
}

#[test]
fn fixed_shares_wait_for_each_other_on_log_normal_costs() {
    let costs = log_normal(4_000, 1.0, 3);
    let batches = costs.chunks(32).map(<[u64]>::to_vec).collect();
    let script = Script { slowness: vec![1; 4], batches, window: 1 };
    let makespan = |kind| script.play(kind).makespan() as f64;
    for fixed in [PolicyKind::RoundRobin, PolicyKind::Block] {
        // Batch by batch the slowest share counts; stealing evens it out.
        assert!(makespan(fixed) > 1.1 * makespan(PolicyKind::Steal), "{}", fixed.name());
    }
}
