//! How many samples travel together.
//!
//! A job costs about a microsecond to queue, take and account for. Samples that cost less than
//! [`TARGET_NS`] travel in groups that cost about that much, so that the overhead stays around two
//! per cent; heavier ones travel alone, so that all workers share every batch and its first one is
//! ready after `batch time / workers`.

/// The cost a job aims at.
const TARGET_NS: f64 = 50_000.0;

/// Policies that order by cost get samples one by one from this mean cost on, so that a dear one is
/// not hidden among cheap ones.
const ORDER_SINGLY_NS: f64 = 2_000.0;

/// How samples are cut into jobs.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Grain {
    /// Under a time limit, and where loading is apart, each sample is on its own.
    pub(crate) alone: bool,
    /// Whether the policy orders by cost.
    pub(crate) by_cost: bool,
}

impl Grain {
    /// Samples per job, given their average cost (0 when nothing is known).
    pub(crate) fn together(self, mean_ns: f64, batch_len: usize) -> usize {
        let is_single = self.alone || (self.by_cost && mean_ns >= ORDER_SINGLY_NS);
        if is_single { 1 } else { grain(mean_ns, batch_len) }
    }
}

/// Samples per job, given their average cost (0 when nothing is known: then each goes alone, and
/// the first answers teach).
fn grain(mean_ns: f64, batch_len: usize) -> usize {
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

    #[test]
    fn who_orders_by_cost_sees_each_sample_unless_it_is_tiny() {
        let by_cost = Grain { alone: false, by_cost: true };
        assert_eq!((by_cost.together(1_000.0, 64), by_cost.together(5_000.0, 64)), (50, 1));
        assert_eq!(Grain { alone: true, by_cost: false }.together(50.0, 64), 1);
    }
}
