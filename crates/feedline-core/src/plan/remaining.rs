//! What of a sequence is still to come: some gaps, then everything from a place on.

use std::sync::Arc;

/// The numbers `0, 1, 2, …` without those that are done: a few *gaps* that were left behind, in
/// ascending order, then every number from `from` on.
///
/// It is used twice: for the places of an epoch that all ranks together have still to deliver, and
/// for the positions of one rank. Delivery in planned order leaves no gaps, so it is one number then.
///
/// ```
/// use feedline_core::plan::Remaining;
///
/// let rest = Remaining::new(vec![3, 7], 10).unwrap();
/// assert_eq!((0..5).map(|i| rest.nth(i)).collect::<Vec<_>>(), [3, 7, 10, 11, 12]);
/// assert_eq!(rest.skip(3), Remaining::from(11));
/// assert_eq!(rest.count_below(12), 4);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    gaps: Arc<[u64]>,
    from: u64,
}

impl From<u64> for Remaining {
    /// Everything from a number on.
    fn from(from: u64) -> Self {
        Remaining { gaps: Arc::default(), from }
    }
}

impl Remaining {
    /// `None` unless the gaps are ascending and below `from`.
    #[must_use]
    pub fn new(mut gaps: Vec<u64>, mut from: u64) -> Option<Self> {
        if !gaps.is_sorted_by(|a, b| a < b) || gaps.last().is_some_and(|gap| *gap >= from) {
            return None;
        }
        // Gaps that touch what follows belong to it, so that one set has one form.
        while gaps.last().is_some_and(|gap| gap + 1 == from) {
            gaps.pop();
            from -= 1;
        }
        Some(Remaining { gaps: gaps.into(), from })
    }

    /// The numbers that were left behind.
    #[must_use]
    pub fn gaps(&self) -> &[u64] {
        &self.gaps
    }

    /// Where it goes on without gaps.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.from
    }

    /// Whether nothing was left behind.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.gaps.is_empty()
    }

    /// How many numbers are done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.from - self.gaps.len() as u64
    }

    /// The `i`-th of them.
    #[inline]
    #[must_use]
    pub fn nth(&self, i: u64) -> u64 {
        let gaps = self.gaps.len() as u64;
        if i < gaps { self.gaps[i as usize] } else { self.from.saturating_add(i - gaps) }
    }

    /// What is left when the first `n` of them are done too.
    #[must_use]
    pub fn skip(&self, n: u64) -> Remaining {
        let gaps = self.gaps.len() as u64;
        if n >= gaps {
            return Remaining::from(self.from.saturating_add(n - gaps));
        }
        Remaining { gaps: self.gaps[n as usize..].into(), from: self.from }
    }

    /// How many of them are below `end`.
    #[must_use]
    pub fn count_below(&self, end: u64) -> u64 {
        let gaps = self.gaps.partition_point(|gap| *gap < end) as u64;
        gaps + end.saturating_sub(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_set_has_one_form() {
        assert_eq!(Remaining::new(vec![2, 5, 6], 7), Remaining::new(vec![2], 5));
        assert_eq!(Remaining::new(vec![0, 1], 2), Some(Remaining::default()));
    }

    #[test]
    fn what_is_no_ascending_list_below_the_start_is_refused() {
        assert_eq!(Remaining::new(vec![3, 2], 9), None);
        assert_eq!(Remaining::new(vec![2, 2], 9), None);
        assert_eq!(Remaining::new(vec![9], 9), None);
    }

    #[test]
    fn skipping_is_what_counting_says() {
        let rest = Remaining::new(vec![1, 4, 8], 12).unwrap();
        for n in 0..10 {
            let less = rest.skip(n);
            assert_eq!(less.done(), rest.done() + n);
            assert_eq!(
                (0..9).map(|i| less.nth(i)).collect::<Vec<_>>(),
                (n..n + 9).map(|i| rest.nth(i)).collect::<Vec<_>>()
            );
            assert_eq!(rest.count_below(rest.nth(n)), n);
        }
    }
}
