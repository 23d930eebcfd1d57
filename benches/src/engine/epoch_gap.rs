//! The end of an epoch: whether the training loop notices it.
//!
//! The gap is the time from the end of one epoch (its iterator says so) to the first batch of the next;
//! the interval is the time from one batch to the next within an epoch. The workers are slower than the
//! loop, which takes a step of about a quarter of an interval after each batch: three quarters are left to
//! wait, within an epoch as between two. A loop without a step waits a whole interval every time, so it
//! is shown but nothing is required of it: its best is the bound itself.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline_bench::{Agreement, BoxError, Contest, Outcome, Run};
use feedline_core::{Loader, LoaderBuilder};

use crate::arithmetic::{chain, steps_in};
use crate::bench::Bench;
use crate::rows::Rows;
use crate::task::{Naps, task_loader};

/// How many batches before and after an epoch's end are looked at more closely.
const AROUND: usize = 5;

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    let naps = Arc::new(Naps(vec![Duration::from_millis(2); 320]));
    // So few rows that each epoch's shuffle may be a table that has to be made, and too many for that.
    let (few, many) = (Arc::new(Rows::random(16_384)), Arc::new(Rows::random(131_072)));
    let epochs = bench.size(20, 5);
    let mut settings = bench.settings(
        "from the end of an epoch to the next one's first batch",
        "batches",
        &["gap_intervals:naps<=1", "gap_intervals:16,384 rows<=1", "gap_intervals:131,072 rows<=1"],
    )?;
    settings.agreement =
        Agreement::unchecked("each side is a work of its own, compared with itself");
    let steps = steps_in(Duration::from_micros(3));
    let spin = || {
        black_box(chain(black_box(steps), 0));
    };
    let nap = || std::thread::sleep(Duration::from_millis(2));
    let rows = |rows: &Arc<Rows>| Loader::builder(Arc::clone(rows)).batch_size(256).workers(1);
    let naps = || task_loader(&naps).batch_size(32).workers(8);
    let contest = Contest::new(settings)
        .side("naps, no step", |run| several(run, naps(), epochs, || ()))
        .side("naps", |run| several(run, naps(), epochs, nap))
        .side("16,384 rows", |run| several(run, rows(&few), 16 * epochs, spin))
        .side("131,072 rows", |run| several(run, rows(&many), 2 * epochs, spin));
    bench.hold(contest)?;
    Ok(())
}

/// Takes some epochs, with a step after each batch.
fn several(
    run: &mut Run<'_>,
    loader: LoaderBuilder,
    epochs: u64,
    step: impl Fn(),
) -> Result<Outcome, BoxError> {
    let loader = loader.shuffle(1).epochs(epochs).build()?;
    let batches = loader.len() as usize;
    // The moments of all deliveries, and of the ends of epochs.
    let mut delivered = Vec::with_capacity(epochs as usize * batches);
    let mut ended = Vec::with_capacity(epochs as usize);
    run.start()?;
    for _ in 0..epochs {
        for batch in loader.epoch() {
            delivered.push(Instant::now());
            black_box(batch?);
            step();
        }
        ended.push(Instant::now());
    }
    run.stop()?;
    let mut intervals = Vec::new();
    for epoch in delivered.chunks(batches) {
        intervals.extend(epoch.windows(2).map(|pair| seconds(pair[0], pair[1])));
    }
    let next = delivered.chunks(batches).skip(1);
    let gaps: Vec<f64> = ended.iter().zip(next).map(|(end, next)| seconds(*end, next[0])).collect();
    // What delays the next epoch's first batch may already show in the batches before it, which are
    // delivered while it is made.
    let around = (1..epochs as usize).map(|epoch| {
        let near = &delivered[epoch * batches - AROUND..epoch * batches + AROUND];
        near.windows(2).map(|pair| seconds(pair[0], pair[1])).fold(0.0, f64::max)
    });
    let around: Vec<f64> = around.collect();
    let (gap, interval) = (mean(&gaps), mean(&intervals));
    Ok(Outcome::items(epochs * loader.len())
        .figure("gap_s", gap)
        .figure("interval_s", interval)
        .figure("gap_intervals", gap / interval)
        .figure("longest_around_intervals", mean(&around) / interval))
}

fn seconds(from: Instant, to: Instant) -> f64 {
    (to - from).as_secs_f64()
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len().max(1) as f64
}
