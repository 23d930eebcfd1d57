//! Answers about a loader as a line of stages, and about how evenly its work is shared.

use feedline_bench::chart::{AxisKind, Stroke};
use feedline_bench::experiment::Unit;
use feedline_model::{ArgumentError, Stage, Tandem, expected_imbalance, imbalance};

use super::answer::{Answer, AnswerCurve, CurveLine};
use super::arguments::{LoadingArguments, StageText};

pub(super) fn loading(asked: LoadingArguments) -> Result<Answer, ArgumentError> {
    let at = |workers: u32| {
        let LoadingArguments { batch_size, prefetch, cost, spread, step, .. } = asked;
        feedline_model::Loading::new(workers, batch_size, prefetch, cost, spread, step)
    };
    let here = at(asked.workers)?;
    let knee = here.knee();
    let most = knee.unwrap_or(0.0).max(f64::from(asked.workers)) * 1.5;
    let most = (most.ceil() as u32).clamp(8, 4096);
    let step = (most / 64).max(1);
    let counts = (1..=most).filter(|n| n % step == 0 || *n == 1);
    let points = counts.map(|n| Ok((f64::from(n), at(n)?.throughput())));
    let points = points.collect::<Result<Vec<_>, ArgumentError>>()?;
    let one_more = here.one_more()?;
    let says = match knee {
        Some(knee) if f64::from(asked.workers) < knee => format!(
            "The loop waits {:.0} % of its time. {:.0} workers would be just enough; one more brings {:.0} %.",
            here.waiting_share() * 100.0,
            knee.ceil(),
            one_more * 100.0
        ),
        Some(knee) => {
            format!("The training step decides; {:.0} workers would be just enough.", knee.ceil())
        }
        None => format!(
            "Without a step the loader decides; one more worker brings {:.0} %.",
            one_more * 100.0
        ),
    };
    let title = format!(
        "A loader of {} workers: samples of {}, batches of {}, steps of {}",
        asked.workers,
        Unit::Seconds.text(asked.cost),
        asked.batch_size,
        Unit::Seconds.text(asked.step)
    );
    let dot = vec![(f64::from(asked.workers), here.throughput())];
    let mut answer = Answer::new("loading", title)
        .figure("throughput", "samples per second", Unit::Count, here.throughput())
        .figure("wait", "mean wait of the training loop for a batch", Unit::Seconds, here.wait())
        .figure("waiting_share", "share of time in which the training loop waits", Unit::Share, here.waiting_share())
        .figure("ready", "mean number of finished batches that wait for it", Unit::Plain, here.ready())
        .figure("utilisation", "share of time in which a worker works", Unit::Share, here.utilisation())
        .maybe("knee", "workers that are just enough", Unit::Plain, knee)
        .figure("one_more", "what one more worker brings", Unit::Share, one_more)
        .says(says)
        .told(
            "a line of two stages (batch size * cost / workers, then the step) with room for the batches read ahead",
            "Workers that share nothing: no cores, disk or interpreter lock. `feedline model simulate` knows those.",
        )
        .curve(AnswerCurve {
            title: "More workers help up to the knee".into(),
            x: ("workers", Unit::Whole, AxisKind::Linear),
            y: ("samples per second", Unit::Count),
            lines: vec![
                CurveLine::new("throughput", Stroke::Solid, points),
                CurveLine::new("here", Stroke::Measured, dot),
            ],
        });
    answer.sliders = asked;
    Ok(answer)
}

pub(super) fn tandem(stages: &[StageText], buffers: &[u32]) -> Result<Answer, ArgumentError> {
    let stages = stages.iter().map(|it| Stage::new(it.time, it.spread, it.workers));
    let stages = stages.collect::<Result<Vec<_>, ArgumentError>>()?;
    let line = Tandem::new(&stages, buffers)?;
    let slowest = line.bottleneck();
    let mut answer = Answer::new("tandem", format!("A line of {} stages", stages.len()))
        .figure("throughput", "samples per second", Unit::Count, line.throughput())
        .figure(
            "bottleneck",
            "the slowest stage, counted from 1",
            Unit::Whole,
            slowest as f64 + 1.0,
        )
        .figure("latency", "mean time of a sample in the line", Unit::Seconds, line.latency())
        .figure(
            "parallelisation",
            "workers that work at a time, in the mean",
            Unit::Plain,
            line.parallelisation(),
        );
    for place in 0..stages.len() {
        let number = place + 1;
        answer = answer
            .maybe(
                &format!("utilisation_{number}"),
                &format!("share of time in which stage {number} works"),
                Unit::Share,
                line.utilisation(place),
            )
            .maybe(
                &format!("blocked_{number}"),
                &format!("share of time in which stage {number} cannot hand on"),
                Unit::Share,
                line.blocked(place),
            );
    }
    let alone = stages[slowest].capacity();
    let lost = 1.0 - line.throughput() / alone;
    answer = answer
        .says(format!("Stage {} is the bottleneck. Finite buffers cost {:.1} % of what it could pass.", slowest + 1, lost * 100.0))
        .told(
            "decomposition into pairs of stages (Gershwin 1987), rooms scaled by the spread",
            "Exact for two exponential stages of one worker; within some per cent for longer lines with spreads up to 1.",
        );
    if buffers.is_empty() {
        return Ok(answer);
    }
    let points = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64].map(|room| {
        let line = Tandem::new(&stages, &vec![room; buffers.len()])?;
        Ok((f64::from(room), line.throughput()))
    });
    let points = points.into_iter().collect::<Result<Vec<_>, ArgumentError>>()?;
    Ok(answer.curve(AnswerCurve {
        title: "What room between the stages is worth".into(),
        x: ("samples that fit between two stages", Unit::Whole, AxisKind::Steps),
        y: ("samples per second", Unit::Count),
        lines: vec![CurveLine::new("throughput", Stroke::Measured, points)],
    }))
}

pub(super) fn imbalance_of(times: &[f64]) -> Result<Answer, ArgumentError> {
    let shared = imbalance(times)?;
    let idle = (1.0 - shared.efficiency) * 100.0;
    Ok(Answer::new("imbalance", format!("How evenly {} workers shared the work", times.len()))
        .figure(
            "factor",
            "the longest time over the mean; 1 is perfect",
            Unit::Plain,
            shared.factor,
        )
        .figure(
            "efficiency",
            "work done over what could have been done",
            Unit::Share,
            shared.efficiency,
        )
        .says(format!("Workers idled {idle:.0} % of the time until the last was done."))
        .told(
            "factor = longest / mean",
            "Of work that ends together; work stealing and reading ahead hide it.",
        ))
}

pub(super) fn imbalance_to_expect(
    workers: u32,
    samples: u32,
    spread: f64,
) -> Result<Answer, ArgumentError> {
    let factor = expected_imbalance(workers, samples, spread)?;
    let points = (0..12).map(|power| {
        let samples = 1 << power;
        Ok((f64::from(samples), expected_imbalance(workers, samples, spread)?))
    });
    let points = points.collect::<Result<Vec<_>, ArgumentError>>()?;
    Ok(Answer::new("imbalance", format!("{workers} workers are given {samples} samples each, in advance"))
        .figure("factor", "the longest time over the mean, to expect", Unit::Plain, factor)
        .figure("efficiency", "work done over what could be done", Unit::Share, 1.0 / factor)
        .says(format!("The slowest worker takes {:.0} % longer than the mean.", (factor - 1.0) * 100.0))
        .told(
            "factor = 1 + z * spread / sqrt(samples), z the largest of so many normal numbers (Blom 1958)",
            "Independent samples; for few of a large spread the truth is higher.",
        )
        .curve(AnswerCurve {
            title: "More samples even out".into(),
            x: ("samples of each worker", Unit::Whole, AxisKind::Log),
            y: ("longest over mean", Unit::Plain),
            lines: vec![CurveLine::new("imbalance", Stroke::Measured, points)],
        }))
}
