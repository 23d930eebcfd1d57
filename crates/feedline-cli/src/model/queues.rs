//! Answers about queues.

use feedline_bench::chart::{AxisKind, Stroke};
use feedline_bench::experiment::Unit;
use feedline_model::{ArgumentError, Queue, cheapest_workers, little};

use super::answer::{Answer, AnswerCurve, CurveLine};
use super::arguments::Rates;

/// Which of the four queues.
pub(super) struct QueueKind {
    pub(super) name: &'static str,
    pub(super) servers: u32,
    pub(super) spread: f64,
}

pub(super) fn queue(kind: QueueKind, rates: Rates) -> Result<Answer, ArgumentError> {
    let Rates { arrival, service } = rates;
    let QueueKind { name, servers, spread } = kind;
    let queue = Queue::mgc(arrival, service, servers, spread)?;
    let letters = match name {
        "mm1" => "M/M/1",
        "mmc" => "M/M/c",
        "mg1" => "M/G/1",
        _ => "M/G/c",
    };
    let serve = if servers == 1 {
        "1 server does".into()
    } else {
        format!("each of {servers} servers does")
    };
    let title = format!("{letters}: {arrival} arrive per second, {serve} {service}");
    let percent = queue.utilisation() * 100.0;
    let capacity = service * f64::from(servers);
    let points = (1..=39).map(|step| {
        let arrival = capacity * f64::from(step) / 40.0;
        Ok((arrival, Queue::mgc(arrival, service, servers, spread)?.mean_wait()))
    });
    let points = points.collect::<Result<Vec<_>, ArgumentError>>()?;
    let more = Queue::mgc(arrival, service, servers.saturating_add(1), spread)?;
    let answer = Answer::new(name, title)
        .figure("utilisation", "share of time in which a server is busy", Unit::Share, queue.utilisation())
        .figure(
            "probability_of_waiting",
            "share of arrivals that find all servers busy",
            Unit::Share,
            queue.probability_of_waiting(),
        )
        .figure("mean_wait", "mean time until service begins", Unit::Seconds, queue.mean_wait())
        .figure("mean_time", "mean time from arrival to departure", Unit::Seconds, queue.mean_time())
        .figure("mean_in_queue", "mean number waiting", Unit::Plain, queue.mean_in_queue())
        .figure("mean_in_system", "mean number waiting or being served", Unit::Plain, queue.mean_in_system())
        .says(format!(
            "Servers are busy {percent:.0} % of the time. One more would make the mean wait {} instead of {}.",
            Unit::Seconds.text(more.mean_wait()),
            Unit::Seconds.text(queue.mean_wait())
        ));
    let limits = match name {
        "mm1" | "mmc" => {
            "Poisson arrivals, exponential service times. A worker that asks for the next sample when it is done makes no queue."
        }
        "mg1" => "Poisson arrivals; the means are exact for every distribution of service times.",
        _ => {
            "Poisson arrivals; within about a tenth for a spread up to 1 and some ten servers, too high for many servers with little load."
        }
    };
    let here = CurveLine::new("here", Stroke::Measured, vec![(arrival, queue.mean_wait())]);
    Ok(answer
        .told(
            "mean wait = C / (service * servers - arrival) * (1 + spread²) / 2, with Erlang's C",
            limits,
        )
        .curve(AnswerCurve {
            title: "Waiting grows without bound as the load nears 1".into(),
            x: ("arrivals per second", Unit::Count, AxisKind::Linear),
            y: ("mean wait", Unit::Seconds),
            lines: vec![CurveLine::new("mean wait", Stroke::Solid, points), here],
        }))
}

pub(super) fn little_law(
    number: Option<f64>,
    rate: Option<f64>,
    time: Option<f64>,
) -> Result<Answer, super::Refused> {
    let (number, rate, time) = match (number, rate, time) {
        (None, Some(rate), Some(time)) => (little::number(rate, time)?, rate, time),
        (Some(number), Some(rate), None) => (number, rate, little::time(number, rate)?),
        (Some(number), None, Some(time)) => (number, little::rate(number, time)?, time),
        _ => {
            return Err(super::Refused::Words(
                "give two of --number, --rate and --time; the third follows".into(),
            ));
        }
    };
    let seconds = Unit::Seconds.text(time);
    Ok(Answer::new("little", "Little's law: number inside = rate x time")
        .figure("number", "mean number inside", Unit::Plain, number)
        .figure("rate", "how many come, and go, per second", Unit::Count, rate)
        .figure("time", "mean time inside", Unit::Seconds, time)
        .says(format!(
            "For {} per second, each {seconds} under way, a buffer needs room for {} at least.",
            Unit::Count.text(rate),
            Unit::Plain.text(number.ceil())
        ))
        .told(
            "number = rate * time",
            "Holds in every system that is stable, for means over a long time.",
        ))
}

pub(super) fn workers(
    rates: Rates,
    spread: f64,
    worker_cost: f64,
    waiting_cost: f64,
) -> Result<Answer, ArgumentError> {
    let Rates { arrival, service } = rates;
    let found = cheapest_workers(arrival, service, spread, worker_cost, waiting_cost)?;
    let cost = |workers: u32| -> Option<(f64, f64)> {
        let queue = Queue::mgc(arrival, service, workers, spread).ok()?;
        let cost = worker_cost * f64::from(workers) + waiting_cost * queue.mean_in_queue();
        Some((f64::from(workers), cost))
    };
    let from = found.workers.saturating_sub(6).max(1);
    let points = (from..=found.workers.saturating_add(6)).filter_map(cost).collect();
    let here = vec![(f64::from(found.workers), found.cost)];
    Ok(Answer::new(
        "workers",
        format!("{arrival} are asked for per second, a worker makes {service}"),
    )
    .figure("workers", "workers that cost least", Unit::Whole, f64::from(found.workers))
    .figure("cost", "what they and the waiting cost per second", Unit::Plain, found.cost)
    .figure("wait", "mean wait of a request", Unit::Seconds, found.wait)
    .says(format!("{} workers cost least.", found.workers))
    .told(
        "cost = worker_cost * workers + waiting_cost * arrival * mean wait (M/G/c)",
        "As the queue with several servers: random arrivals.",
    )
    .curve(AnswerCurve {
        title: "Too few wait, too many idle".into(),
        x: ("workers", Unit::Whole, AxisKind::Steps),
        y: ("cost per second", Unit::Plain),
        lines: vec![
            CurveLine::new("cost", Stroke::Solid, points),
            CurveLine::new("cheapest", Stroke::Measured, here),
        ],
    }))
}
