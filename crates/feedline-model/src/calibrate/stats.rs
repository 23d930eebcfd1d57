//! What a loader says about itself, as an observation.

use serde::{Deserialize, Serialize};

use super::{Assignment, Observation};
use crate::argument::ArgumentError;

/// The fields of `loader.stats()` that an observation is made of, of both loaders and all modes; others are passed
/// over. In Rust it is made of the engine's `Stats`, elsewhere it is read from their JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoaderStats {
    /// `native`, `inline`, `thread` or `process`: who makes batches.
    pub mode: String,
    /// Workers; 0: the training loop.
    pub num_workers: u32,
    /// Since the first epoch was begun.
    pub elapsed_ns: u64,
    /// Batches delivered.
    pub batches: u64,
    /// Samples delivered.
    pub samples: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// The training loop's side.
    pub consumer: LoopStats,
    /// Each stage of the work.
    pub stages: Vec<StageTotal>,
    /// The way of a batch, in stretches.
    pub batch_parts: BatchTotal,
    /// Where bytes are.
    pub memory: MemoryTotal,
    /// Batches ahead, of all workers together.
    pub prefetch: u64,
}

/// The training loop's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopStats {
    /// Between batches: the training step.
    pub step_ns: u64,
    /// Waiting for batches.
    pub wait_ns: u64,
    /// Handing over batches that were ready.
    pub handover_ns: u64,
}

/// One stage, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageTotal {
    /// `load`, `decode`, `transform`; `fetch`, `collate`, `transport`.
    pub stage: String,
    /// Time spent in it.
    pub total_ns: u64,
}

/// The stretch of a batch's way that is worked on as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchTotal {
    /// Putting batches together.
    pub collating_ns: u64,
}

/// Bytes of the loader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryTotal {
    /// The most that were undelivered or idle.
    pub peak: u64,
}

/// Stages that are done to a batch as a whole.
const OF_BATCHES: [&str; 2] = ["collate", "transport"];

impl LoaderStats {
    /// How the loader gives out work.
    #[must_use]
    pub fn assignment(&self) -> Assignment {
        if self.mode == "native" { Assignment::Samples } else { Assignment::Batches }
    }

    /// What the loader did, as an observation. Neither processor time nor the interpreter's lock is in it: a loader does
    /// not know them, a probe does.
    ///
    /// # Errors
    ///
    /// If no batch was delivered, or no stage was timed.
    pub fn observation(&self) -> Result<Observation, ArgumentError> {
        let too_few = |name| ArgumentError::TooFew { name, got: 0, least: 1 };
        if self.batches == 0 || self.samples == 0 {
            return Err(too_few("stats: batches delivered"));
        }
        let total = |of_batches: bool| -> u64 {
            let stages = self.stages.iter();
            stages
                .filter(|it| OF_BATCHES.contains(&it.stage.as_str()) == of_batches)
                .map(|it| it.total_ns)
                .sum()
        };
        if total(false) == 0 {
            return Err(too_few("stats: times of the stages that make samples"));
        }
        let (batches, samples) = (self.batches as f64, self.samples as f64);
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let collating = match self.assignment() {
            Assignment::Samples => self.batch_parts.collating_ns,
            Assignment::Batches => total(true),
        };
        let hands = u64::from(self.num_workers.max(1));
        let whole = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(Observation {
            workers: self.num_workers,
            batch_size: (samples / batches).round().max(1.0) as u32,
            prefetch: whole((self.prefetch / hands).max(1)),
            batches: whole(self.batches),
            step_s: seconds(self.consumer.step_ns) / batches,
            seconds: seconds(self.elapsed_ns),
            wait_s: seconds(self.consumer.wait_ns + self.consumer.handover_ns),
            fetch_s: Some(seconds(total(false)) / samples),
            collate_s: Some(seconds(collating) / batches),
            handover_s: Some(seconds(self.consumer.handover_ns) / batches),
            bytes: self.bytes,
            base_bytes: Some(0),
            peak_bytes: Some(self.memory.peak),
            ..Observation::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(mode: &str) -> LoaderStats {
        let stage = |stage: &str, total_ns| StageTotal { stage: stage.into(), total_ns };
        LoaderStats {
            mode: mode.into(),
            num_workers: 4,
            elapsed_ns: 2_000_000_000,
            batches: 10,
            samples: 640,
            bytes: 640_000,
            consumer: LoopStats { step_ns: 1_000_000_000, wait_ns: 900_000_000, handover_ns: 0 },
            stages: match mode {
                "native" => vec![stage("load", 640_000_000), stage("decode", 1_280_000_000)],
                _ => vec![
                    stage("fetch", 1_920_000_000),
                    stage("collate", 300_000_000),
                    stage("transport", 100_000_000),
                ],
            },
            batch_parts: BatchTotal { collating_ns: 5_000_000 },
            prefetch: 8,
            ..LoaderStats::default()
        }
    }

    #[test]
    fn times_are_those_of_a_sample_and_of_a_batch() {
        let native = stats("native").observation().unwrap();
        assert_eq!((native.workers, native.batch_size, native.prefetch), (4, 64, 2));
        assert!((native.fetch_s.unwrap() - 0.003).abs() < 1e-12);
        assert!((native.collate_s.unwrap() - 0.0005).abs() < 1e-12);
        assert!((native.step_s - 0.1).abs() < 1e-12 && (native.wait_s - 0.9).abs() < 1e-12);
        let process = stats("process").observation().unwrap();
        assert!((process.fetch_s.unwrap() - 0.003).abs() < 1e-12);
        assert!((process.collate_s.unwrap() - 0.04).abs() < 1e-12);
        assert_eq!(stats("thread").assignment(), Assignment::Batches);
    }

    #[test]
    fn stats_of_nothing_say_what_is_missing() {
        let nothing = LoaderStats { batches: 0, ..stats("native") };
        assert_eq!(
            nothing.observation().unwrap_err().to_string(),
            "stats: batches delivered has 0 values; pass at least 1"
        );
        let untimed = LoaderStats { stages: Vec::new(), ..stats("native") };
        assert!(untimed.observation().unwrap_err().to_string().contains("times of the stages"));
    }
}
