//! What a simulation says.

use std::path::Path;

use feedline_bench::experiment::Unit;
use feedline_bench::simulation::SimulationSettings;

use super::Refused;
use super::answer::Answer;

pub(super) fn simulate(path: &Path) -> Result<Answer, Refused> {
    let text = std::fs::read_to_string(path).map_err(|error| Refused::File(path.into(), error))?;
    let place = || path.display();
    let settings: SimulationSettings =
        toml::from_str(&text).map_err(|error| Refused::Words(format!("{}: {error}", place())))?;
    let refused = |error: String| Refused::Words(format!("{}: {error}", place()));
    let simulation = settings.simulation().map_err(|error| refused(error.to_string()))?;
    let it = simulation.run().map_err(|error| refused(error.to_string()))?;
    let ranks = it.ranks.len() as f64;
    let mean = |of: fn(&feedline_bench::simulation::SimulatedRank) -> f64| {
        it.ranks.iter().map(of).sum::<f64>() / ranks
    };
    let share = |seconds: f64| if it.duration > 0.0 { seconds / it.duration } else { 0.0 };
    let peak = it.ranks.iter().map(|rank| rank.peak_bytes).max().unwrap_or(0);
    let threads = simulation.workers + simulation.io_workers;
    let title = format!(
        "Simulated: {} workers on each of {}, {} samples",
        threads,
        if it.ranks.len() == 1 { "1 rank".into() } else { format!("{ranks} ranks") },
        it.samples
    );
    let mut answer = Answer::new("simulate", title)
        .figure("throughput", "samples per second of all ranks", Unit::Count, it.throughput())
        .figure("duration", "from the start to the last step", Unit::Seconds, it.duration)
        .figure(
            "first_batch",
            "until a rank has its first batch, in the mean",
            Unit::Seconds,
            mean(|rank| rank.first_batch),
        )
        .figure(
            "waiting_share",
            "share of time in which a loop waits for its loader",
            Unit::Share,
            it.wait_share(),
        )
        .figure(
            "exchange_share",
            "share in which a rank waits for others and exchanges",
            Unit::Share,
            share(mean(|rank| rank.exchange)),
        )
        .figure(
            "ready",
            "mean number of finished batches that wait for a loop",
            Unit::Plain,
            mean(|rank| rank.ready),
        )
        .figure(
            "utilisation",
            "share of time in which a worker has a job",
            Unit::Share,
            it.utilisation,
        )
        .figure(
            "imbalance",
            "longest busy time of a worker over the mean",
            Unit::Plain,
            it.imbalance,
        )
        .figure(
            "peak_bytes",
            "most bytes of a rank that were undelivered or idle",
            Unit::Bytes,
            peak as f64,
        )
        .figure("samples", "samples delivered", Unit::Whole, it.samples as f64)
        .figure("batches", "batches delivered", Unit::Whole, it.batches as f64);
    let busy: f64 = it.stages.iter().map(|stage| stage.busy).sum();
    for stage in &it.stages {
        let words = format!("share of the workers' time in stage `{}`", stage.name);
        let share = if busy > 0.0 { stage.busy / busy } else { 0.0 };
        answer = answer.figure(&format!("stage_{}", stage.name), &words, Unit::Share, share);
    }
    let longest = it.stages.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
    let says = match longest {
        Some(stage) if it.wait_share() > 0.05 => format!(
            "Training loops wait {:.0} % of the time; most of the workers' time is `{}`.",
            it.wait_share() * 100.0,
            stage.name
        ),
        _ => format!("Training loops wait {:.0} % of the time.", it.wait_share() * 100.0),
    };
    Ok(answer.says(says).told(
        "event by event, with the engine's own read-ahead and scheduling policies on a virtual clock",
        "Left out are the machine's caches and scheduler, and what a wake-up costs.",
    ))
}
