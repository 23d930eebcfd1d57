//! Samples of very unequal cost on all cores: how well the policies balance them.

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use feedline_bench::Contest;
use feedline_core::PolicyKind;
use feedline_core::plan::Stream;

use crate::arithmetic::{chain, steps_in};
use crate::bench::Bench;
use crate::task::{Task, balanced, bare, drained, one_epoch};

const MEAN: Duration = Duration::from_micros(100);
const SIGMA: f64 = 1.0;

/// Samples of so many steps each.
struct Chains(Vec<u64>);

impl Chains {
    /// `n` samples whose steps are log-normal.
    fn lognormal(n: u64) -> Chains {
        // The mean of exp(sigma z) is exp(sigma^2 / 2).
        let scale = steps_in(MEAN) as f64 / (SIGMA * SIGMA / 2.0).exp();
        let steps = |index| (scale * (SIGMA * normal(index)).exp()) as u64;
        Chains((0..n).map(steps).collect())
    }
}

/// A standard normal number for each index (G. E. P. Box and M. E. Muller, 1958).
fn normal(index: u64) -> f64 {
    let mut stream = Stream::new(1, 0, index);
    let (radius, angle) = (1.0 - stream.unit_f64(), stream.unit_f64());
    (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
}

impl Task for Chains {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn make(&self, index: u64) -> u64 {
        chain(self.0[index as usize], index)
    }

    fn cost(&self, index: u64) -> Option<u64> {
        Some(self.0[index as usize])
    }
}

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    let chains = Arc::new(Chains::lognormal(bench.size(4_000, 1_000)));
    let (whole, halves) = (balanced(&*chains, 1), balanced(&*chains, 2));
    // 5 % above sum / 2, where the sum is what one thread takes, and where it is what two threads take
    // that work at the same time (they may share a cache, a core's units, a power budget).
    let mut settings = bench.settings(
        "CPU-bound samples of log-normal cost (sigma 1, mean 100 us), batches of 32, 2 workers",
        "samples",
        &[
            "seconds:steal/sum on 1 core<=0.525",
            "seconds:longest_first/sum on 1 core<=0.525",
            "seconds:steal/halves on 2 cores<=1.05",
            "seconds:longest_first/halves on 2 cores<=1.05",
        ],
    )?;
    settings.rounds = bench.size(15, 3) as u32;
    let mut contest = Contest::new(settings)
        .side("sum on 1 core", |run| bare(run, &*chains, &whole))
        .side("halves on 2 cores", |run| bare(run, &*chains, &halves));
    for policy in PolicyKind::ALL {
        let chains = &chains;
        contest = contest.side(policy.name(), move |run| {
            let loader = one_epoch(chains).batch_size(32).workers(2).policy(policy).build()?;
            let outcome = drained(run, &loader)?;
            let stats = loader.stats();
            Ok(outcome
                .figure("imbalance", stats.imbalance)
                .figure("efficiency", stats.efficiency)
                .figure("steals", stats.steals.won as f64))
        });
    }
    bench.hold(contest)?;
    Ok(())
}
