//! Rows in memory: what the engine costs where a sample costs next to nothing.
//!
//! The bare loop does the same gather into memory that it uses again. It gets its order as a table
//! made beforehand (or counts, for the sequential one), while the engine's time includes planning.
//!
//! The dataset writes the rows of a job in one call, as datasets in memory should; one side shows what
//! it costs to leave that out.

use std::hint::black_box;
use std::sync::Arc;

use feedline_bench::{BoxError, Contest, OrderedDigest, Outcome, Run};
use feedline_core::plan::Stream;
use feedline_core::{
    Cause, DType, Dataset, Field, Group, Loader, LoaderBuilder, Order, Plan, Position, Sample,
    SampleIndex,
};

use crate::bench::Bench;

const SEED: u64 = 7;
const BATCH: usize = 256;

/// Rows of eight numbers and a label.
pub(crate) struct Rows {
    rows: Vec<[i64; 8]>,
    labels: Vec<i64>,
}

impl Rows {
    /// `n` random rows.
    pub(crate) fn random(n: u64) -> Rows {
        let mut stream = Stream::new(SEED, 0, 0);
        let rows = (0..n).map(|_| std::array::from_fn(|_| stream.next_u64() as i64)).collect();
        Rows { rows, labels: (0..n).map(|_| stream.below(1000) as i64).collect() }
    }
}

impl Dataset for Rows {
    fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("row", DType::I64, [8]), Field::fixed("label", DType::I64, [])]
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let index = sample.index().0 as usize;
        sample.put(0, &self.rows[index])?;
        sample.put(1, &[self.labels[index]])?;
        Ok(())
    }

    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let indices = group.indices();
        let Ok(rows) = group.rows::<i64>(0) else { return false };
        for (row, index) in rows.as_chunks_mut().0.iter_mut().zip(indices) {
            *row = self.rows[index.0 as usize];
        }
        let Ok(labels) = group.rows::<i64>(1) else { return false };
        for (label, index) in labels.iter_mut().zip(indices) {
            *label = self.labels[index.0 as usize];
        }
        true
    }
}

/// The same rows from a dataset that only knows how to make one.
struct OneByOne(Arc<Rows>);

impl Dataset for OneByOne {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.0.fields()
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        self.0.build(raw, sample)
    }
}

pub(crate) fn table(bench: &mut Bench) -> anyhow::Result<()> {
    let rows = Arc::new(Rows::random(bench.size(1_000_000, 200_000)));
    let epochs = bench.size(5, 2);
    for (name, order) in [("sequential", Order::Sequential), ("shuffled", Order::Shuffled)] {
        let title = format!("rows in memory, 8 x i64 and a label, batches of {BATCH}, {name}");
        let settings = bench.settings(
            &title,
            "rows",
            &["seconds_per_item:1 worker - bare loop<=150e-9", "2 workers/1 worker>=0.95"],
        )?;
        let plan = Plan::builder(rows.len()).order(order.clone()).seed(SEED).build()?;
        let tables: Option<Vec<_>> = matches!(order, Order::Shuffled)
            .then(|| (0..=epochs).map(|epoch| order_of(&plan, epoch)).collect());
        let mut contest = Contest::new(settings).side("bare loop", |run| match &tables {
            Some(tables) => gathered(run, &rows, epochs, |epoch| {
                tables[epoch as usize].iter().map(|index| index.0 as usize)
            }),
            None => gathered(run, &rows, epochs, |_| 0..rows.rows.len()),
        });
        let load = |run: &mut Run<'_>, loader: LoaderBuilder, workers| {
            let loader = loader.batch_size(BATCH as u64).order(order.clone()).seed(SEED);
            loaded(run, &loader.workers(workers).epochs(epochs + 1).build()?, epochs)
        };
        for workers in 0..=2 {
            let plural = if workers == 1 { "" } else { "s" };
            let (rows, load) = (&rows, &load);
            contest = contest.side(format!("{workers} worker{plural}"), move |run| {
                load(run, Loader::builder(Arc::clone(rows)), workers)
            });
        }
        contest = contest.side("1 worker, a call per row", |run| {
            load(run, Loader::builder(OneByOne(Arc::clone(&rows))), 1)
        });
        bench.hold(contest)?;
    }
    Ok(())
}

fn order_of(plan: &Plan, epoch: u64) -> Vec<SampleIndex> {
    let mut order = vec![SampleIndex(0); plan.samples() as usize];
    plan.epoch(epoch).fill(Position(0), &mut order);
    order
}

/// The memory that the bare loop fills again and again.
struct Gather {
    rows: Vec<[i64; 8]>,
    labels: Vec<i64>,
}

impl Gather {
    /// Fills the next batch. Returns how many rows it has; 0 when the order is at its end.
    fn next(&mut self, from: &Rows, order: &mut impl Iterator<Item = usize>) -> usize {
        let mut len = 0;
        for ((row, label), index) in self.rows.iter_mut().zip(&mut self.labels).zip(order) {
            *row = from.rows[index];
            *label = from.labels[index];
            len += 1;
        }
        len
    }
}

/// The bare loop over some epochs; one more, not timed, shows what it gathers.
fn gathered<I: Iterator<Item = usize>>(
    run: &mut Run<'_>,
    from: &Rows,
    epochs: u64,
    order: impl Fn(u64) -> I,
) -> Result<Outcome, BoxError> {
    let mut gather = Gather { rows: vec![[0; 8]; BATCH], labels: vec![0; BATCH] };
    run.start()?;
    for epoch in 0..epochs {
        let mut order = order(epoch);
        while gather.next(from, &mut order) > 0 {
            black_box(&mut gather.rows);
            black_box(&mut gather.labels);
        }
    }
    run.stop()?;
    let mut digest = OrderedDigest::new();
    let mut order = order(epochs);
    loop {
        let len = gather.next(from, &mut order);
        if len == 0 {
            break;
        }
        let rows = gather.rows[..len].as_flattened().iter();
        rows.for_each(|number| digest.update(&number.to_ne_bytes()));
        gather.labels[..len].iter().for_each(|label| digest.update(&label.to_ne_bytes()));
    }
    Ok(Outcome::items(epochs * from.len()).digest(digest.finish()))
}

/// The engine's epochs, one more of which, not timed, shows what it delivers.
fn loaded(run: &mut Run<'_>, loader: &Loader, epochs: u64) -> Result<Outcome, BoxError> {
    run.start()?;
    for _ in 0..epochs {
        for batch in loader.epoch() {
            black_box(batch?);
        }
    }
    run.stop()?;
    let mut digest = OrderedDigest::new();
    for batch in loader.epoch() {
        batch?.arrays().iter().for_each(|array| digest.update(array.as_bytes()));
    }
    Ok(Outcome::items(epochs * loader.plan().samples()).digest(digest.finish()))
}
