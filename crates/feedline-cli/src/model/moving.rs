//! Answers about bytes: how many are held, and what it costs to move them.

use feedline_bench::chart::{AxisKind, Stroke};
use feedline_bench::experiment::Unit;
use feedline_model::{ArgumentError, Link, SharedBandwidth, memory, pinning};

use super::Refused;
use super::answer::{Answer, AnswerCurve, CurveLine};

/// A number of bytes that was written with a unit.
fn whole(name: &str, bytes: f64) -> Result<u64, Refused> {
    match (0.0..=9.2e18).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err(Refused::Words(format!(
            "{name} is {bytes}; pass a number of bytes that is at least 0"
        ))),
    }
}

/// What was asked about memory.
pub(super) struct Held {
    pub(super) batch_size: u32,
    pub(super) sample_bytes: f64,
    pub(super) stages: u32,
    pub(super) depth: u32,
    pub(super) workers: Option<u32>,
    pub(super) private: f64,
    pub(super) limit: Option<f64>,
}

pub(super) fn held(asked: &Held) -> Result<Answer, Refused> {
    let Held { batch_size, stages, depth, .. } = *asked;
    let sample = whole("sample_bytes", asked.sample_bytes)?;
    let all = memory::batches(batch_size, sample, stages, depth)?;
    let batch = sample.saturating_mul(u64::from(batch_size));
    let mut answer =
        Answer::new("memory", format!("Batches of {batch_size} samples, {depth} read ahead"))
            .figure("batch", "one batch", Unit::Bytes, batch as f64)
            .figure("batches", "all batches that are under way", Unit::Bytes, all as f64);
    if let Some(workers) = asked.workers {
        let private = whole("private", asked.private)?;
        let processes = memory::processes(workers, private, batch, depth)?;
        answer = answer.figure(
            "processes",
            &format!("{workers} worker processes and their batches"),
            Unit::Bytes,
            processes as f64,
        );
    }
    if let Some(limit) = asked.limit {
        let largest = memory::largest_batch(whole("limit", limit)?, sample, stages, depth)?;
        answer = answer.figure(
            "largest_batch",
            "samples of the largest batch that fits",
            Unit::Whole,
            f64::from(largest),
        );
    }
    Ok(answer.told(
        "bytes = batch_size * sample_bytes * (stages - 1 + depth); processes: workers * (private + depth * batch)",
        "Of batches alone: the dataset, the program and its libraries come on top.",
    ))
}

pub(super) fn transfer(bytes: f64, latency: f64, bandwidth: f64) -> Result<Answer, ArgumentError> {
    let link = Link::new(latency, bandwidth)?;
    let (time, used) = (link.time(bytes)?, link.utilisation(bytes)?);
    let needed = link.needed_in_flight(bytes)?;
    let points = (8..=32).map(|power| {
        let size = f64::from(power).exp2();
        Ok((size, link.utilisation(size)?))
    });
    let points = points.collect::<Result<Vec<_>, ArgumentError>>()?;
    Ok(Answer::new(
        "transfer",
        format!(
            "A message of {} at {}",
            Unit::Bytes.text(bytes),
            Unit::BytesPerSecond.text(bandwidth)
        ),
    )
    .figure("time", "time of a message", Unit::Seconds, time)
    .figure("utilisation", "share of the time in which bytes move", Unit::Share, used)
    .figure(
        "throughput",
        "bytes per second, one message after the other",
        Unit::BytesPerSecond,
        bytes / time,
    )
    .figure("in_flight", "messages under way that use the whole bandwidth", Unit::Plain, needed)
    .says(format!("{:.0} messages at a time would use all of the bandwidth.", needed.ceil()))
    .told(
        "time = latency + bytes / bandwidth",
        "One sender; what several share is `feedline model bandwidth`.",
    )
    .curve(AnswerCurve {
        title: "Large messages use the bandwidth, small ones the latency".into(),
        x: ("size of a message", Unit::Bytes, AxisKind::Log),
        y: ("share of the bandwidth", Unit::Share),
        lines: vec![CurveLine::new("utilisation", Stroke::Solid, points)],
    }))
}

pub(super) fn bandwidth(
    total: f64,
    contention: f64,
    users: u32,
    demand: Option<f64>,
) -> Result<Answer, ArgumentError> {
    let shared = SharedBandwidth::new(total, contention)?;
    let each = shared.of_each(users)?;
    let saturated = demand.map(|demand| shared.saturated_by(demand)).transpose()?;
    let most = users.saturating_mul(2).clamp(8, 4096);
    let points = (1..=most).step_by((most / 64).max(1) as usize);
    let points = points.map(|n| Ok((f64::from(n), shared.of_all(n)?)));
    let points = points.collect::<Result<Vec<_>, ArgumentError>>()?;
    let mut answer =
        Answer::new("bandwidth", format!("{users} share {}", Unit::BytesPerSecond.text(total)))
            .figure("each", "what each gets", Unit::BytesPerSecond, each)
            .figure("all", "what all get together", Unit::BytesPerSecond, shared.of_all(users)?);
    if let (Some(demand), Some(most)) = (demand, saturated) {
        answer = answer
            .figure(
                "saturated_by",
                "users that still get what they would use alone",
                Unit::Whole,
                f64::from(most),
            )
            .says(format!(
                "Up to {most} get the {} that each would use alone.",
                Unit::BytesPerSecond.text(demand)
            ));
    }
    Ok(answer
        .told(
            "each = total / users / (1 + contention * (users - 1))",
            "Equal users. Contention is 0 for memory and flash, some hundredths for random reads of a spinning disk.",
        )
        .curve(AnswerCurve {
            title: "What all users get together".into(),
            x: ("users", Unit::Whole, AxisKind::Linear),
            y: ("bytes per second", Unit::BytesPerSecond),
            lines: vec![CurveLine::new("all", Stroke::Solid, points)],
        }))
}

/// What was asked about page-locked memory.
pub(super) struct Pinned {
    pub(super) batch_bytes: f64,
    pub(super) depth: u32,
    pub(super) bandwidths: (f64, f64),
    pub(super) step: Option<f64>,
    pub(super) memory: f64,
}

pub(super) fn page_locked(asked: &Pinned) -> Result<Answer, Refused> {
    let batch = whole("batch_bytes", asked.batch_bytes)?;
    let memory = whole("memory", asked.memory)?;
    let gains = pinning(batch, asked.depth, asked.bandwidths, asked.step, memory)?;
    let saved = Unit::Seconds.text(gains.saved);
    let caution =
        if gains.share > 0.25 { " Above a quarter the system itself gets slow." } else { "" };
    Ok(Answer::new("pinning", format!("Page-locked batches of {}", Unit::Bytes.text(batch as f64)))
        .figure("speedup", "times as fast a copy to the device", Unit::Times, gains.speedup)
        .figure("saved", "time saved for each batch", Unit::Seconds, gains.saved)
        .figure("locked", "bytes that are locked", Unit::Bytes, gains.locked as f64)
        .figure("share", "of the machine's memory", Unit::Share, gains.share)
        .says(format!(
            "Each step begins {saved} sooner, for {:.1} % of the memory.{caution}",
            gains.share * 100.0
        ))
        .told(
            "saved = batch / pageable - max(0, batch / pinned - step beside which it is copied)",
            "Bandwidths as measured on the device; without a step the loop waits for the copy.",
        ))
}
