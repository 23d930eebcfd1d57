//! The real instruments: the monotonic clock, and a thread that samples the process tree.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::kernel::{self, MachineReading, SwitchReading};
use crate::process_tree::{MemoryTrack, TreeUsage};
use crate::{GpuReading, Gpus, Probe, Usage};

/// Below this the kernel's 10 ms ticks make the load of others a guess.
const SHORTEST_LOAD: Duration = Duration::from_millis(100);

/// The first sample comes early, so that short runs are seen too; pauses then double.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Looking and weighing may each take this share of one core; a slow reading makes its next pause longer.
const PAUSE_PER_COST: u32 = 50;

/// What a sample saw: the tree at one moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since the run began.
    pub at_s: f64,
    /// Cores that the tree kept busy since the sample before.
    pub cores: f64,
    /// Proportional set size of the tree.
    pub pss_bytes: u64,
    /// Processes in the tree.
    pub processes: u64,
    /// Graphics processors of the machine, where some are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuReading>,
}

/// Moments stand at least so far apart: CPU time comes in ticks, and that of a child all at once when it
/// ends, so over a shorter span it says little.
const SHORTEST_SPAN_S: f64 = 0.03;

/// A longer run keeps every other sample, then every fourth, …
const MOST_MOMENTS: usize = 240;

/// Meters this process, or [another](Self::of), and all its descendants.
///
/// Both ends of a run are read by the caller, outside the timed interval. In between a thread samples
/// the tree every [`interval`](Self::with_interval) (100 ms unless told otherwise; sooner at the
/// beginning), because memory peaks and children that end unseen cannot be found afterwards. One sample
/// reads `stat`, `io` and `smaps_rollup` of each member; the last walks the page tables and costs up to
/// some milliseconds per gigabyte. The thread never takes more than about 4 % of a core, and what it
/// took is reported as [`Usage::monitor_cpu_s`]. Where there are [`Gpus`], each sample reads them as well.
///
/// The thread exists only between [`begin`](Probe::begin) and [`end`](Probe::end).
#[derive(Debug)]
pub struct SystemProbe {
    origin: Instant,
    interval: Duration,
    root: u32,
    monitor: Option<Monitor>,
    moments: Vec<Moment>,
}

impl SystemProbe {
    /// A probe that samples every 100 ms.
    pub fn new() -> Self {
        Self::with_interval(Duration::from_millis(100))
    }

    /// A probe that samples at the given interval.
    pub fn with_interval(interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        let root = std::process::id();
        // Finding them takes time, which must not be part of a run.
        let _ = Gpus::find();
        Self { origin: Instant::now(), interval, root, monitor: None, moments: Vec::new() }
    }

    /// Meters the tree of another process instead of this one's: of a child that does the work while
    /// this process only waits. Context switches and the thread's CPU time are unknown then, and CPU
    /// time is as fine as the kernel tells for others (nanoseconds, 10 ms for their ended children).
    pub fn of(mut self, root: u32) -> Self {
        self.root = root;
        self
    }

    /// The samples of the run that [`end`](Probe::end) closed last, for pictures over time.
    pub fn take_moments(&mut self) -> Vec<Moment> {
        std::mem::take(&mut self.moments)
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
        self.monitor = Some(Monitor::start(self.root, self.interval));
    }

    fn end(&mut self) -> Usage {
        let Some(monitor) = self.monitor.take() else { return Usage::default() };
        let (usage, moments) = monitor.finish();
        self.moments = moments;
        usage
    }
}

/// One metered interval.
#[derive(Debug)]
struct Monitor {
    opening: FirstReadings,
    /// The process that started it. A forked child inherits this value but not the thread.
    owner: u32,
    stop: Arc<StopFlag>,
    sampler: Option<JoinHandle<TreeReadings>>,
    /// Without a sampler thread the samples of the opening wait here for the closing.
    unsampled: Option<TreeReadings>,
}

/// Readings at the beginning.
#[derive(Debug)]
struct FirstReadings {
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
struct StopFlag {
    asked: Mutex<bool>,
    bell: Condvar,
}

/// What samples have seen so far.
#[derive(Debug)]
struct TreeReadings {
    root: u32,
    tree: Option<TreeUsage>,
    series: MomentSeries,
    memory: MemoryTrack,
    gpus: Option<&'static Gpus>,
    gpu: GpuTrack,
    processes_peak: u64,
    cost: Duration,
}

/// What GPUs did so far.
#[derive(Debug, Default)]
struct GpuTrack {
    busy: f64,
    readings: u32,
    memory_peak: u64,
}

impl Monitor {
    fn start(root: u32, interval: Duration) -> Self {
        let owner = std::process::id();
        let started = Instant::now();
        let mut samples = TreeReadings::open(root);
        samples.weigh(started, &StopFlag::default());
        // Everything that took time is done: the readings that count come last.
        let opening = FirstReadings {
            started,
            at: Instant::now(),
            thread: thread::current().id(),
            machine: kernel::machine_time(),
            switches: kernel::switches().filter(|_| root == owner),
            thread_cpu: kernel::thread_cpu().filter(|_| root == owner),
        };
        samples.reopen();
        if samples.tree.is_none() {
            return Self {
                opening,
                owner,
                stop: Arc::default(),
                sampler: None,
                unsampled: Some(samples),
            };
        }
        let stop = Arc::new(StopFlag::default());
        let their_stop = Arc::clone(&stop);
        let sampler = thread::Builder::new()
            .name("feedline-monitor".into())
            .spawn(move || sample_until(samples, started, interval, &their_stop));
        // No thread to be had: only time is known then, and the rest is shown as unknown.
        Self { opening, owner, stop, sampler: sampler.ok(), unsampled: None }
    }

    fn finish(mut self) -> (Usage, Vec<Moment>) {
        let own_cpu = kernel::own_cpu();
        let thread_cpu = kernel::thread_cpu();
        let machine = kernel::machine_time();
        let switches = kernel::switches();
        let elapsed = self.opening.at.elapsed();

        let Some(samples) = self.stop().or(self.unsampled.take()) else {
            return (Usage::default(), Vec::new());
        };
        let (mut usage, moments) = samples.close(own_cpu, self.opening.started);

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
        (usage, moments)
    }

    /// Ends the thread and takes what it saw.
    fn stop(&mut self) -> Option<TreeReadings> {
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

impl StopFlag {
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
    mut samples: TreeReadings,
    started: Instant,
    interval: Duration,
    stop: &StopFlag,
) -> TreeReadings {
    let cost = || kernel::thread_cpu().unwrap_or_default();
    let mut pause = FIRST_PAUSE.min(interval);
    // Memory costs far more to read than CPU time does, so it has pauses of its own.
    let mut weighs_again = Duration::ZERO;
    while !stop.wait(pause) {
        let before = cost();
        samples.look();
        let looked = cost();
        pause = (pause * 2).min(interval).max((looked - before) * PAUSE_PER_COST);
        if started.elapsed() >= weighs_again {
            samples.weigh(started, stop);
            weighs_again = started.elapsed() + (cost() - looked) * PAUSE_PER_COST;
        }
        samples.note(started);
    }
    samples.cost = cost();
    samples
}

impl TreeReadings {
    fn open(root: u32) -> Self {
        Self {
            root,
            tree: kernel::tree(root, &[]).map(|readings| TreeUsage::open(&readings)),
            series: MomentSeries::default(),
            memory: MemoryTrack::default(),
            gpus: Gpus::find().ok(),
            gpu: GpuTrack::default(),
            processes_peak: 0,
            cost: Duration::ZERO,
        }
    }

    fn is_own(&self) -> bool {
        self.root == std::process::id()
    }

    /// Moves the beginning to now: weighing the tree after `open` took CPU time itself.
    fn reopen(&mut self) {
        if !self.is_own() {
            // Weighing others costs this process time, not them.
            return;
        }
        if let (Some(tree), Some(own)) = (&mut self.tree, kernel::own_cpu()) {
            tree.set_own_cpu(own);
            tree.reopen_cpu();
        }
    }

    /// Looks who is there and what they used.
    fn look(&mut self) {
        let Some(tree) = &mut self.tree else { return };
        if let Some(readings) = kernel::tree(self.root, &tree.members()) {
            tree.update(&readings);
        }
    }

    /// Adds up the memory of all members; given up half-way once the run has ended.
    fn weigh(&mut self, started: Instant, stop: &StopFlag) {
        let Some(tree) = &self.tree else { return };
        let members = tree.members();
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

    /// Keeps what is known now for the picture over time.
    fn note(&mut self, started: Instant) {
        let gpu = self.gpus.and_then(Gpus::read);
        if let Some(reading) = gpu {
            self.gpu.busy += reading.busy;
            self.gpu.readings += 1;
            self.gpu.memory_peak = self.gpu.memory_peak.max(reading.memory_bytes);
        }
        if let (Some(tree), Some(pss_bytes)) = (&self.tree, self.memory.last()) {
            let processes = tree.members().len() as u64;
            self.processes_peak = self.processes_peak.max(processes);
            let at_s = started.elapsed().as_secs_f64();
            let moment = Moment { at_s, cores: 0.0, pss_bytes, processes, gpu };
            self.series.add(moment, tree.cpu());
        }
    }

    fn close(mut self, own_cpu: Option<Duration>, started: Instant) -> (Usage, Vec<Moment>) {
        self.look();
        self.weigh(started, &StopFlag::default());
        self.note(started);
        let is_own = self.is_own();
        let mut usage = Usage::default();
        if let (Some(tree), Some(own_cpu)) = (&mut self.tree, own_cpu) {
            // The sampler is a thread of this process: a foreign tree does not pay for it.
            let mut cost = Duration::ZERO;
            if is_own {
                tree.set_own_cpu(own_cpu);
                cost = self.cost;
            }
            usage.cpu_s = Some(tree.cpu().saturating_sub(cost).as_secs_f64());
            usage.monitor_cpu_s = Some(self.cost.as_secs_f64());
            usage.processes_peak = Some(self.processes_peak);
            let io = tree.io();
            usage.storage_read_bytes = io.map(|it| it.read_bytes);
            usage.storage_written_bytes = io.map(|it| it.written_bytes);
        }
        if self.gpu.readings > 0 {
            usage.gpu_busy = Some(self.gpu.busy / f64::from(self.gpu.readings));
            usage.gpu_memory_peak_bytes = Some(self.gpu.memory_peak);
        }
        usage.pss_start_bytes = self.memory.start();
        usage.pss_peak_bytes = self.memory.peak();
        usage.pss_mean_bytes = self.memory.mean();
        usage.pss_samples = usage.pss_peak_bytes.map(|_| self.memory.samples());
        (usage, self.series.moments)
    }
}

/// Samples over time, thinned as they grow.
#[derive(Debug, Default)]
struct MomentSeries {
    moments: Vec<Moment>,
    last: (f64, Duration),
    seen: u64,
    stride: u64,
}

impl MomentSeries {
    /// Adds a moment; its busy cores follow from the CPU time so far.
    fn add(&mut self, moment: Moment, cpu: Duration) {
        if moment.at_s - self.last.0 < SHORTEST_SPAN_S {
            return;
        }
        self.stride = self.stride.max(1);
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(self.stride) {
            return;
        }
        let span = moment.at_s - self.last.0;
        let used = cpu.saturating_sub(self.last.1).as_secs_f64();
        let cores = if span > 0.0 { used / span } else { 0.0 };
        self.last = (moment.at_s, cpu);
        self.moments.push(Moment { cores, ..moment });
        if self.moments.len() >= MOST_MOMENTS {
            self.halve();
        }
    }

    /// Joins neighbours: cores are their mean over time, the rest is the later one's.
    fn halve(&mut self) {
        let mut before = 0.0;
        let joined = self.moments.chunks(2).map(|pair| {
            let (first, last) = (pair[0], pair[pair.len() - 1]);
            let work = first.cores * (first.at_s - before)
                + if pair.len() == 2 { last.cores * (last.at_s - first.at_s) } else { 0.0 };
            let span = last.at_s - before;
            before = last.at_s;
            Moment { cores: if span > 0.0 { work / span } else { 0.0 }, ..last }
        });
        self.moments = joined.collect();
        self.stride *= 2;
    }
}

fn difference(now: Option<Duration>, then: Option<Duration>) -> Option<Duration> {
    Some(now?.saturating_sub(then?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_stays_short_and_keeps_its_cpu_time() {
        let mut series = MomentSeries::default();
        for tick in 1..=10_000u64 {
            let at = Duration::from_millis(tick * 10);
            let moment = Moment { at_s: at.as_secs_f64(), pss_bytes: tick, ..Moment::default() };
            series.add(moment, at * 3 / 2);
        }
        let moments = &series.moments;
        assert!(moments.len() < MOST_MOMENTS, "{}", moments.len());
        assert!(moments.iter().all(|it| (it.cores - 1.5).abs() < 1e-6), "{moments:?}");
        assert!(moments.is_sorted_by(|a, b| a.at_s < b.at_s));
    }
}
