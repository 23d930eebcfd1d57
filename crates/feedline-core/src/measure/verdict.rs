//! The measurements in words: who waited for whom, what bounds throughput, what to change.

use std::fmt::Write;

use super::stats::Stats;

/// Below this share of the wall time a wait is not worth a word.
const NEGLIGIBLE: f64 = 0.02;
/// One wait with more than this share of all waiting explains it.
const MOSTLY: f64 = 0.7;

impl Stats {
    /// A verdict in plain words.
    #[must_use]
    pub fn explain(&self) -> String {
        let c = &self.consumer;
        let wall = (c.step_ns + c.wait_ns + c.handover_ns).max(1) as f64;
        if self.batches == 0 {
            return "Nothing has been delivered yet, so there is nothing to explain.".into();
        }
        let share = |ns: u64| ns as f64 / wall;
        let mut text = format!(
            "{} samples in {} batches at {} samples/s. ",
            self.samples,
            self.batches,
            rate(self.samples as f64 / (wall / 1e9)),
        );
        let waited = share(c.wait_ns);
        if waited <= NEGLIGIBLE {
            let _ = write!(
                text,
                "The training loop never had to wait ({:.1} % of its time): loading is not the \
                 bottleneck. ",
                100.0 * waited
            );
            let idle: u64 = self.workers.iter().map(|w| w.idle_for_consumer_ns).sum();
            let busy: u64 = self.workers.iter().map(|w| w.busy_ns).sum();
            if self.workers.len() > 1 && idle > 2 * busy {
                let _ = write!(
                    text,
                    "The workers slept {:.0} % of the time; fewer than {} would do. ",
                    100.0 * idle as f64 / (idle + busy) as f64,
                    self.workers.len()
                );
            }
        } else {
            let _ = write!(
                text,
                "The training loop waited {:.1} % of its time for batches. ",
                100.0 * waited
            );
            let first = c.waits.max_ns as f64 / c.wait_ns.max(1) as f64;
            if first > MOSTLY && self.batches > 2 {
                let _ = write!(
                    text,
                    "Nearly all of that was a single wait of {}: starting up, or one slow sample. ",
                    duration(c.waits.max_ns as f64)
                );
            } else {
                self.explain_wait(&mut text);
            }
        }
        if self.errors > 0 {
            let _ = write!(text, "{} samples could not be made; see the error list. ", self.errors);
        }
        if self.lost_workers > 0 {
            let _ = write!(
                text,
                "{} workers hang in samples that exceeded the time limit and were replaced. ",
                self.lost_workers
            );
        }
        text.trim_end().to_string()
    }

    fn explain_wait(&self, text: &mut String) {
        let total: u64 = self.stages.iter().map(|s| s.total_ns).sum();
        if let Some(slowest) = self.stages.iter().max_by_key(|s| s.total_ns).filter(|_| total > 0) {
            let _ = write!(
                text,
                "Stage {} takes {:.0} % of the work ({} per sample). ",
                slowest.stage,
                100.0 * slowest.total_ns as f64 / total as f64,
                duration(slowest.times.mean_ns),
            );
        }
        let busy: u64 = self.workers.iter().map(|w| w.busy_ns).sum();
        let full: u64 = self.workers.iter().map(|w| w.idle_for_consumer_ns).sum();
        let starved: u64 = self.workers.iter().map(|w| w.idle_without_work_ns).sum();
        let all = (busy + full + starved).max(1) as f64;
        if busy as f64 / all > 0.9 {
            let n = self.workers.len().max(1);
            let _ = write!(
                text,
                "The workers were busy {:.0} % of the time, so they bound the throughput: one more \
                 would bring up to {:.0} %, if there is a free core for it. ",
                100.0 * busy as f64 / all,
                100.0 / n as f64,
            );
        } else if full > starved && self.consumer.step_ns < self.consumer.handover_ns {
            let _ = write!(
                text,
                "The loop does nothing but take batches, and each is made faster than it is handed \
                 over: what is measured is the hand-over. ",
            );
        } else if full > starved {
            let _ = write!(
                text,
                "Yet the workers slept {:.0} % of the time behind a full read-ahead of {} batches: \
                 samples of very uneven cost hold up delivery. Raise `prefetch` or `memory`, or use \
                 the `ready` order. ",
                100.0 * full as f64 / all,
                self.prefetch,
            );
        } else {
            let _ = write!(
                text,
                "Yet the workers had nothing to do {:.0} % of the time: imbalance factor {:.2}. Work \
                 stealing or smaller pieces would spread the work better. ",
                100.0 * starved as f64 / all,
                self.imbalance,
            );
        }
    }
}

fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}
