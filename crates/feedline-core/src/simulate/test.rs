use super::*;

fn seconds(value: f64) -> Cost {
    Cost::constant(value).unwrap()
}

fn published(workers: usize) -> Simulation {
    let mut simulation = Simulation::new(3200, 64);
    simulation.stage("load", seconds(0.010));
    simulation.workers = workers;
    simulation.prefetch = 2;
    simulation
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * b.abs()
}

#[test]
fn samples_of_one_length_take_their_sum_over_the_workers() {
    for workers in [1, 2, 4, 8, 16, 64] {
        let outcome = published(workers).run().unwrap();
        let expected = workers as f64 / 0.010;
        assert!(near(outcome.throughput(), expected, 0.01), "{workers}: {}", outcome.throughput());
        assert_eq!((outcome.samples, outcome.batches), (3200, 50));
        assert!(near(outcome.utilisation, 1.0, 0.01));
    }
}

#[test]
fn the_first_batch_comes_after_its_share_of_the_work() {
    let by_samples = published(8).run().unwrap();
    assert!(near(by_samples.ranks[0].first_batch, 0.64 / 8.0, 1e-6));
    let mut by_batches = published(8);
    by_batches.assignment = Assignment::Batches;
    by_batches.prefetch = 16;
    assert!(near(by_batches.run().unwrap().ranks[0].first_batch, 0.64, 1e-6));
}

#[test]
fn a_slow_loop_never_waits_and_a_fast_one_waits_for_the_rest() {
    for (step, workers) in [(0.5, 2), (0.1, 2), (0.32, 2), (0.01, 4)] {
        let mut simulation = published(workers);
        simulation.prefetch = 4;
        simulation.step = seconds(step);
        let outcome = simulation.run().unwrap();
        let load = 0.64 / workers as f64;
        // The first batch is waited for in any case; then the slower of the two decides.
        let expected = load + 50.0 * step.max(load) + if step < load { step - load } else { 0.0 };
        assert!(near(outcome.duration, expected, 0.03), "{step} {}: {expected}", outcome.duration);
        let waits = outcome.ranks[0].wait + outcome.ranks[0].step;
        assert!(near(waits, outcome.duration, 1e-6));
    }
}

/// Every policy, both orders, both assignments: each sample is delivered once, and nothing is faster than all workers
/// busy all the time.
#[test]
fn every_sample_is_delivered_under_every_policy_and_order() {
    for policy in PolicyKind::ALL {
        for delivery in [Delivery::InOrder, Delivery::Ready { window: 4 }] {
            for assignment in [Assignment::Samples, Assignment::Batches] {
                let mut simulation = Simulation::new(1003, 16);
                simulation.epochs = 2;
                simulation.stage("load", Cost::exponential(0.001).unwrap());
                simulation.stage(
                    "decode",
                    Cost::log_normal(0.003, 1.0).unwrap().with_stragglers(0.02, 10.0).unwrap(),
                );
                (simulation.workers, simulation.prefetch, simulation.policy) = (5, 6, policy);
                (simulation.delivery, simulation.assignment) = (delivery, assignment);
                simulation.collate = Some(StageCost {
                    name: "collate".into(),
                    latency: None,
                    cost: seconds(0.001),
                    uses: None,
                });
                let outcome = simulation.run().unwrap();
                assert_eq!(
                    (outcome.samples, outcome.batches),
                    (2006, 126),
                    "{policy:?} {delivery:?}"
                );
                assert_eq!(outcome.completions, 2 * 2006 + 126);
                assert!(outcome.utilisation <= 1.0 + 1e-9);
                let busy: f64 = outcome.stages.iter().map(|stage| stage.busy).sum();
                assert!(busy <= outcome.duration * 5.0 * (1.0 + 1e-9));
                assert_eq!(outcome, simulation.run().unwrap(), "the same again");
            }
        }
    }
}

#[test]
fn work_costs_the_same_whoever_does_it() {
    let busy = |workers, policy| {
        let mut simulation = Simulation::new(2000, 32);
        simulation.stage("decode", Cost::exponential(0.002).unwrap());
        (simulation.workers, simulation.policy) = (workers, policy);
        simulation.run().unwrap().stages[0].busy
    };
    let alone = busy(1, PolicyKind::Steal);
    for policy in PolicyKind::ALL {
        assert!(near(busy(7, policy), alone, 1e-6));
    }
}

#[test]
fn stealing_beats_dealing_out_where_costs_differ() {
    let duration = |policy| {
        let mut simulation = Simulation::new(4000, 64);
        simulation.stage("decode", seconds(0.001).with_stragglers(0.05, 50.0).unwrap());
        (simulation.workers, simulation.prefetch, simulation.policy) = (8, 4, policy);
        simulation.run().unwrap().duration
    };
    assert!(duration(PolicyKind::Steal) < 0.95 * duration(PolicyKind::RoundRobin));
}

#[test]
fn workers_on_few_cores_are_no_faster_than_the_cores() {
    let mut simulation = Simulation::new(2000, 20);
    simulation.resources.push(Resource { capacity: 2.0, each: 1.0, shared_by_ranks: false });
    simulation.stage("wait", Cost::exponential(0.002).unwrap());
    simulation.stage_on("decode", seconds(0.004), 0);
    (simulation.workers, simulation.prefetch) = (16, 8);
    // Two cores, 4 ms of each sample.
    assert!(near(simulation.run().unwrap().throughput(), 500.0, 0.03));
    simulation.workers = 1;
    assert!(near(simulation.run().unwrap().throughput(), 1.0 / 0.006, 0.03));
}

#[test]
fn a_disk_that_all_ranks_share_is_divided_among_them() {
    let mut simulation = Simulation::new(400, 10);
    simulation.resources.push(Resource { capacity: 1e9, each: 1e9, shared_by_ranks: true });
    simulation.stage_on("read", seconds(1e6), 0);
    (simulation.workers, simulation.prefetch, simulation.ranks) = (4, 4, 8);
    let outcome = simulation.run().unwrap();
    assert!(near(outcome.throughput(), 1000.0, 0.02), "{}", outcome.throughput());
    simulation.resources[0].shared_by_ranks = false;
    assert!(near(simulation.run().unwrap().throughput(), 8000.0, 0.03));
}

#[test]
fn ranks_are_as_slow_as_the_slowest_of_each_step() {
    let mut simulation = Simulation::new(4000, 40);
    simulation.step = Cost::uniform(0.05, 0.15).unwrap();
    (simulation.ranks, simulation.exchange) = (16, 0.01);
    let outcome = simulation.run().unwrap();
    // The largest of 16 uniform numbers is 16/17 of the way up in the mean.
    let expected = 100.0 * (0.05 + 0.1 * 16.0 / 17.0 + 0.01);
    assert!(near(outcome.duration, expected, 0.03), "{} {expected}", outcome.duration);
    let lost = outcome.ranks.iter().map(|rank| rank.exchange).sum::<f64>() / 16.0;
    assert!(near(lost, outcome.duration - 100.0 * 0.1, 0.05));
}

#[test]
fn dead_workers_lose_their_job_and_no_sample() {
    for assignment in [Assignment::Samples, Assignment::Batches] {
        let mut simulation = published(4);
        simulation.assignment = assignment;
        simulation.prefetch = 8;
        simulation.deaths = (0..40)
            .map(|i| Death { rank: 0, worker: i % 4, at: 0.1 * i as f64, replaced_after: 0.2 })
            .collect();
        let outcome = simulation.run().unwrap();
        assert_eq!(outcome.samples, 3200);
        assert!(outcome.duration > published(4).run().unwrap().duration);
    }
}

#[test]
fn the_budget_bounds_what_is_read_ahead() {
    let mut simulation = published(4);
    (simulation.prefetch, simulation.sample_bytes, simulation.step) = (100, 1000, seconds(1.0));
    simulation.memory = 3 * 64_000;
    let outcome = simulation.run().unwrap();
    assert!(outcome.ranks[0].peak_bytes <= 3 * 64_000 && outcome.ranks[0].peak_bytes >= 2 * 64_000);
    simulation.memory = 63_999;
    let message = simulation.run().unwrap_err().to_string();
    assert!(message.contains("64000 bytes and the budget is 63999"), "{message}");
}

#[test]
fn impossible_settings_say_which() {
    let message = |change: fn(&mut Simulation)| {
        let mut simulation = published(1);
        change(&mut simulation);
        simulation.run().unwrap_err().to_string()
    };
    assert_eq!(message(|it| it.workers = 0), "workers is 0; pass at least 1");
    assert_eq!(message(|it| it.samples = 0), "samples is 0; pass at least 1");
    assert!(message(|it| it.stages[0].uses = Some(3)).contains("resource 3 and there are 0"));
    assert!(message(|it| it.exchange = f64::NAN).contains("exchange is NaN"));
    assert!(message(|it| it.workers = usize::MAX).contains("at most"));
}

#[test]
fn a_thousand_nodes_are_simulated() {
    let mut simulation = Simulation::new(64, 16);
    simulation.stage("decode", Cost::log_normal(0.01, 0.5).unwrap());
    (simulation.workers, simulation.prefetch, simulation.ranks) = (8, 2, 1000);
    simulation.step = seconds(0.02);
    assert_eq!(simulation.run().unwrap().samples, 64_000);
}

#[test]
fn loading_apart_overlaps_latency_with_building() {
    // 20 ms of latency and 2 ms of building on 2 workers; 40 who load keep them busy.
    let mut simulation = Simulation::new(4000, 40);
    simulation.stage("load", seconds(0.0));
    simulation.stages[0].latency = Some(seconds(0.020));
    simulation.stage("decode", seconds(0.002));
    (simulation.workers, simulation.prefetch) = (2, 4);
    assert!(near(simulation.run().unwrap().throughput(), 2.0 / 0.022, 0.01));
    simulation.io_workers = 40;
    let apart = simulation.run().unwrap();
    assert!(near(apart.throughput(), 2.0 / 0.002, 0.02), "{}", apart.throughput());
    assert_eq!(apart.stages.iter().map(|stage| stage.count).collect::<Vec<_>>(), [4000, 4000]);
    simulation.io_workers = 10;
    assert!(near(simulation.run().unwrap().throughput(), 10.0 / 0.020, 0.02));
    simulation.assignment = Assignment::Batches;
    assert!(simulation.run().unwrap_err().to_string().contains("set io_workers to 0"));
}

/// Every policy and order with threads of their own for loading, deaths on both sides, and a budget: all is delivered.
#[test]
fn loading_apart_delivers_every_sample_under_every_policy() {
    for policy in PolicyKind::ALL {
        for delivery in [Delivery::InOrder, Delivery::Ready { window: 4 }] {
            let mut simulation = Simulation::new(1003, 16);
            simulation.epochs = 2;
            simulation.stage("load", Cost::exponential(0.003).unwrap());
            simulation.stage("decode", Cost::log_normal(0.001, 1.0).unwrap());
            (simulation.workers, simulation.io_workers, simulation.prefetch) = (2, 6, 6);
            (simulation.policy, simulation.delivery) = (policy, delivery);
            (simulation.sample_bytes, simulation.raw_bytes) = (1000, 500);
            simulation.memory = 64_000;
            simulation.deaths = (0..16)
                .map(|i| Death {
                    rank: 0,
                    worker: i % 8,
                    at: 0.02 * i as f64,
                    replaced_after: 0.05,
                })
                .collect();
            let outcome = simulation.run().unwrap();
            assert_eq!((outcome.samples, outcome.batches), (2006, 126), "{policy:?} {delivery:?}");
            assert!(outcome.ranks[0].peak_bytes <= 64_000 + 8 * 500, "{outcome:?}");
            assert_eq!(outcome, simulation.run().unwrap(), "the same again");
        }
    }
}

#[test]
fn latency_comes_before_the_bytes_and_does_not_hold_the_disk() {
    // 9 ms until the first byte, 1 ms of the disk's time for each. All ask at once, so each waits for the bytes of all.
    let mut simulation = Simulation::new(2000, 20);
    simulation.resources.push(Resource { capacity: 1e9, each: 1e9, shared_by_ranks: false });
    simulation.stage_on("read", seconds(1e6), 0);
    simulation.stages[0].latency = Some(seconds(0.009));
    simulation.prefetch = 8;
    for workers in [1, 5, 40] {
        simulation.workers = workers;
        let rate = simulation.run().unwrap().throughput();
        let expected = workers as f64 / (0.009 + 0.001 * workers as f64);
        assert!(near(rate, expected, 0.02), "{workers}: {rate}");
    }
}

/// The sizes that no machine here has.
#[test]
fn many_workers_and_many_ranks_are_simulated() {
    let mut simulation = Simulation::new(640, 64);
    simulation.stage("decode", Cost::exponential(0.01).unwrap());
    (simulation.workers, simulation.prefetch, simulation.ranks) = (256, 8, 64);
    simulation.step = seconds(0.01);
    let outcome = simulation.run().unwrap();
    assert_eq!((outcome.samples, outcome.ranks.len()), (64 * 640, 64));
}
