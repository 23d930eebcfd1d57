//! Small datasets.

use std::time::Duration;

use feedline_core::plan::SampleIndex;
use feedline_core::{Batch, Cause, DType, Dataset, Error, Field, Loader, Sample};

/// `n` samples; sample i is `[i, i + 1, i + 2]` as i64 and `i` as f32. What it does besides is the
/// test's.
pub(crate) struct Numbers<F = fn(u64) -> Result<(), Cause>> {
    pub n: u64,
    pub does: F,
}

pub(crate) fn numbers(n: u64) -> Numbers {
    Numbers { n, does: |_| Ok(()) }
}

/// Numbers of which sample i takes a moment that depends on i.
pub(crate) fn uneven(n: u64) -> Numbers {
    Numbers {
        n,
        does: |i| {
            if i.is_multiple_of(7) {
                std::thread::sleep(Duration::from_micros(200 * (i % 5)));
            }
            Ok(())
        },
    }
}

impl<F: Fn(u64) -> Result<(), Cause> + Send + Sync + 'static> Dataset for Numbers<F> {
    fn len(&self) -> u64 {
        self.n
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("row", DType::I64, [3]), Field::fixed("x", DType::F32, [])]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let i = sample.index().0;
        (self.does)(i)?;
        sample.put(0, &[i as i64, i as i64 + 1, i as i64 + 2])?;
        sample.put(1, &[i as f32])?;
        Ok(())
    }
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        Some(1 + index.0 % 5)
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        Some(format!("number {}", index.0))
    }
}

/// The batch's samples, after checking that its arrays hold just these.
pub(crate) fn samples(batch: &Batch) -> Vec<u64> {
    let indices: Vec<u64> = batch.indices().iter().map(|i| i.0).collect();
    let rows = batch.get("row").expect("declared");
    let x = batch.get("x").expect("declared");
    assert_eq!(rows.shape(), [indices.len(), 3]);
    assert_eq!(x.shape(), [indices.len()]);
    let rows = rows.as_slice::<i64>().expect("i64");
    let x = x.as_slice::<f32>().expect("f32");
    for (row, &i) in indices.iter().enumerate() {
        let i = i as i64;
        assert_eq!(&rows[3 * row..3 * row + 3], &[i, i + 1, i + 2], "row {row}");
        assert_eq!(x[row], i as f32);
    }
    indices
}

/// One epoch as lists of samples; an error anywhere is a failure of the test.
pub(crate) fn epoch(loader: &Loader) -> Vec<Vec<u64>> {
    loader.epoch().map(|batch| samples(&batch.expect("no sample fails"))).collect()
}

/// One epoch with its errors.
pub(crate) fn outcomes(loader: &Loader) -> Vec<Result<Vec<u64>, Error>> {
    loader.epoch().map(|batch| batch.map(|batch| samples(&batch))).collect()
}

/// Sorted, in one list.
pub(crate) fn flat(batches: &[Vec<u64>]) -> Vec<u64> {
    let mut all: Vec<u64> = batches.iter().flatten().copied().collect();
    all.sort_unstable();
    all
}
