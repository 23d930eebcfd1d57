//! How many samples travel together.
//!
//! A job costs about a microsecond to queue, take and account for. Samples that cost less than
//! [`TARGET_NS`] travel in groups that cost about that much, so that the overhead stays around two
//! per cent; heavier ones travel alone, so that all workers share every batch and its first one is
//! ready after `batch time / workers`.

/// The cost a job aims at.
const TARGET_NS: f64 = 50_000.0;

/// Samples per job, given their average cost (0 when nothing is known: then each goes alone, and
/// the first answers teach).
pub(crate) fn grain(mean_ns: f64, batch_len: usize) -> usize {
    if mean_ns <= 0.0 {
        return 1;
    }
    // Float-to-int casts saturate, so a tiny mean gives a huge grain and the clamp decides.
    ((TARGET_NS / mean_ns) as usize).clamp(1, batch_len.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_samples_travel_together_and_heavy_ones_alone() {
        assert_eq!(grain(0.0, 64), 1);
        assert_eq!(grain(10_000_000.0, 64), 1);
        assert_eq!(grain(5_000.0, 64), 10);
        assert_eq!(grain(50.0, 256), 256);
        assert_eq!(grain(f64::MIN_POSITIVE, 256), 256);
        assert_eq!(grain(1.0, 0), 1);
    }
}
