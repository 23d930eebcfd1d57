//! What every weighted order checks first.

use super::error::PlanError;

/// The largest of `weights`, once all of them are known to be usable.
///
/// Orders divide by it before they add anything up, so that weights of any magnitude are safe.
pub(crate) fn largest(weights: impl ExactSizeIterator<Item = f64>) -> Result<f64, PlanError> {
    let count = weights.len();
    let mut largest = 0.0_f64;
    for (index, value) in weights.enumerate() {
        if !value.is_finite() || value < 0.0 {
            return Err(PlanError::BadWeight { index, value });
        }
        largest = largest.max(value);
    }
    if largest > 0.0 { Ok(largest) } else { Err(PlanError::AllWeightsZero { count }) }
}

/// Checks the table of a weighted order: one weight per sample, few enough for 4-byte indices.
pub(crate) fn check_table(weights: &[f64], n: u64, samples: u64) -> Result<f64, PlanError> {
    if n > 1 << 32 {
        return Err(PlanError::TooLargeForTable { order: "weighted", samples: n });
    }
    if weights.len() as u64 != n {
        return Err(PlanError::TableLength { table: "weights", got: weights.len(), expected: n });
    }
    if samples == 0 {
        return Err(PlanError::ZeroSamples);
    }
    largest(weights.iter().copied())
}
