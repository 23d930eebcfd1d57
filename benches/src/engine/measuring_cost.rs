//! What measuring costs. It cannot be switched off, so this compares the engine as a whole with a bare
//! loop: that bounds the cost of measuring from above.

use std::sync::Arc;
use std::time::Duration;

use feedline_bench::Contest;

use crate::arithmetic::{chain, steps_in};
use crate::bench::Bench;
use crate::task::{Task, bare, dealt, drained, one_epoch};

/// Samples that all take as many steps.
struct Even {
    samples: u64,
    steps: u64,
}

impl Task for Even {
    fn len(&self) -> u64 {
        self.samples
    }

    fn make(&self, index: u64) -> u64 {
        chain(self.steps, index)
    }
}

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    let samples = bench.size(2_000, 1_000);
    let task = Arc::new(Even { samples, steps: steps_in(Duration::from_micros(100)) });
    let share = dealt(samples, 1);
    let mut settings = bench.settings(
        "CPU-bound samples of 100 us, batches of 32: the engine with all its measuring",
        "samples",
        &["seconds:1 worker/bare loop<=1.01"],
    )?;
    // One per cent is less than a clock frequency wanders within a second; short rounds, and many of
    // them, see past that.
    settings.rounds = bench.size(41, 5) as u32;
    let contest = Contest::new(settings)
        .side("bare loop", |run| bare(run, &*task, &share))
        .side("0 workers", |run| drained(run, &one_epoch(&task).batch_size(32).workers(0).build()?))
        .side("1 worker", |run| drained(run, &one_epoch(&task).batch_size(32).workers(1).build()?));
    bench.hold(contest)?;
    Ok(())
}
