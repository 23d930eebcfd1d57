//! What came out of a simulation.

use serde::Serialize;

/// What happened, in seconds, samples and bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// From the start to the end of the last step of all ranks.
    pub duration: f64,
    /// Samples delivered, by all ranks.
    pub samples: u64,
    /// Batches delivered, by all ranks.
    pub batches: u64,
    /// Each training loop.
    pub ranks: Vec<SimulatedRank>,
    /// Each stage, over all workers; the last one is collating, if there is that.
    pub stages: Vec<SimulatedStage>,
    /// The mean share of time in which a worker had a job.
    pub utilisation: f64,
    /// The longest busy time of a worker over the mean.
    pub imbalance: f64,
    /// Stage completions that were simulated.
    pub completions: u64,
}

impl Simulated {
    /// Samples per second of all ranks together.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        if self.duration > 0.0 { self.samples as f64 / self.duration } else { f64::INFINITY }
    }

    /// The mean share of time in which a training loop waited for its loader.
    #[must_use]
    pub fn wait_share(&self) -> f64 {
        let waits: f64 = self.ranks.iter().map(|rank| rank.wait).sum();
        if self.duration > 0.0 { waits / self.duration / self.ranks.len() as f64 } else { 0.0 }
    }
}

/// One training loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedRank {
    /// Seconds from the start to its first batch.
    pub first_batch: f64,
    /// Seconds it waited for batches, the first one included.
    pub wait: f64,
    /// Seconds it took batches over.
    pub handover: f64,
    /// Seconds of its steps.
    pub step: f64,
    /// Seconds it waited for other ranks, and exchanged.
    pub exchange: f64,
    /// The mean number of finished batches that waited for it.
    pub ready: f64,
    /// The most bytes that were undelivered or idle.
    pub peak_bytes: u64,
}

/// One stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedStage {
    /// Its name.
    pub name: String,
    /// How often it was done.
    pub count: u64,
    /// Seconds that workers spent in it.
    pub busy: f64,
}
