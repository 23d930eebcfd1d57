//! Predictions against the simulator, which runs the engine's own decisions sample by sample.

use feedline_core::simulate::{self, Cost, Resource, Simulated, Simulation, StageCost};
use feedline_model::calibrate::{Assignment, Calibration, Observation, WorkCosts};
use feedline_model::predict::{Bottleneck, Setting, predict};

const CORES: u32 = 4;

/// A loader whose samples wait and then compute, on a few cores.
fn simulated(assignment: Assignment, costs: &WorkCosts, setting: &Setting) -> Simulated {
    let (batches, batch) = (setting.batches.unwrap(), u64::from(setting.batch_size));
    let mut it = Simulation::new(u64::from(batches) * batch, batch);
    let cores = Resource { capacity: f64::from(CORES), each: 1.0, shared_by_ranks: false };
    it.resources.push(cores);
    // With the same for all, workers would go on in step and want their cores at the same time.
    it.stage("wait", Cost::log_normal(costs.wait, 0.5).unwrap());
    it.stage_on("cpu", Cost::log_normal(costs.cpu, 0.5).unwrap(), 0);
    let collate = Cost::constant(costs.collating(setting.batch_size)).unwrap();
    it.collate =
        Some(StageCost { name: "collate".into(), cost: collate, uses: Some(0), latency: None });
    it.handover = Cost::constant(costs.handover).unwrap();
    it.step = Cost::constant(setting.step_seconds).unwrap();
    it.assignment = match assignment {
        Assignment::Samples => simulate::Assignment::Samples,
        Assignment::Batches => simulate::Assignment::Batches,
    };
    it.workers = setting.workers as usize;
    it.prefetch = (setting.workers * setting.prefetch) as usize;
    it.run().unwrap()
}

/// What the waiting, the computing and the mixed spend on a sample, and what a batch costs.
fn kinds() -> Vec<WorkCosts> {
    let of = |wait, cpu, collate| WorkCosts { wait, cpu, collate, ..WorkCosts::default() };
    vec![of(0.01, 0.0004, 0.0002), of(0.0, 0.005, 0.0002), of(0.004, 0.002, 0.0)]
}

#[test]
fn predictions_are_what_the_simulator_finds() {
    for assignment in [Assignment::Samples, Assignment::Batches] {
        for costs in kinds() {
            let calibration = Calibration::new(assignment, CORES, costs, 1000).unwrap();
            for workers in [1, 2, 3, 5, 8, 16] {
                for (batch_size, step_seconds) in [(16, 0.0), (16, 0.02), (64, 0.0), (64, 0.1)] {
                    let setting = Setting {
                        step_seconds,
                        batches: Some(40),
                        ..Setting::new(workers, batch_size)
                    };
                    let found = simulated(assignment, &costs, &setting);
                    let said = predict(&calibration, &setting).unwrap();
                    let what = format!("{assignment:?} {costs:?} {setting:?}");
                    let apart = said.samples_per_second / found.throughput() - 1.0;
                    assert!(apart.abs() < 0.1, "{what}: {apart:+.3}");
                    let waiting = found.wait_share();
                    assert!(
                        (said.waiting_share - waiting).abs() < 0.06,
                        "{what}: {said:?} {waiting}"
                    );
                }
            }
        }
    }
}

/// What would be measured of a simulated run.
fn observed(assignment: Assignment, costs: &WorkCosts, setting: &Setting) -> Observation {
    let found = simulated(assignment, costs, setting);
    let samples = found.samples as f64;
    let busy = |place: usize| found.stages[place].busy;
    let on_core = costs.cpu * samples + costs.collating(setting.batch_size) * found.batches as f64;
    Observation {
        workers: setting.workers,
        batch_size: setting.batch_size,
        prefetch: setting.prefetch,
        batches: setting.batches.unwrap(),
        step_s: setting.step_seconds,
        seconds: found.duration,
        wait_s: found.ranks[0].wait + found.ranks[0].handover,
        fetch_s: Some((busy(0) + busy(1)) / samples),
        collate_s: Some(busy(2) / found.batches as f64),
        cpu_s: Some(on_core),
        bytes: 1000 * found.samples,
        ..Observation::default()
    }
}

#[test]
fn calibration_finds_the_costs_that_were_simulated() {
    for assignment in [Assignment::Samples, Assignment::Batches] {
        for costs in kinds() {
            let at = |workers, batch_size| {
                let setting = Setting { batches: Some(40), ..Setting::new(workers, batch_size) };
                observed(assignment, &costs, &setting)
            };
            let seen = [at(1, 16), at(1, 64), at(4, 64)];
            let found = Calibration::of(assignment, CORES, &seen).unwrap();
            let near = |name: &str, a: f64, b: f64| {
                let apart = (a - b).abs();
                assert!(apart <= 0.05 * costs.sample(), "{assignment:?} {costs:?} {name}: {a} {b}");
            };
            near("wait", found.with_workers.wait, costs.wait);
            near("cpu", found.with_workers.cpu, costs.cpu);
            near("collate", found.with_workers.collate, costs.collate);
            // Where cores are hardly used, nothing is known about them.
            assert!(costs.wait > 0.0 || found.efficiency > 0.9, "{found:?}");
            assert_eq!(found.sample_bytes, 1000);
            // Points that it did not see.
            for (workers, batch_size) in [(2, 16), (8, 64), (12, 32)] {
                let held_out = at(workers, batch_size);
                let said = predict(&found, &held_out.setting()).unwrap();
                let apart = said.samples_per_second / held_out.rate() - 1.0;
                assert!(apart.abs() < 0.1, "{assignment:?} {costs:?} {workers}: {apart:+.3}");
            }
        }
    }
}

#[test]
fn the_bottleneck_is_what_the_simulator_has_most_busy() {
    let waiting = kinds()[0];
    let calibration = Calibration::new(Assignment::Samples, CORES, waiting, 1000).unwrap();
    let at = |workers, step_seconds| {
        let setting = Setting { step_seconds, ..Setting::new(workers, 16) };
        predict(&calibration, &setting).unwrap().bottleneck
    };
    assert_eq!(at(2, 0.0), Bottleneck::Workers);
    assert_eq!(at(500, 0.0), Bottleneck::Cores);
    assert_eq!(at(32, 1.0), Bottleneck::Step);
}
