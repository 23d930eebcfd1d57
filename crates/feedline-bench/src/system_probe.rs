//! The real instruments: the monotonic clock, and a thread that samples the process tree.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use crate::kernel::{self, MachineReading, SwitchReading};
use crate::process_tree::{Ledger, MemoryTrack};
use crate::{Probe, Usage};

/// Below this the kernel's 10 ms ticks make the load of others a guess.
const SHORTEST_LOAD: Duration = Duration::from_millis(100);

/// The first sample comes early, so that short runs are seen too; pauses then double.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Sampling may take this share of one core; a slow reading makes the next pause longer.
const PAUSE_PER_COST: u32 = 50;

/// Meters this process and all its descendants.
///
/// Both ends of a run are read by the caller, outside the timed interval. In between a thread samples
/// the tree every [`interval`](Self::with_interval) (100 ms unless told otherwise; sooner at the
/// beginning), because memory peaks and children that end unseen cannot be found afterwards. One sample
/// reads `stat`, `io` and `smaps_rollup` of each member; the last walks the page tables and costs up to
/// some milliseconds per gigabyte. The thread never takes more than about 2 % of a core, and what it
/// took is reported as [`Usage::monitor_cpu_s`].
///
/// The thread exists only between [`begin`](Probe::begin) and [`end`](Probe::end).
#[derive(Debug)]
pub struct SystemProbe {
    origin: Instant,
    interval: Duration,
    monitor: Option<Monitor>,
}

impl SystemProbe {
    /// A probe that samples every 100 ms.
    pub fn new() -> Self {
        Self::with_interval(Duration::from_millis(100))
    }

    /// A probe that samples at the given interval.
    pub fn with_interval(interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        Self { origin: Instant::now(), interval, monitor: None }
    }
}

impl Default for SystemProbe {
    fn default() -> Self {
        Self::new()
    }
}

impl Probe for SystemProbe {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn begin(&mut self) {
        self.monitor = None;
        self.monitor = Some(Monitor::start(self.interval));
    }

    fn end(&mut self) -> Usage {
        self.monitor.take().map(Monitor::finish).unwrap_or_default()
    }
}

/// One metered interval.
#[derive(Debug)]
struct Monitor {
    opening: Opening,
    /// The process that started it. A forked child inherits this value but not the thread.
    owner: u32,
    stop: Arc<Stop>,
    sampler: Option<JoinHandle<Samples>>,
    /// Without a sampler thread the samples of the opening wait here for the closing.
    unsampled: Option<Samples>,
}

/// Readings at the beginning.
#[derive(Debug)]
struct Opening {
    /// Before the first reading; memory samples are dated from here.
    started: Instant,
    /// After it; elapsed time counts from here.
    at: Instant,
    thread: ThreadId,
    thread_cpu: Option<Duration>,
    switches: Option<SwitchReading>,
    machine: Option<MachineReading>,
}

#[derive(Debug, Default)]
struct Stop {
    asked: Mutex<bool>,
    bell: Condvar,
}

/// What samples have seen so far.
#[derive(Debug, Default)]
struct Samples {
    ledger: Option<Ledger>,
    memory: MemoryTrack,
    processes_peak: u64,
    cost: Duration,
}

impl Monitor {
    fn start(interval: Duration) -> Self {
        let owner = std::process::id();
        let started = Instant::now();
        let mut samples = Samples::default();
        samples.open();
        samples.weigh(started, &Stop::default());
        // Everything that took time is done: the readings that count come last.
        let opening = Opening {
            started,
            at: Instant::now(),
            thread: thread::current().id(),
            machine: kernel::machine_time(),
            switches: kernel::switches(),
            thread_cpu: kernel::thread_cpu(),
        };
        samples.reopen();
        if samples.ledger.is_none() {
            return Self {
                opening,
                owner,
                stop: Arc::default(),
                sampler: None,
                unsampled: Some(samples),
            };
        }
        let stop = Arc::new(Stop::default());
        let their_stop = Arc::clone(&stop);
        let sampler = thread::Builder::new()
            .name("feedline-monitor".into())
            .spawn(move || sample_until(samples, started, interval, &their_stop));
        // No thread to be had: only time is known then, and the rest is shown as unknown.
        Self { opening, owner, stop, sampler: sampler.ok(), unsampled: None }
    }

    fn finish(mut self) -> Usage {
        let own_cpu = kernel::own_cpu();
        let thread_cpu = kernel::thread_cpu();
        let machine = kernel::machine_time();
        let switches = kernel::switches();
        let elapsed = self.opening.at.elapsed();

        let samples = self.stop().or(self.unsampled.take()).unwrap_or_default();
        let mut usage = samples.close(own_cpu, self.opening.started);

        if thread::current().id() == self.opening.thread {
            usage.thread_cpu_s =
                difference(thread_cpu, self.opening.thread_cpu).map(|it| it.as_secs_f64());
        }
        if let (Some(now), Some(then)) = (switches, self.opening.switches) {
            usage.voluntary_switches = Some(now.voluntary.saturating_sub(then.voluntary));
            usage.involuntary_switches = Some(now.involuntary.saturating_sub(then.involuntary));
        }
        if let (Some(now), Some(then), true) =
            (machine, self.opening.machine, elapsed >= SHORTEST_LOAD)
        {
            let cores = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64();
            let ours = usage.cpu_s.zip(usage.monitor_cpu_s).map(|(tree, monitor)| tree + monitor);
            usage.others_cores = ours.map(|ours| {
                (cores(now.busy.saturating_sub(then.busy)) - ours / elapsed.as_secs_f64()).max(0.0)
            });
            usage.steal_cores = Some(cores(now.steal.saturating_sub(then.steal)));
        }
        usage
    }

    /// Ends the thread and takes what it saw.
    fn stop(&mut self) -> Option<Samples> {
        let sampler = self.sampler.take()?;
        if self.owner != std::process::id() {
            // In a forked child there is nobody to join, and the lock may be held for ever.
            return None;
        }
        *self.stop.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.bell.notify_all();
        sampler.join().ok()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Stop {
    fn is_asked(&self) -> bool {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `pause` and tells whether it was cut short by the end of the run.
    fn wait(&self, pause: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.bell.wait_timeout_while(asked, pause, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn sample_until(
    mut samples: Samples,
    started: Instant,
    interval: Duration,
    stop: &Stop,
) -> Samples {
    let mut pause = FIRST_PAUSE.min(interval);
    let mut before = Duration::ZERO;
    while !stop.wait(pause) {
        samples.look();
        samples.weigh(started, stop);
        let cost = kernel::thread_cpu().unwrap_or_default();
        pause = (pause * 2).min(interval).max((cost - before) * PAUSE_PER_COST);
        before = cost;
    }
    samples.cost = kernel::thread_cpu().unwrap_or_default();
    samples
}

impl Samples {
    fn open(&mut self) {
        self.ledger = kernel::tree(&[]).map(|readings| Ledger::open(&readings));
    }

    /// Moves the beginning to now: weighing the tree after `open` took CPU time itself.
    fn reopen(&mut self) {
        if let (Some(ledger), Some(own)) = (&mut self.ledger, kernel::own_cpu()) {
            ledger.set_own_cpu(own);
            ledger.reopen_cpu();
        }
    }

    /// Looks who is there and what they used.
    fn look(&mut self) {
        let Some(ledger) = &mut self.ledger else { return };
        if let Some(readings) = kernel::tree(&ledger.members()) {
            ledger.update(&readings);
        }
    }

    /// Adds up the memory of all members; given up half-way once the run has ended.
    fn weigh(&mut self, started: Instant, stop: &Stop) {
        let Some(ledger) = &self.ledger else { return };
        let members = ledger.members();
        self.processes_peak = self.processes_peak.max(members.len() as u64);
        let mut sum = None;
        for member in members {
            if stop.is_asked() {
                return;
            }
            // One that has just ended weighs nothing.
            if let Some(bytes) = kernel::pss_bytes(member.number) {
                sum = Some(sum.unwrap_or(0) + bytes);
            }
        }
        if let Some(bytes) = sum {
            self.memory.add(started.elapsed(), bytes);
        }
    }

    fn close(mut self, own_cpu: Option<Duration>, started: Instant) -> Usage {
        self.look();
        self.weigh(started, &Stop::default());
        let mut usage = Usage::default();
        if let (Some(ledger), Some(own_cpu)) = (&mut self.ledger, own_cpu) {
            ledger.set_own_cpu(own_cpu);
            usage.cpu_s = Some(ledger.cpu().saturating_sub(self.cost).as_secs_f64());
            usage.monitor_cpu_s = Some(self.cost.as_secs_f64());
            usage.processes_peak = Some(self.processes_peak);
            let io = ledger.io();
            usage.storage_read_bytes = io.map(|it| it.read_bytes);
            usage.storage_written_bytes = io.map(|it| it.written_bytes);
        }
        usage.pss_start_bytes = self.memory.start();
        usage.pss_peak_bytes = self.memory.peak();
        usage.pss_mean_bytes = self.memory.mean();
        usage.pss_samples = usage.pss_peak_bytes.map(|_| self.memory.samples());
        usage
    }
}

fn difference(now: Option<Duration>, then: Option<Duration>) -> Option<Duration> {
    Some(now?.saturating_sub(then?))
}
