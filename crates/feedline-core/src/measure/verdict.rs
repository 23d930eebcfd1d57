//! The measurements in words: who waited for whom, what bounds throughput, what to change.

use std::fmt::Write;

use crate::control::Setting;

use super::stats::Stats;

/// Below this share of the wall time a wait is not worth a word.
const NEGLIGIBLE: f64 = 0.02;
/// One wait with more than this share of all waiting explains it.
const MOSTLY: f64 = 0.7;
/// Below this imbalance factor the work is spread evenly.
const EVEN: f64 = 1.2;
/// With fewer samples than these per worker, how they are spread says nothing.
const FEW: u64 = 16;
/// From this share on, padding is worth a word.
const MUCH_PADDING: f64 = 0.1;

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
        self.explain_control(&mut text);
        if self.padded.share() >= MUCH_PADDING {
            let _ = write!(
                text,
                "{:.0} % of what padded fields deliver is padding: batches of similar length (`buckets`) or packed \
                 rows have less. ",
                100.0 * self.padded.share()
            );
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

    /// What the controller did, and why it stays there.
    fn explain_control(&self, text: &mut String) {
        let Some(control) = &self.control else { return };
        let Setting { workers, prefetch } = control.setting;
        let _ = write!(
            text,
            "The controller is at {} and a read-ahead of {prefetch}, after {}: {}. ",
            counted(workers as u64, "worker"),
            counted(control.changed, "change"),
            control.stays
        );
        if let Some(change) = control.changes.last() {
            let (from, to) = (change.from, change.to);
            let _ = write!(
                text,
                "The last one, {} after the start, went from {} and {} to {} and {}: {}. ",
                duration(change.at_ns as f64),
                counted(from.workers as u64, "worker"),
                counted(from.prefetch as u64, "batch"),
                to.workers,
                to.prefetch,
                change.why
            );
        }
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
            if self.control.is_some() {
                let busy = 100.0 * busy as f64 / all;
                let _ = write!(text, "The workers were busy {busy:.0} % of the time. ");
                return;
            }
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
            let starved = 100.0 * starved as f64 / all;
            let _ = write!(text, "Yet the workers had nothing to do {starved:.0} % of the time: ");
            self.explain_starvation(text);
        }
    }

    /// Why there was nothing to do for workers while the loop waited.
    fn explain_starvation(&self, text: &mut String) {
        let (samples, workers) = (self.samples, self.workers.len() as u64);
        let _ = if self.is_iterated {
            write!(
                text,
                "samples come from the iterator one after the other, and it gives them no faster. Let it do less, \
                 and `map` the rest. "
            )
        } else if samples < FEW * workers {
            write!(text, "{samples} samples are few for {workers} workers. ")
        } else if self.imbalance >= EVEN {
            write!(
                text,
                "imbalance factor {:.2}. Work stealing or smaller pieces would spread the work better. ",
                self.imbalance
            )
        } else {
            write!(
                text,
                "the work is spread evenly, but too little of it is under way at a time. Raise `prefetch` or \
                 `memory`, or take larger batches. "
            )
        };
    }
}

fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

/// How many of them there are, in words: `1 worker`, `2 workers`, `3 batches`.
fn counted(number: u64, what: &str) -> String {
    let plural = if what.ends_with("ch") { "es" } else { "s" };
    format!("{number} {what}{}", if number == 1 { "" } else { plural })
}

fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::measure::{ConsumerStats, StageStats, Times, WorkerStats};
    use crate::work::Stage;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A loop of 100 batches that waited `wait_ns`, with two workers that were busy and idle as said.
    fn stats(step_ns: u64, wait_ns: u64, busy_ns: u64, full_ns: u64, starved_ns: u64) -> Stats {
        let times = |mean: u64| Times { count: 6400, mean_ns: mean as f64, ..Times::default() };
        let stage = |stage, total_ns: u64| StageStats {
            stage,
            bytes: 0,
            total_ns,
            times: times(total_ns / 6400),
        };
        let worker = |worker| WorkerStats {
            worker,
            samples: 3200,
            jobs: 3200,
            busy_ns: busy_ns / 2,
            idle_for_consumer_ns: full_ns / 2,
            idle_without_work_ns: starved_ns / 2,
            stages: Vec::new(),
        };
        Stats {
            elapsed_ns: step_ns + wait_ns,
            batches: 100,
            samples: 6400,
            bytes: 0,
            errors: 0,
            lost_workers: 0,
            consumer: ConsumerStats {
                step_ns,
                wait_ns,
                handover_ns: 1000,
                waits: Times { count: 100, max_ns: wait_ns / 50, ..Times::default() },
            },
            workers: vec![worker(0), worker(1)],
            stages: vec![
                stage(Stage::Load, busy_ns / 10),
                stage(Stage::Decode, busy_ns * 7 / 10),
                stage(Stage::Transform, busy_ns / 5),
            ],
            batch_parts: crate::measure::BatchTimes::default(),
            recent_batches: Vec::new(),
            occupancy: Vec::new(),
            ready: 0,
            imbalance: 1.5,
            efficiency: 1.0 / 1.5,
            steals: crate::schedule::Steals::default(),
            memory: crate::flow::MemoryStats::default(),
            padded: crate::measure::PaddedStats::default(),
            prefetch: 4,
            control: None,
            is_iterated: false,
        }
    }

    #[track_caller]
    fn says(stats: &Stats, words: &[&str]) {
        let text = stats.explain();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }

    #[test]
    fn a_loop_that_never_waits_is_told_that_loading_is_not_the_bottleneck() {
        says(&stats(99 * SECOND, SECOND, 50 * SECOND, 10 * SECOND, 0), &["not the bottleneck"]);
        let idle = stats(99 * SECOND, SECOND, SECOND, 100 * SECOND, 0);
        says(&idle, &["fewer than 2 would do", "slept 99 %"]);
    }

    #[test]
    fn busy_workers_bound_the_throughput_and_the_dearest_stage_is_named() {
        let busy = stats(50 * SECOND, 50 * SECOND, 190 * SECOND, 0, SECOND);
        says(
            &busy,
            &["waited 50.0 %", "Stage decode takes 70 %", "one more would bring up to 50 %"],
        );
    }

    #[test]
    fn full_read_ahead_points_to_uneven_samples_and_empty_queues_to_imbalance() {
        let full = stats(50 * SECOND, 50 * SECOND, 50 * SECOND, 100 * SECOND, SECOND);
        says(&full, &["uneven", "read-ahead of 4 batches", "`ready`"]);
        let starved = stats(50 * SECOND, 50 * SECOND, 50 * SECOND, SECOND, 100 * SECOND);
        says(&starved, &["nothing to do", "imbalance factor 1.50"]);
    }

    #[test]
    fn stealing_is_advised_only_where_work_is_there_to_be_spread() {
        let starved = stats(50 * SECOND, 50 * SECOND, 50 * SECOND, SECOND, 100 * SECOND);
        let iterated = Stats { is_iterated: true, ..starved.clone() };
        let few = Stats { samples: 20, ..starved.clone() };
        let even = Stats { imbalance: 1.05, ..starved };
        for (stats, why) in [(iterated, "iterator"), (few, "20 samples are few"), (even, "evenly")]
        {
            says(&stats, &["nothing to do", why]);
            assert!(!stats.explain().contains("stealing"), "{why}");
        }
    }

    #[test]
    fn a_single_long_wait_is_told_apart_and_an_idle_loop_too() {
        let mut once = stats(50 * SECOND, 5 * SECOND, 50 * SECOND, 0, 0);
        once.consumer.waits.max_ns = 4 * SECOND;
        says(&once, &["single wait of 4.00 s"]);
        let empty = stats(100, 50 * SECOND, SECOND, 99 * SECOND, 0);
        says(&empty, &["what is measured is the hand-over"]);
    }

    #[test]
    fn much_padding_is_told_and_little_is_not() {
        use crate::measure::PaddedStats;

        let mut padded = stats(99 * SECOND, SECOND, 50 * SECOND, 0, 0);
        padded.padded = PaddedStats { values: 60, places: 100 };
        says(&padded, &["40 % of what padded fields deliver is padding", "`buckets`"]);
        padded.padded = PaddedStats { values: 95, places: 100 };
        assert!(!padded.explain().contains("padding"));
    }

    #[test]
    fn errors_and_lost_workers_are_not_kept_quiet() {
        let mut bad = stats(99 * SECOND, SECOND, 50 * SECOND, 0, 0);
        bad.errors = 3;
        bad.lost_workers = 1;
        says(&bad, &["3 samples could not be made", "1 workers hang"]);
    }
}
