//! The simulator against the engine: given the times that were measured, it takes as long as the engine did.
//!
//! Samples sleep, so that workers do not need a core each. When each was loaded and built, how long each step was and
//! how long the training loop took to wake up is measured in the run itself, and replayed on the virtual clock: a busy
//! machine makes both longer. What is not replayed, because nobody can measure it from outside, is what passes between
//! two samples of a worker. Whoever disturbs can only make that longer, so the run that comes closest is the one that
//! counts, and there are several.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use feedline_core::plan::SampleIndex;
use feedline_core::simulate::{Cost, Simulated, Simulation};
use feedline_core::{Cause, DType, Dataset, Delivery, Field, Loader, PolicyKind, Sample};

/// How far the closest run may be off.
const TOLERANCE: f64 = 0.10;
const RUNS: usize = 12;

#[derive(Copy, Clone, Debug)]
struct Setting {
    samples: u64,
    batch_size: u64,
    workers: usize,
    io_workers: usize,
    prefetch: usize,
    policy: PolicyKind,
    delivery: Delivery,
    /// Milliseconds of the mean sample and of a step.
    sample_ms: f64,
    step_ms: f64,
    /// Some samples take many times as long.
    stragglers: bool,
}

/// Samples that sleep, and what each took.
struct Naps {
    load: Vec<Duration>,
    build: Vec<Duration>,
    took: Arc<Mutex<Vec<Took>>>,
}

#[derive(Copy, Clone, Default)]
struct Took {
    load: f64,
    build: f64,
    done: Option<Instant>,
}

impl Dataset for Naps {
    fn len(&self) -> u64 {
        self.load.len() as u64
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("number", DType::U64, [])]
    }
    fn load(&self, index: SampleIndex, _raw: &mut Vec<u8>) -> Result<(), Cause> {
        let began = Instant::now();
        std::thread::sleep(self.load[index.0 as usize]);
        self.took.lock().unwrap()[index.0 as usize].load = began.elapsed().as_secs_f64();
        Ok(())
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let began = Instant::now();
        let index = sample.index().0;
        std::thread::sleep(self.build[index as usize]);
        sample.put(0, &[index])?;
        let done = Instant::now();
        let mut took = self.took.lock().unwrap();
        let took = &mut took[index as usize];
        (took.build, took.done) = ((done - began).as_secs_f64(), Some(done));
        Ok(())
    }
}

/// What a run of the engine took, and the same simulated.
fn both(setting: &Setting) -> (f64, f64, Simulated) {
    let took = Arc::new(Mutex::new(vec![Took::default(); setting.samples as usize]));
    let nap = |index: u64, share: f64| {
        // Spread from a half to one and a half by a stride that visits all.
        let spread = 0.5 + (index * 37 % 64) as f64 / 64.0;
        let factor = if setting.stragglers && index % 50 == 7 { 12.0 } else { spread };
        Duration::from_secs_f64(setting.sample_ms * 1e-3 * share * factor)
    };
    let naps = Naps {
        load: (0..setting.samples).map(|index| nap(index, 0.6)).collect(),
        build: (0..setting.samples).map(|index| nap(index, 0.4)).collect(),
        took: Arc::clone(&took),
    };
    let loader = Loader::builder(naps)
        .batch_size(setting.batch_size)
        .workers(setting.workers)
        .io_workers(setting.io_workers)
        .prefetch(setting.prefetch)
        .policy(setting.policy)
        .delivery(setting.delivery)
        .epochs(1)
        .build()
        .unwrap();
    let (mut steps, mut wake_ups, mut delivered) = (Vec::new(), Vec::new(), 0);
    let began = Instant::now();
    let mut asked = began;
    for batch in loader.epoch() {
        let (got, batch) = (Instant::now(), batch.unwrap());
        let made = |index: &SampleIndex| took.lock().unwrap()[index.0 as usize].done.unwrap();
        let finished = batch.indices().iter().map(made).max().unwrap();
        wake_ups.push((got - asked.max(finished)).as_secs_f64());
        delivered += batch.indices().len();
        std::thread::sleep(Duration::from_secs_f64(setting.step_ms * 1e-3));
        steps.push(got.elapsed().as_secs_f64());
        asked = Instant::now();
    }
    let measured = (asked - began).as_secs_f64();
    assert_eq!(delivered as u64, setting.samples);

    let took = took.lock().unwrap();
    let mut simulation = Simulation::new(setting.samples, setting.batch_size);
    let column = |of: fn(&Took) -> f64| Cost::replayed(took.iter().map(of).collect()).unwrap();
    simulation.stage("load", column(|took| took.load));
    simulation.stage("build", column(|took| took.build));
    simulation.handover = Cost::replayed(wake_ups).unwrap();
    simulation.step = Cost::replayed(steps).unwrap();
    (simulation.workers, simulation.io_workers) = (setting.workers, setting.io_workers);
    (simulation.prefetch, simulation.policy) = (setting.prefetch, setting.policy);
    simulation.delivery = setting.delivery;
    let simulated = simulation.run().unwrap();
    (measured, simulated.duration, simulated)
}

fn agrees(setting: Setting) {
    let mut seen = Vec::new();
    for _ in 0..RUNS {
        let (measured, simulated, outcome) = both(&setting);
        assert_eq!(outcome.samples, setting.samples);
        if (measured / simulated - 1.0).abs() <= TOLERANCE {
            return;
        }
        seen.push((measured, simulated));
    }
    panic!("{setting:?}: (measured, simulated) seconds were {seen:.3?}");
}

const PLAIN: Setting = Setting {
    samples: 192,
    batch_size: 16,
    workers: 4,
    io_workers: 0,
    prefetch: 4,
    policy: PolicyKind::Steal,
    delivery: Delivery::InOrder,
    sample_ms: 5.0,
    step_ms: 0.0,
    stragglers: false,
};

#[test]
fn one_worker_takes_the_sum_of_its_samples() {
    agrees(Setting { workers: 1, samples: 64, ..PLAIN });
}

#[test]
fn workers_take_as_long_as_simulated() {
    for workers in [2, 4, 8, 16] {
        agrees(Setting { workers, samples: 48 * workers as u64, ..PLAIN });
    }
}

#[test]
fn a_training_loop_waits_as_long_as_simulated() {
    // Loading a batch takes 20 ms: the step is shorter, as long, and longer.
    for step_ms in [10.0, 20.0, 40.0] {
        agrees(Setting { step_ms, ..PLAIN });
        agrees(Setting { step_ms, prefetch: 1, ..PLAIN });
    }
}

#[test]
fn every_policy_takes_as_long_as_simulated() {
    for policy in PolicyKind::ALL {
        agrees(Setting { policy, stragglers: true, ..PLAIN });
    }
}

#[test]
fn batches_of_ready_samples_come_when_simulated() {
    for window in [1, 4] {
        let delivery = Delivery::Ready { window };
        agrees(Setting { delivery, stragglers: true, ..PLAIN });
        agrees(Setting { delivery, step_ms: 15.0, ..PLAIN });
    }
}

#[test]
fn loading_apart_takes_as_long_as_simulated() {
    for (io_workers, workers) in [(6, 2), (2, 4)] {
        agrees(Setting { io_workers, workers, ..PLAIN });
    }
}
