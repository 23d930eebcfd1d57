//! The thread that counts, asks the [controller](crate::control) and carries out what it says.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::control::{Counters, Setting};
use crate::engine::Engine;
use crate::sync::lock_std as lock;

use super::{Duty, Roll, hire};

/// How often it looks whether there is something to look at.
const TICK: Duration = Duration::from_millis(100);

pub(super) fn control(engine: &Arc<Engine>, roll: &Arc<Roll>, pin: bool) {
    let Some(control) = &engine.control else { return };
    while !control.seats.rest(TICK) {
        let mut controller = lock(&control.controller);
        if engine.gate.now_ns() < controller.due_ns() {
            continue;
        }
        let Some(mut to) = controller.look(&counters(engine)) else { continue };
        while control.seats.hired() < to.workers {
            let worker = control.seats.hired();
            if hire(roll, engine, worker, Duty::Jobs, pin).is_err() {
                // No thread is to be had: those who are there go on.
                to = controller.at_most(Some(worker), None);
                break;
            }
            control.seats.hire();
        }
        drop(controller);
        carry_out(engine, to);
    }
}

fn carry_out(engine: &Engine, to: Setting) {
    let Some(control) = &engine.control else { return };
    engine.gate.set_prefetch(to.prefetch);
    if to.workers != control.seats.open() && control.seats.set(to.workers) {
        engine.policy.set_workers(to.workers);
        engine.gate.wake_workers();
    }
}

/// What has been counted until now.
fn counters(engine: &Engine) -> Counters {
    let now_ns = engine.gate.now_ns();
    let mut counters = Counters { now_ns, ..Counters::default() };
    let hired = engine.hired();
    for tally in &engine.runner.tallies[..hired] {
        let (full_ns, starved_ns) = tally.idle_until(now_ns);
        counters.samples += tally.samples.load(Ordering::Relaxed);
        counters.full_ns += full_ns;
        counters.starved_ns += starved_ns;
    }
    let mut consumed = lock(&engine.consumption);
    consumed.fold();
    (counters.batches, counters.delivered) = (consumed.batches, consumed.samples);
    counters.delivered_ns = consumed.taken_ns;
    counters.wait_ns = consumed.waited_until(now_ns);
    counters.absences = consumed.absences_until(now_ns);
    drop(consumed);
    counters.processor = processor::read(engine, engine.active());
    counters
}

#[cfg(target_os = "linux")]
mod processor {
    use std::sync::atomic::Ordering;

    use crate::control::Processor;
    use crate::engine::Engine;

    /// So many workers speak for all.
    const ASKED: usize = 8;

    /// What the kernel has counted of processor time.
    pub(super) fn read(engine: &Engine, workers: usize) -> Option<Processor> {
        let workers = workers.min(ASKED);
        let mut all = Processor { process_ns: process_ns(), workers, ..Processor::default() };
        for tally in &engine.runner.tallies[..workers] {
            let thread = tally.thread.load(Ordering::Relaxed);
            // "time on a core, time in line for one, how often", the times in nanoseconds.
            let path = format!("/proc/self/task/{thread}/schedstat");
            let text = std::fs::read_to_string(path).ok()?;
            let mut words = text.split_ascii_whitespace().map(str::parse::<u64>);
            all.on_core_ns += words.next()?.ok()?;
            all.queued_ns += words.next()?.ok()?;
        }
        Some(all)
    }

    fn process_ns() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// The calling thread, as the kernel numbers it.
    pub(in crate::crew) fn this_thread() -> i32 {
        rustix::thread::gettid().as_raw_nonzero().get()
    }
}

/// Other systems do not tell.
#[cfg(not(target_os = "linux"))]
mod processor {
    use crate::control::Processor;
    use crate::engine::Engine;

    pub(super) fn read(_engine: &Engine, _workers: usize) -> Option<Processor> {
        None
    }

    pub(in crate::crew) fn this_thread() -> i32 {
        0
    }
}

pub(super) use processor::this_thread;
