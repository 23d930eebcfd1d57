//! From what the engine measured to what the model is calibrated with.

use feedline_core::Stats;
use feedline_model::calibrate::{BatchTotal, LoaderStats, LoopStats, MemoryTotal, StageTotal};

/// What a loader measured, as [`Calibration::of`](feedline_model::calibrate::Calibration::of) takes it. `workers` is what
/// the loader was built with.
///
/// ```
/// use feedline::model::calibrate::Calibration;
/// use feedline::model::predict::{Setting, predict};
/// # use feedline::{Cause, DType, Dataset, Field, Loader, Sample};
/// # struct Squares;
/// # impl Dataset for Squares {
/// #     fn len(&self) -> u64 {
/// #         1000
/// #     }
/// #     fn fields(&self) -> Vec<Field> {
/// #         vec![Field::fixed("square", DType::U64, [])]
/// #     }
/// #     fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
/// #         Ok(sample.put(0, &[sample.index().0])?)
/// #     }
/// # }
/// let loader = Loader::builder(Squares).batch_size(64).workers(1).build()?;
/// for batch in loader.epoch() {
///     batch?;
/// }
/// let stats = feedline::loader_stats(&loader.stats(), 1);
/// let calibration = Calibration::of(stats.assignment(), 8, &[stats.observation()?])?;
/// let prediction = predict(&calibration, &Setting { step_seconds: 0.08, ..Setting::new(4, 64) })?;
/// println!("{:.0} samples per second", prediction.samples_per_second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn loader_stats(stats: &Stats, workers: usize) -> LoaderStats {
    let stages = stats
        .stages
        .iter()
        .map(|stage| StageTotal { stage: stage.stage.name().into(), total_ns: stage.total_ns });
    LoaderStats {
        mode: "native".into(),
        num_workers: u32::try_from(workers).unwrap_or(u32::MAX),
        elapsed_ns: stats.elapsed_ns,
        batches: stats.batches,
        samples: stats.samples,
        bytes: stats.bytes,
        consumer: LoopStats {
            step_ns: stats.consumer.step_ns,
            wait_ns: stats.consumer.wait_ns,
            handover_ns: stats.consumer.handover_ns,
        },
        stages: stages.collect(),
        batch_parts: BatchTotal { collating_ns: stats.batch_parts.collating_ns },
        memory: MemoryTotal { peak: stats.memory.peak },
        prefetch: stats.prefetch as u64,
    }
}
