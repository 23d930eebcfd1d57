//! Answers about scaling laws.

use std::path::Path;

use feedline_bench::chart::{AxisKind, Stroke};
use feedline_bench::experiment::Unit;
use feedline_model::{ArgumentError, Fit, Usl, amdahl, fit_usl, gustafson};

use super::Refused;
use super::answer::{Answer, AnswerCurve, CurveLine};
use super::arguments::Scaling;

/// Numbers of workers for a curve around one of them: at most some hundred.
fn around(workers: u32) -> impl Iterator<Item = u32> {
    let most = workers.saturating_mul(2).max(8);
    let step = (most / 64).max(1);
    (1..=most).filter(move |n| n % step == 0 || *n == 1)
}

fn curve(
    title: &str,
    workers: u32,
    speedup: impl Fn(u32) -> Result<f64, ArgumentError>,
) -> Result<AnswerCurve, ArgumentError> {
    let points = around(workers).map(|n| Ok((f64::from(n), speedup(n)?)));
    let points = points.collect::<Result<Vec<_>, ArgumentError>>()?;
    let ideal = around(workers).map(|n| (f64::from(n), f64::from(n))).collect();
    let here = vec![(f64::from(workers), speedup(workers)?)];
    Ok(AnswerCurve {
        title: title.into(),
        x: ("workers", Unit::Whole, AxisKind::Linear),
        y: ("times as fast as one", Unit::Times),
        lines: vec![
            CurveLine::new("speed-up", Stroke::Solid, points),
            CurveLine::new("here", Stroke::Measured, here),
            CurveLine::new("one for one", Stroke::Ideal, ideal),
        ],
    })
}

pub(super) fn amdahl_law(scaling: Scaling) -> Result<Answer, ArgumentError> {
    let Scaling { serial, workers } = scaling;
    let speedup = amdahl(serial, workers)?;
    let next = amdahl(serial, workers.saturating_add(1))?;
    let limit = (serial > 0.0).then(|| 1.0 / serial);
    let most = limit.map_or("without bound".into(), |limit| format!("at most {limit:.1} times"));
    Ok(Answer::new(
        "amdahl",
        format!("Amdahl's law: {workers} workers, {:.1} % of the work is serial", serial * 100.0),
    )
    .figure("speedup", "times as fast as one worker", Unit::Times, speedup)
    .figure("efficiency", "of what the workers could do", Unit::Share, speedup / f64::from(workers))
    .maybe("limit", "times as fast with any number of workers", Unit::Times, limit)
    .figure("one_more", "what one more worker brings", Unit::Share, next / speedup - 1.0)
    .says(format!("More workers speed it up {most}."))
    .told(
        "speed-up = 1 / (serial + (1 - serial) / workers)",
        "Work of fixed size; workers do not hinder each other.",
    )
    .curve(curve("The serial share bounds the speed-up", workers, |n| amdahl(serial, n))?))
}

pub(super) fn gustafson_law(scaling: Scaling) -> Result<Answer, ArgumentError> {
    let Scaling { serial, workers } = scaling;
    let speedup = gustafson(serial, workers)?;
    Ok(Answer::new(
        "gustafson",
        format!(
            "Gustafson's law: {workers} workers, {:.1} % of their time is serial",
            serial * 100.0
        ),
    )
    .figure("speedup", "times as much work in the time of one", Unit::Times, speedup)
    .figure("efficiency", "of what the workers could do", Unit::Share, speedup / f64::from(workers))
    .says(format!("In the time of one, {workers} do {speedup:.2} times as much."))
    .told(
        "speed-up = serial + (1 - serial) * workers",
        "Work that grows with the workers, as epochs do not; more batches in the same time do.",
    )
    .curve(curve("Work that grows scales on", workers, |n| gustafson(serial, n))?))
}

pub(super) fn usl(contention: f64, coherence: f64, workers: u32) -> Result<Answer, ArgumentError> {
    let law = Usl::new(contention, coherence)?;
    let speedup = law.speedup(workers)?;
    let answer = Answer::new(
        "usl",
        format!("Universal scalability law: contention {contention}, coherence {coherence}"),
    )
    .figure(
        "speedup",
        &format!("times as fast as one, with {workers} workers"),
        Unit::Times,
        speedup,
    )
    .figure(
        "efficiency",
        "of what the workers could do",
        Unit::Share,
        speedup / f64::from(workers),
    );
    let curve =
        curve("More workers help until they hinder each other", workers, |n| law.speedup(n))?;
    Ok(best(answer, &law)?.curve(curve))
}

/// What both ways to the law have in common.
fn best(answer: Answer, law: &Usl) -> Result<Answer, ArgumentError> {
    let best = law.best_workers();
    let says = match best {
        Some(best) => {
            format!("{best} workers are fastest, {:.2} times as fast as one.", law.speedup(best)?)
        }
        None => "No number of workers is too large.".into(),
    };
    Ok(answer
        .maybe("best_workers", "fastest number of workers", Unit::Whole, best.map(f64::from))
        .says(says)
        .told(
            "speed-up = n / (1 + contention * (n - 1) + coherence * n * (n - 1))",
            "A law of three numbers: good between and a little beyond the measured points, not far beyond.",
        ))
}

pub(super) fn fitted(path: &Path, workers: u32) -> Result<Answer, Refused> {
    let text = std::fs::read_to_string(path).map_err(|error| Refused::File(path.into(), error))?;
    let rates =
        read_rates(&text).map_err(|why| Refused::Words(format!("{}: {why}", path.display())))?;
    let Some(fit) = fit_usl(&rates)? else {
        let why = "rates of at least three numbers of workers are needed";
        return Err(Refused::Words(format!("{}: {why}", path.display())));
    };
    let Fit { single, law, error, margin } = fit;
    let margin = |of: fn(&feedline_model::Margin) -> f64| margin.as_ref().map(of);
    let most = rates.iter().map(|(n, _)| *n).max().unwrap_or(1).max(workers);
    let points = around(most).map(|n| Ok((f64::from(n), fit.rate(n)?)));
    let points = points.collect::<Result<Vec<_>, ArgumentError>>()?;
    let measured = rates.iter().map(|(n, rate)| (f64::from(*n), *rate)).collect();
    let answer =
        Answer::new("usl", format!("Universal scalability law, fitted to {} rates", rates.len()))
            .figure("single", "rate of one worker", Unit::Count, single)
            .maybe(
                "single_margin",
                "half the width of its 95 % interval",
                Unit::Count,
                margin(|it| it.single),
            )
            .figure(
                "contention",
                "share of the work done by one at a time",
                Unit::Plain,
                law.contention(),
            )
            .maybe(
                "contention_margin",
                "half the width of its 95 % interval",
                Unit::Plain,
                margin(|it| it.contention),
            )
            .figure("coherence", "cost of each pair of workers", Unit::Plain, law.coherence())
            .maybe(
                "coherence_margin",
                "half the width of its 95 % interval",
                Unit::Plain,
                margin(|it| it.coherence),
            )
            .figure("error", "how far the law is off the rates, in the mean", Unit::Share, error)
            .figure(
                "rate",
                &format!("rate to expect of {workers} workers"),
                Unit::Count,
                fit.rate(workers)?,
            );
    Ok(best(answer, &law)?.curve(AnswerCurve {
        title: "Measured rates and the fitted law".into(),
        x: ("workers", Unit::Whole, AxisKind::Linear),
        y: ("per second", Unit::Count),
        lines: vec![
            CurveLine::new("fitted", Stroke::Fitted, points),
            CurveLine::new("measured", Stroke::Measured, measured),
        ],
    }))
}

/// Lines of `workers,throughput`; a first line of words is a heading.
fn read_rates(text: &str) -> Result<Vec<(u32, f64)>, String> {
    let mut rates = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || (number == 0 && !line.starts_with(|c: char| c.is_ascii_digit())) {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let parsed = match fields[..] {
            [workers, rate] => workers.parse().ok().zip(rate.parse().ok()),
            _ => None,
        };
        rates.push(
            parsed.ok_or(format!("line {} is `{line}`; write workers,throughput", number + 1))?,
        );
    }
    Ok(rates)
}
