//! Samples that only wait: whether the engine keeps all its workers waiting at once.

use std::sync::Arc;
use std::time::Duration;

use feedline_bench::Contest;

use crate::bench::Bench;
use crate::task::{Naps, bare, dealt, drained, one_epoch};

const NAP: Duration = Duration::from_millis(10);
const BATCH: u64 = 64;

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    eight(bench)?;
    one(bench)
}

fn eight(bench: &mut Bench) -> anyhow::Result<()> {
    let naps = Arc::new(Naps(vec![NAP; bench.size(32 * BATCH, 4 * BATCH) as usize]));
    let shares = dealt(naps.0.len() as u64, 8);
    let settings = bench.settings(
        "samples that sleep 10 ms, batches of 64, eight at a time",
        "samples",
        &["8 workers/8 bare threads>=0.98"],
    )?;
    let contest = Contest::new(settings)
        .side("8 bare threads", |run| bare(run, &*naps, &shares))
        .side("8 workers", |run| {
            let loader = one_epoch(&naps).batch_size(BATCH).workers(8).build()?;
            drained(run, &loader)
        });
    bench.hold(contest)?;
    Ok(())
}

fn one(bench: &mut Bench) -> anyhow::Result<()> {
    let naps = Arc::new(Naps(vec![NAP; bench.size(3 * BATCH, BATCH) as usize]));
    let settings = bench.settings(
        "samples that sleep 10 ms, batches of 64, one at a time",
        "samples",
        &["1 worker/0 workers>=0.98"],
    )?;
    let contest = Contest::new(settings)
        .side("0 workers", |run| {
            drained(run, &one_epoch(&naps).batch_size(BATCH).workers(0).build()?)
        })
        .side("1 worker", |run| {
            drained(run, &one_epoch(&naps).batch_size(BATCH).workers(1).build()?)
        });
    bench.hold(contest)?;
    Ok(())
}
