//! All samples gone through once, by all cores: for counts and lengths that nobody knows before.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline_core::{Dataset, Form, SampleIndex, SampleKey, SampleView, Scratch};
use feedline_text::WordCounts;

use crate::SourceError;
use crate::crowd::{Watch, each};

/// Counts the words of a text field over all samples; `watch` is told how many were gone through.
pub fn count_words(
    dataset: &dyn Dataset,
    field: usize,
    watch: Watch<'_>,
) -> Result<WordCounts, SourceError> {
    let parts = pass(dataset, watch, WordCounts::default, |counts, sample| {
        counts.add(std::str::from_utf8(sample.bytes(field)).unwrap_or(""));
    })?;
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    parts.for_each(|part| all.merge(&part));
    Ok(all)
}

/// The length of a field in each sample: its first axis, or a whole number that it holds; of text its bytes.
pub fn measure(
    dataset: &dyn Dataset,
    field: usize,
    watch: Watch<'_>,
) -> Result<Vec<u32>, SourceError> {
    if let Some(lengths) = known_lengths(dataset, field) {
        return Ok(lengths);
    }
    let parts = pass(dataset, watch, Vec::new, |lengths, sample| {
        let length = match sample.fields().get(field).map(feedline_core::Field::form) {
            Some(Form::Fixed { shape }) if shape.is_empty() => {
                sample.get::<i64>(field).and_then(|value| u64::try_from(value[0]).ok()).unwrap_or(0)
            }
            _ => sample.shape(field).first().copied().unwrap_or(0) as u64,
        };
        lengths.push(u32::try_from(length).unwrap_or(u32::MAX));
    })?;
    Ok(parts.into_iter().flatten().collect())
}

/// The lengths of a field where they are known without making samples.
fn known_lengths(dataset: &dyn Dataset, field: usize) -> Option<Vec<u32>> {
    if dataset.iterable().is_some() {
        return None;
    }
    let length = |index| {
        let length = dataset.known_length(SampleIndex(index), field)?;
        Some(u32::try_from(length).unwrap_or(u32::MAX))
    };
    (0..dataset.len()).map(length).collect()
}

/// Makes each sample and hands it to `take`, with what is gathered of its stretch of samples. Stretches are few, and come in order.
fn pass<T: Send>(
    dataset: &dyn Dataset,
    watch: Watch<'_>,
    begin: impl Fn() -> T + Sync,
    take: impl Fn(&mut T, &SampleView<'_>) + Sync,
) -> Result<Vec<T>, SourceError> {
    if dataset.iterable().is_some() {
        return Err(SourceError::UnknownLength { what: "going through all samples" });
    }
    let len = dataset.len();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    // More than there are cores, as some take longer than others; not many more, as each has counts of its own.
    let stretches = (4 * cores).min(len.div_ceil(64)).max(1);
    let stretch = |job: usize| -> Range<u64> {
        let at = |job: u64| (u128::from(len) * u128::from(job) / u128::from(stretches)) as u64;
        at(job as u64)..at(job as u64 + 1)
    };
    let seen = AtomicU64::new(0);
    each(stretches as usize, &seen, watch, |job, stop| {
        let mut gathered = begin();
        let mut scratch = Scratch::new(dataset.fields()).map_err(|error| SourceError::Sample {
            sample: 0,
            origin: String::new(),
            cause: error.to_string(),
        })?;
        for index in stretch(job) {
            if index % 64 == 0 {
                stop.check()?;
            }
            let sample = SampleIndex(index);
            let view = scratch.read(dataset, sample, SampleKey::new(0, 0, sample));
            let view = view.map_err(|cause| SourceError::Sample {
                sample: index,
                origin: dataset.origin(sample).unwrap_or_default(),
                cause: cause.to_string(),
            })?;
            take(&mut gathered, &view);
            scratch.shrink();
            seen.fetch_add(1, Ordering::Relaxed);
        }
        Ok(gathered)
    })
}
