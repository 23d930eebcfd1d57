//! What one index of a shuffle costs, for datasets far too large for a table.

use std::hint::black_box;

use feedline_bench::{Contest, Digest, Outcome};
use feedline_core::{Order, Plan, Position, SampleIndex};

use crate::bench::Bench;

/// As many as a large batch has.
const AT_ONCE: usize = 256;

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    for n in [1_000_000_000, (1 << 30) + 1, (1 << 32) + 1] {
        let plan = Plan::builder(n).order(Order::Shuffled).seed(1).build()?;
        let epoch = plan.epoch(0);
        let count = bench.size(10_000_000, 1_000_000) / AT_ONCE as u64 * AT_ONCE as u64;
        let table_bytes = (plan.table_bytes() + epoch.table_bytes()) as f64;
        let settings = bench.settings(
            &format!("indices of a shuffle of {n} samples"),
            "indices",
            &[
                "seconds_per_item:index<=60e-9",
                "seconds_per_item:fill<=60e-9",
                "table_bytes:index<=0",
                "table_bytes:fill<=0",
            ],
        )?;
        let outcome = |sum: u64| {
            let digest = Digest::from_text(format!("{sum:016x}"));
            Outcome::items(count).digest(digest).figure("table_bytes", table_bytes)
        };
        let contest = Contest::new(settings)
            .side("index", |_| {
                let indices = (0..count).map(|at| epoch.index(Position(black_box(at))));
                Ok(outcome(indices.fold(0, mixed)))
            })
            .side("fill", |_| {
                let mut indices = [SampleIndex(0); AT_ONCE];
                let starts = (0..count).step_by(AT_ONCE);
                let sum = starts.fold(0, |sum, start| {
                    epoch.fill(Position(black_box(start)), &mut indices);
                    indices.iter().copied().fold(sum, mixed)
                });
                Ok(outcome(sum))
            });
        bench.hold(contest)?;
    }
    Ok(())
}

/// A sum that depends on the order, for about a nanosecond an index.
fn mixed(sum: u64, index: SampleIndex) -> u64 {
    sum.rotate_left(5).wrapping_add(index.0)
}
