//! The controller on loaders that are formulas, and on the simulator.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::simulate::{Cost, Resource, Simulation};

use super::controller::{Bounds, Controller};
use super::{Counters, Processor, Setting};

const SECOND: f64 = 1e9;

/// What a loader does with a setting, per second.
#[derive(Copy, Clone, Debug)]
struct Speed {
    rate: f64,
    wait: f64,
    idle: f64,
    /// What a busy worker wants of a core, and what all of the process uses.
    each: f64,
    used: f64,
}

/// A loader on paper: samples that compute and wait, cores, a loop.
#[derive(Copy, Clone, Debug)]
struct Paper {
    cores: f64,
    compute: f64,
    wait: f64,
    /// Seconds per sample that only one worker at a time may have (an interpreter's lock).
    alone: f64,
    /// Seconds that the loop takes for each sample.
    step: f64,
    batch_size: u64,
}

impl Paper {
    const IMAGES: Paper =
        Paper { cores: 2.0, compute: 0.004, wait: 0.0, alone: 0.0, step: 0.0, batch_size: 64 };

    fn speed(&self, setting: Setting) -> Speed {
        // Two thirds of a batch ahead are lost at its end where only one is under way.
        let overlap = if setting.prefetch > 1 { 1.0 } else { 0.6 };
        let under_way = (setting.prefetch as u64 * self.batch_size) as f64;
        let workers = (setting.workers as f64).min(under_way);
        let alone = self.compute + self.wait + self.alone;
        let by_workers = overlap * workers / alone;
        let by_cores = self.cores / (self.compute + self.alone).max(1e-9);
        let by_lock = 1.0 / self.alone.max(1e-9);
        // Threads beyond the cores get in each other's way.
        let crowd = (workers * self.compute / alone / self.cores).max(1.0);
        let most = by_workers.min(by_cores).min(by_lock) / (1.0 + 0.02 * (crowd - 1.0));
        let rate = most.min(1.0 / self.step.max(1e-9));
        let busy = (rate * alone * crowd / setting.workers as f64).min(1.0);
        let busy = if rate < most { busy } else { overlap.min(workers / setting.workers as f64) };
        Speed {
            rate,
            wait: 1.0 - rate * self.step,
            idle: 1.0 - busy,
            each: ((self.compute + if self.wait > 0.0 { 0.0 } else { self.alone }) * crowd / alone)
                .min(1.0)
                .min(if by_lock < by_workers { self.compute / alone } else { 1.0 }),
            used: (rate * (self.compute + self.alone)).min(self.cores),
        }
    }

    fn best(&self) -> f64 {
        let grid = (0..=6).flat_map(|w| [1, 2, 4, 8].map(|prefetch| (1 << w, prefetch)));
        let rates = grid.map(|(workers, prefetch)| self.speed(Setting { workers, prefetch }).rate);
        rates.fold(0.0, f64::max)
    }
}

/// A controller, and the counts of a loader that does as it says.
struct Run {
    controller: Controller,
    setting: Setting,
    counters: Counters,
    /// How many times the setting has changed.
    changes: usize,
}

impl Run {
    fn new(bounds: Bounds, start: Setting) -> Run {
        let counters = Counters { processor: Some(Processor::default()), ..Counters::default() };
        Run { controller: Controller::new(bounds, start), setting: start, counters, changes: 0 }
    }

    fn of(paper: &Paper, start: Setting) -> Run {
        Run::new(bounds(paper.cores as usize, paper.batch_size), start)
    }

    /// Goes on for some seconds; `noise` is a factor for what each tick counts.
    fn on(
        &mut self,
        seconds: f64,
        speed: impl Fn(Setting) -> Speed,
        mut noise: impl FnMut() -> f64,
    ) {
        for _ in 0..(seconds * 10.0) as usize {
            let Setting { workers, .. } = self.setting;
            let now = speed(self.setting);
            let asked = workers.min(8);
            let (tick, counters) = (0.1 * SECOND, &mut self.counters);
            counters.now_ns += tick as u64;
            counters.samples += (now.rate * 0.1 * noise()).round() as u64;
            counters.batches += 1;
            counters.wait_ns += (now.wait.max(0.0) * tick) as u64;
            counters.full_ns += (now.idle.max(0.0) * tick * workers as f64) as u64;
            let processor = counters.processor.as_mut().expect("Linux tells");
            processor.process_ns += (now.used * tick) as u64;
            let busy = tick * asked as f64 * (1.0 - now.idle);
            // What was counted of other workers is not compared.
            let fresh = processor.workers != asked;
            processor.workers = asked;
            processor.on_core_ns += (now.each * busy) as u64;
            if fresh {
                processor.on_core_ns = 0;
            }
            if counters.now_ns >= self.controller.due_ns()
                && let Some(to) = self.controller.look(counters)
            {
                assert_ne!(to, self.setting, "a change changes something");
                self.setting = to;
                self.changes += 1;
            }
        }
    }
}

fn bounds(cores: usize, batch_size: u64) -> Bounds {
    Bounds { cores, workers: Some(64), prefetch: Some(64), batch_size }
}

const WORST: Setting = Setting { workers: 1, prefetch: 1 };

fn quiet() -> f64 {
    1.0
}

#[test]
fn images_get_as_many_workers_as_there_are_cores_and_no_more() {
    for cores in [1.0, 2.0, 8.0] {
        let images = Paper { cores, ..Paper::IMAGES };
        let mut run = Run::of(&images, WORST);
        run.on(15.0, |setting| images.speed(setting), quiet);
        assert!(run.setting.workers <= cores as usize, "{:?}", run.controller.stats());
        assert!(images.speed(run.setting).rate >= 0.95 * images.best());
    }
}

#[test]
fn samples_that_wait_get_many_workers() {
    let sleep = Paper { compute: 0.0001, wait: 0.010, ..Paper::IMAGES };
    let mut run = Run::of(&sleep, WORST);
    run.on(15.0, |setting| sleep.speed(setting), quiet);
    assert!(sleep.speed(run.setting).rate >= 0.95 * sleep.best(), "{:?}", run.controller.stats());
}

#[test]
fn workers_that_share_a_lock_are_not_multiplied() {
    let locked = Paper { compute: 0.0, alone: 0.005, ..Paper::IMAGES };
    let mut run = Run::of(&locked, WORST);
    run.on(60.0, |setting| locked.speed(setting), quiet);
    assert!(run.setting.workers <= 4, "{:?}", run.controller.stats());
    assert!(locked.speed(run.setting).rate >= 0.95 * locked.best());
}

#[test]
fn workers_that_compute_are_parked_down_to_the_cores() {
    let mut run = Run::of(&Paper::IMAGES, Setting { workers: 16, prefetch: 4 });
    run.on(5.0, |setting| Paper::IMAGES.speed(setting), quiet);
    assert_eq!(run.setting.workers, 2, "{:?}", run.controller.stats());
}

#[test]
fn a_slow_loop_gets_its_workers_parked_and_a_faster_one_gets_them_back() {
    let loop_bound = Paper { wait: 0.010, compute: 0.0001, step: 0.004, ..Paper::IMAGES };
    let faster = Paper { step: 0.001, ..loop_bound };
    let mut run = Run::of(&loop_bound, Setting { workers: 32, prefetch: 4 });
    run.on(10.0, |setting| loop_bound.speed(setting), quiet);
    assert!(run.setting.workers <= 8, "{:?}", run.controller.stats());
    assert!(loop_bound.speed(run.setting).rate >= 0.97 * loop_bound.best());
    run.on(10.0, |setting| faster.speed(setting), quiet);
    assert!(faster.speed(run.setting).rate >= 0.95 * faster.best(), "{:?}", run.setting);
}

#[test]
fn samples_that_become_slower_get_more_workers_within_ten_seconds() {
    let before = Paper { wait: 0.010, compute: 0.0001, step: 0.0005, ..Paper::IMAGES };
    let after = Paper { wait: 0.040, ..before };
    let mut run = Run::of(&before, WORST);
    run.on(15.0, |setting| before.speed(setting), quiet);
    assert!(before.speed(run.setting).rate >= 0.95 * before.best());
    run.on(10.0, |setting| after.speed(setting), quiet);
    assert!(after.speed(run.setting).rate >= 0.95 * after.best(), "{:?}", run.controller.stats());
}

#[test]
fn what_is_good_is_left_alone() {
    for (paper, workers) in [
        (Paper::IMAGES, 2),
        (Paper { wait: 0.010, compute: 0.0001, ..Paper::IMAGES }, 64),
        (Paper { step: 0.004, ..Paper::IMAGES }, 2),
    ] {
        let mut run = Run::of(&paper, Setting { workers, prefetch: 4 });
        run.on(120.0, |setting| paper.speed(setting), quiet);
        assert_eq!(run.changes, 0, "{:?}", run.controller.stats());
    }
}

#[test]
fn only_what_it_may_move_is_moved() {
    let sleep = Paper { compute: 0.0001, wait: 0.010, ..Paper::IMAGES };
    let start = Setting { workers: 3, prefetch: 2 };
    let only = |workers, prefetch| {
        let mut run = Run::new(Bounds { workers, prefetch, ..bounds(2, 64) }, start);
        run.on(30.0, |setting| sleep.speed(setting), quiet);
        run.setting
    };
    assert_eq!(only(None, Some(64)).workers, 3);
    assert_eq!(only(Some(64), None).prefetch, 2);
    assert_eq!(only(Some(5), Some(64)).workers, 5);
}

#[test]
fn time_in_which_nobody_asks_counts_for_nothing() {
    let images = Paper::IMAGES;
    let away = Speed { rate: 0.0, wait: 0.0, idle: 1.0, each: 0.0, used: 0.0 };
    let mut run = Run::of(&images, Setting { workers: 2, prefetch: 4 });
    let mut controller = Controller::new(bounds(2, 64), run.setting);
    let mut counters = Counters::default();
    for _ in 0..600 {
        counters.now_ns += 100_000_000;
        assert_eq!(controller.look(&counters), None);
    }
    // A loop that leaves again and again leaves its mark in no window.
    for _ in 0..20 {
        run.on(0.3, |setting| images.speed(setting), quiet);
        run.counters.absences += 1;
        run.on(1.0, |_| away, quiet);
        run.counters.absences += 1;
    }
    assert_eq!(run.setting, Setting { workers: 2, prefetch: 4 });
}

#[test]
fn the_simulators_loaders_are_brought_to_95_per_cent_of_their_best() {
    type Fill = fn(&mut Simulation);
    let sleeps: Fill = |simulation| {
        simulation.stage("load", Cost::constant(0.010).unwrap());
    };
    let computes: Fill = |simulation| {
        simulation.resources.push(Resource { capacity: 2.0, each: 1.0, shared_by_ranks: false });
        simulation.stage_on("decode", Cost::constant(0.004).unwrap(), 0);
    };
    for (fill, each) in [(sleeps, 0.0), (computes, 1.0)] {
        let speed = |setting: Setting| {
            let mut simulation = Simulation::new(2048, 16);
            fill(&mut simulation);
            (simulation.workers, simulation.prefetch) = (setting.workers, setting.prefetch);
            let outcome = simulation.run().unwrap();
            let (rate, idle) = (outcome.throughput(), 1.0 - outcome.utilisation);
            let used = each * (rate * 0.004).min(2.0);
            Speed { rate, wait: outcome.wait_share(), idle, each, used }
        };
        let mut known = BTreeMap::new();
        for (workers, prefetch) in [1, 2, 4, 8, 16, 32, 64].map(|w| (w, 1 + 2 * w / 16)) {
            known.insert((workers, prefetch), speed(Setting { workers, prefetch }).rate);
        }
        let best = known.values().copied().fold(0.0, f64::max);
        let mut run = Run::new(bounds(2, 16), WORST);
        run.on(15.0, speed, quiet);
        let reached = speed(run.setting).rate;
        assert!(reached >= 0.95 * best, "{reached} of {best}: {:?}", run.controller.stats());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is counted: bounds are kept, and what was tried in vain is tried ever more rarely.
    #[test]
    fn bounds_are_kept_and_changes_become_rare(
        compute in 0.0001..0.05f64,
        wait in prop_oneof![Just(0.0), 0.001..0.1f64],
        step in prop_oneof![Just(0.0), 0.0001..0.02f64],
        cores in 1u32..16,
        workers in 1usize..40,
        prefetch in 1usize..9,
        seed in any::<u64>(),
    ) {
        let cores = f64::from(cores);
        let paper = Paper { cores, compute, wait, alone: 0.0, step, batch_size: 32 };
        let (mut run, began) = (Run::of(&paper, Setting { workers, prefetch }), workers);
        let mut dice = seed | 1;
        let noise = || {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            0.98 + 0.04 * (dice % 1000) as f64 / 1000.0
        };
        run.on(120.0, |setting| paper.speed(setting), noise);
        let Setting { workers, prefetch } = run.setting;
        prop_assert!((1..=64).contains(&workers) && (1..=64).contains(&prefetch));
        prop_assert!(run.changes <= 60, "{} changes: {:?}", run.changes, run.controller.stats());
        // Workers that only compute are never made more than the cores, not even to try it.
        if wait == 0.0 {
            let most = run.controller.stats().changes.iter().map(|change| change.to.workers).max();
            prop_assert!(
                most.unwrap_or(0) <= began.max(cores as usize), "{:?}", run.controller.stats()
            );
        }
    }
}
