//! How fast the simulator is: a thousand workers, three stages, one core.

use feedline_bench::{BoxError, Contest, Digest, Outcome};
use feedline_core::simulate::{Cost, Resource, Simulation};

use crate::bench::Bench;

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    let samples = bench.size(1_000_000, 50_000);
    let settings = bench.settings(
        "simulated stage completions: 1,000 workers, 3 stages, one core",
        "completions",
        &["rate:own>=2e6", "rate:shared>=2e6"],
    )?;
    let mut own = Simulation::new(samples, 256);
    (own.workers, own.prefetch) = (1000, 16);
    own.stage("load", Cost::exponential(0.004)?);
    own.stage("decode", Cost::log_normal(0.010, 0.7)?);
    own.stage("transform", Cost::uniform(0.001, 0.003)?);
    own.step = Cost::constant(0.001)?;
    let mut shared = own.clone();
    shared.resources.push(Resource { capacity: 128.0, each: 1.0, shared_by_ranks: false });
    shared.stages[1].uses = Some(0);
    let run = |simulation: &Simulation| -> Result<Outcome, BoxError> {
        let outcome = simulation.run()?;
        let digest = Digest::from_text(format!("{} samples", outcome.samples));
        Ok(Outcome::items(outcome.completions).digest(digest))
    };
    let contest =
        Contest::new(settings).side("own", |_| run(&own)).side("shared", |_| run(&shared));
    bench.hold(contest)?;
    Ok(())
}
