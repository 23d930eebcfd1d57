//! The end of an epoch: whether the training loop notices it.
//!
//! The gap is the time from the end of one epoch (its iterator says so) to the first batch of the next;
//! the interval is the time from one batch to the next within an epoch. A loop that takes no step
//! at all waits for the workers all the time; it should wait no longer at an epoch's end.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline_bench::{Agreement, BoxError, Contest, Outcome, Run};
use feedline_core::{Loader, LoaderBuilder};

use crate::bench::Bench;
use crate::rows::Rows;
use crate::task::{Naps, task_loader};

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    let naps = Arc::new(Naps(vec![Duration::from_millis(2); 320]));
    // So many rows that each epoch's shuffle is a table that has to be made, and so many that it is not.
    let (few, many) = (Arc::new(Rows::random(16_384)), Arc::new(Rows::random(1_000_000)));
    let epochs = bench.size(20, 5);
    let sides = ["naps", "naps, step", "16,384 rows", "1,000,000 rows"];
    let required = sides.map(|side| format!("gap_intervals:{side}<=1"));
    let mut settings = bench.settings(
        "from the end of an epoch to the next one's first batch",
        "batches",
        &required.each_ref().map(String::as_str),
    )?;
    settings.agreement =
        Agreement::unchecked("each side is a work of its own, compared with itself");
    let rows = |rows: &Arc<Rows>| Loader::builder(Arc::clone(rows)).batch_size(256).workers(1);
    let naps = || task_loader(&naps).batch_size(32).workers(8);
    let contest = Contest::new(settings)
        .side(sides[0], |run| several(run, naps(), epochs, Duration::ZERO))
        .side(sides[1], |run| several(run, naps(), epochs, Duration::from_millis(2)))
        .side(sides[2], |run| several(run, rows(&few), 10 * epochs, Duration::ZERO))
        .side(sides[3], |run| several(run, rows(&many), epochs.min(6), Duration::ZERO));
    bench.hold(contest)?;
    Ok(())
}

/// Takes some epochs, with a step after each batch.
fn several(
    run: &mut Run<'_>,
    loader: LoaderBuilder,
    epochs: u64,
    step: Duration,
) -> Result<Outcome, BoxError> {
    let loader = loader.shuffle(1).epochs(epochs).build()?;
    let (mut gaps, mut intervals) = (Vec::new(), Vec::new());
    let mut ended: Option<Instant> = None;
    run.start()?;
    for _ in 0..epochs {
        let mut last: Option<Instant> = None;
        for batch in loader.epoch() {
            let now = Instant::now();
            match last {
                Some(last) => intervals.push((now - last).as_secs_f64()),
                None => gaps.extend(ended.map(|ended| (now - ended).as_secs_f64())),
            }
            last = Some(now);
            black_box(batch?);
            if !step.is_zero() {
                std::thread::sleep(step);
            }
        }
        ended = Some(Instant::now());
    }
    run.stop()?;
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
    let (gap, interval) = (mean(&gaps), mean(&intervals));
    Ok(Outcome::items(epochs * loader.len())
        .figure("gap_s", gap)
        .figure("interval_s", interval)
        .figure("gap_intervals", gap / interval))
}
