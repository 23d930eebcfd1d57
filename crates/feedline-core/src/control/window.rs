//! What is counted, and what follows from two counts.

/// A delivery not longer ago than this begins a stretch in which deliveries are counted.
const FRESH_NS: u64 = 1_000_000_000;

/// Sums since the loader was built.
#[derive(Copy, Clone, Debug, Default)]
pub struct Counters {
    /// When they were read.
    pub now_ns: u64,
    /// Samples made.
    pub samples: u64,
    /// Batches delivered.
    pub batches: u64,
    /// Samples in them.
    pub delivered: u64,
    /// When the last batch was taken.
    pub delivered_ns: u64,
    /// Time the loop waited for batches, the wait that is under way included.
    pub wait_ns: u64,
    /// How often the loop was elsewhere for long.
    pub absences: u64,
    /// Time that workers slept behind a full read-ahead, all together.
    pub full_ns: u64,
    /// Time that they slept because there was nothing to do.
    pub starved_ns: u64,
    /// What the kernel knows of processor time; `None` where it does not tell.
    pub processor: Option<Processor>,
}

/// Processor time.
#[derive(Copy, Clone, Debug, Default)]
pub struct Processor {
    /// All of the process.
    pub process_ns: u64,
    /// How many workers the next two are of: the first ones.
    pub workers: usize,
    /// Time they were on a core.
    pub on_core_ns: u64,
    /// Time they stood in line for one.
    pub queued_ns: u64,
}

/// A stretch of time without a change.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Window {
    pub(crate) elapsed_ns: u64,
    pub(crate) samples: u64,
    pub(crate) batches: u64,
    /// Samples made per second.
    pub(crate) rate: f64,
    /// Samples delivered per second, from one delivery to another; `None` if there were not two.
    pub(crate) delivered: Option<f64>,
    /// The share of time that the loop waited.
    pub(crate) wait: f64,
    /// The share of the workers' time that they slept, for whatever reason.
    pub(crate) idle: f64,
    pub(crate) cores: Option<Cores>,
}

/// Cores in a stretch of time.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Cores {
    /// What a busy worker wants of one, from 0 to 1: what it had, and what it stood in line for.
    pub(crate) each: f64,
    /// What a busy worker had of one.
    pub(crate) had: f64,
    /// How many the process used.
    pub(crate) used: f64,
    /// How many its workers stood in line for, behind each other or behind somebody else.
    pub(crate) queued: f64,
}

impl Window {
    /// What happened between two counts, with so many workers.
    pub(crate) fn between(from: &Counters, to: &Counters, workers: usize) -> Window {
        let elapsed_ns = to.now_ns.saturating_sub(from.now_ns).max(1);
        let elapsed = elapsed_ns as f64;
        let share = |from: u64, to: u64, of: f64| (to.saturating_sub(from) as f64 / of).min(1.0);
        let all = elapsed * workers.max(1) as f64;
        let idle = share(from.full_ns + from.starved_ns, to.full_ns + to.starved_ns, all);
        let samples = to.samples.saturating_sub(from.samples);
        let cores = match (from.processor, to.processor) {
            (Some(from), Some(to)) if from.workers == to.workers && to.workers > 0 => {
                // A thread that took another's seat begins to count anew.
                let passed = |from: u64, to: u64| to.saturating_sub(from) as f64 / elapsed;
                let queued = passed(from.queued_ns, to.queued_ns);
                let had = passed(from.on_core_ns, to.on_core_ns);
                let busy = to.workers as f64 * (1.0 - idle);
                let each = |sum: f64| if busy > 0.0 { (sum / busy).min(1.0) } else { 0.0 };
                Some(Cores {
                    each: each(had + queued),
                    had: each(had),
                    used: passed(from.process_ns, to.process_ns),
                    queued: queued * workers as f64 / to.workers as f64,
                })
            }
            _ => None,
        };
        let between_ns = to.delivered_ns.saturating_sub(from.delivered_ns);
        // One that was long ago was before the loop went elsewhere, or is too long ago to begin with.
        let is_fresh = from.now_ns < from.delivered_ns + FRESH_NS;
        let delivered = (is_fresh && between_ns > 0).then(|| {
            to.delivered.saturating_sub(from.delivered) as f64 / (between_ns as f64 / 1e9)
        });
        Window {
            elapsed_ns,
            samples,
            batches: to.batches.saturating_sub(from.batches),
            rate: samples as f64 / (elapsed / 1e9),
            delivered,
            wait: share(from.wait_ns, to.wait_ns, elapsed),
            idle,
            cores,
        }
    }
}
