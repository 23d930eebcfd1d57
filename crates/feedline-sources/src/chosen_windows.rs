//! How some samples of sharded data are shuffled, where all of them are by shards and windows.

/// Shards and windows of some samples of sharded data.
///
/// A window passes over so many samples that their shards fit into memory. Of samples that were chosen in the order of the shards
/// fewer are in each shard, so a window has fewer of them, and spans no more shards than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChosenWindows {
    /// All are within one window: shuffled as a whole.
    Whole,
    /// How many of them each shard has that has some, in their order, and how many a window has.
    Windows(Vec<u64>, u64),
    /// They are in no order of the shards, and in more of these than a window spans: each may need another shard.
    Scattered,
}

impl ChosenWindows {
    /// The listed samples, of shards of these sizes and windows of so many samples.
    #[must_use]
    pub fn of_listed(listed: &[u64], shards: &[u64], window: u64) -> ChosenWindows {
        if listed.is_sorted() {
            let below = |bound: u64| listed.partition_point(|index| *index < bound) as u64;
            return ChosenWindows::ascending(shards, window, below);
        }
        let mut sorted = listed.to_vec();
        sorted.sort_unstable();
        match ChosenWindows::of_listed(&sorted, shards, window) {
            ChosenWindows::Whole => ChosenWindows::Whole,
            _ => ChosenWindows::Scattered,
        }
    }

    /// `count` samples from `first` on, `step` apart.
    pub(crate) fn of_spaced(
        (first, step, count): (u64, i64, u64),
        shards: &[u64],
        window: u64,
    ) -> ChosenWindows {
        let (apart, last) = (step.unsigned_abs().max(1), count.saturating_sub(1));
        let lowest = match step {
            0.. => first,
            _ => first.saturating_sub(apart.saturating_mul(last)),
        };
        let below = |bound: u64| bound.saturating_sub(lowest).div_ceil(apart).min(count);
        let mut windows = ChosenWindows::ascending(shards, window, below);
        if let (ChosenWindows::Windows(sizes, _), ..0) = (&mut windows, step) {
            sizes.reverse();
        }
        windows
    }

    /// `below` says how many of the samples are before a given one.
    fn ascending(shards: &[u64], window: u64, below: impl Fn(u64) -> u64) -> ChosenWindows {
        let (mut sizes, mut spanned, mut chosen, mut end) = (Vec::new(), 0u64, 0u64, 0u64);
        for shard in shards {
            let before = below(end);
            end = end.saturating_add(*shard);
            let here = below(end) - before;
            if here > 0 {
                sizes.push(here);
                (spanned, chosen) = (spanned.saturating_add(*shard), chosen.saturating_add(here));
            }
        }
        if spanned <= window {
            return ChosenWindows::Whole;
        }
        let fewer = u128::from(window) * u128::from(chosen) / u128::from(spanned);
        let window = u64::try_from(fewer).unwrap_or(window).clamp(1, window);
        ChosenWindows::Windows(sizes, window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_keeps_the_shards_that_it_has_and_a_mask_has_smaller_windows() {
        let shards = [10; 5];
        let of_spaced = |spaced| ChosenWindows::of_spaced(spaced, &shards, 20);
        let windows = |sizes: &[u64], window| ChosenWindows::Windows(sizes.to_vec(), window);
        assert_eq!(of_spaced((0, 1, 50)), windows(&[10; 5], 20));
        assert_eq!(of_spaced((5, 1, 30)), windows(&[5, 10, 10, 5], 15));
        assert_eq!(of_spaced((0, 10, 5)), windows(&[1; 5], 2));
        assert_eq!(of_spaced((49, -1, 45)), windows(&[10, 10, 10, 10, 5], 18));
        assert_eq!(of_spaced((25, 1, 10)), ChosenWindows::Whole);
        let third: Vec<u64> = (0..50).filter(|index| index % 3 == 0).collect();
        let expected = windows(&[4, 3, 3, 4, 3], 6);
        assert_eq!(ChosenWindows::of_listed(&third, &shards, 20), expected);
    }

    #[test]
    fn samples_in_another_order_are_scattered_unless_their_shards_fit() {
        let of_listed = |listed: &[u64]| ChosenWindows::of_listed(listed, &[10; 5], 20);
        assert_eq!(of_listed(&[45, 3, 22]), ChosenWindows::Scattered);
        assert_eq!(of_listed(&[19, 3, 3]), ChosenWindows::Whole);
        assert_eq!(of_listed(&[3, 3, 22, 45]), ChosenWindows::Windows(vec![2, 1, 1], 2));
        assert_eq!(of_listed(&[]), ChosenWindows::Whole);
    }
}
