//! A few samples that take 50 times as long as the others: whether they hold up the rest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline_bench::{Agreement, BoxError, Contest, Outcome, Run, UnorderedDigest};
use feedline_core::plan::Stream;
use feedline_core::{Delivery, Loader};

use crate::bench::Bench;
use crate::task::{Naps, Task, bare, drained, one_epoch, values};

const BATCH: u64 = 32;
const WORKERS: usize = 8;
const FAST: Duration = Duration::from_millis(1);
const SLOW: Duration = Duration::from_millis(50);

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    let naps = Arc::new(naps(bench.size(200, 100) * BATCH));
    let shares = equal_shares(&naps);
    let settings = bench.settings(
        "one sample in 20 sleeps 50 ms, the others 1 ms; batches of 32, 8 workers, in order, 8 batches ahead",
        "samples",
        &["in order/sum by 8 threads>=0.95"],
    )?;
    let contest = Contest::new(settings)
        .side("sum by 8 threads", |run| bare(run, &*naps, &shares))
        .side("in order", |run| {
            let loader = one_epoch(&naps).batch_size(BATCH).workers(WORKERS).prefetch(8);
            drained(run, &loader.build()?)
        });
    let report = bench.hold(contest)?;
    let seconds = report.side("sum by 8 threads").and_then(|side| side.seconds);
    let seconds = seconds.ok_or_else(|| anyhow::anyhow!("the bare threads were not timed"))?;
    let batches = naps.len() / BATCH;
    waits(bench, &naps, Duration::from_secs_f64(seconds.median / batches as f64))
}

/// The consumer takes a step after each batch. How long does it wait for the next?
fn waits(bench: &mut Bench, naps: &Arc<Naps>, interval: Duration) -> anyhow::Result<()> {
    let mut settings = bench.settings(
        "the same with a step of 1.25 x the mean interval after each batch, 4 batches ahead",
        "samples",
        &["p99_wait_intervals:ready<=0.25"],
    )?;
    settings.agreement = Agreement::Unordered;
    let side = |run: &mut Run<'_>, delivery: Delivery| {
        let loader = one_epoch(naps).batch_size(BATCH).workers(WORKERS).prefetch(4);
        stepped(run, &loader.delivery(delivery).build()?, interval)
    };
    let contest = Contest::new(settings)
        .side("in order", |run| side(run, Delivery::InOrder))
        .side("ready", |run| side(run, Delivery::Ready { window: 8 }));
    bench.hold(contest)?;
    Ok(())
}

fn stepped(run: &mut Run<'_>, loader: &Loader, interval: Duration) -> Result<Outcome, BoxError> {
    let step = interval.mul_f64(1.25);
    let mut waits = Vec::with_capacity(loader.len() as usize);
    let mut bag = UnorderedDigest::new();
    run.start()?;
    let mut epoch = loader.epoch();
    loop {
        let asked = Instant::now();
        let Some(batch) = epoch.next() else { break };
        waits.push(asked.elapsed().as_secs_f64() / interval.as_secs_f64());
        values(&batch?)?.iter().for_each(|value| bag.add(&value.to_le_bytes()));
        std::thread::sleep(step);
    }
    run.stop()?;
    waits.sort_by(f64::total_cmp);
    // Nearest rank; the wait for the very first batch counts like any other.
    let quantile = |q: f64| waits[((q * waits.len() as f64).ceil() as usize).max(1) - 1];
    Ok(Outcome::items(loader.plan().samples())
        .digest(bag.finish())
        .figure("p50_wait_intervals", quantile(0.5))
        .figure("p99_wait_intervals", quantile(0.99))
        .figure("max_wait_intervals", quantile(1.0))
        .figure("interval_s", interval.as_secs_f64()))
}

/// `n` samples of which exactly one in 20 is slow, at random places.
fn naps(n: u64) -> Naps {
    let mut naps = vec![FAST; n as usize];
    let mut places: Vec<u64> = (0..n).collect();
    places.sort_by_key(|place| Stream::new(5, 0, *place).next_u64());
    places.iter().take(n as usize / 20).for_each(|place| naps[*place as usize] = SLOW);
    Naps(naps)
}

/// The slow ones dealt out to the threads in turn, then the fast ones: all sleep equally long.
fn equal_shares(naps: &Naps) -> Vec<Vec<u64>> {
    let (slow, fast): (Vec<u64>, Vec<u64>) =
        (0..naps.len()).partition(|index| naps.0[*index as usize] == SLOW);
    let mut shares = vec![Vec::new(); WORKERS];
    for (turn, index) in slow.into_iter().chain(fast).enumerate() {
        shares[turn % WORKERS].push(index);
    }
    shares
}
