//! How soon the first batch is there: all workers fill it together.

use std::sync::Arc;
use std::time::Duration;

use feedline_bench::{BoxError, Contest, OrderedDigest, Outcome, Run};

use crate::bench::Bench;
use crate::task::{Naps, one_epoch, values};

const BATCH: u64 = 64;

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    let naps = Arc::new(Naps(vec![Duration::from_millis(10); 4 * BATCH as usize]));
    // 1.2 x (batch time / workers), with 8 workers: 0.15 x the time of a batch made by one.
    let settings = bench.settings(
        "the first batch of 64 samples that sleep 10 ms, from the first `next`",
        "batches",
        &["seconds:8 workers/0 workers<=0.15"],
    )?;
    let first = |run: &mut Run<'_>, workers: usize| -> Result<Outcome, BoxError> {
        let loader = one_epoch(&naps).batch_size(BATCH).workers(workers).build()?;
        run.start()?;
        let batch = loader.epoch().next().ok_or("the epoch has no batch")??;
        run.stop()?;
        let mut digest = OrderedDigest::new();
        values(&batch)?.iter().for_each(|value| digest.update(&value.to_le_bytes()));
        Ok(Outcome::items(1).digest(digest.finish()))
    };
    let contest = Contest::new(settings)
        .side("0 workers", |run| first(run, 0))
        .side("8 workers", |run| first(run, 8));
    bench.hold(contest)?;
    Ok(())
}
