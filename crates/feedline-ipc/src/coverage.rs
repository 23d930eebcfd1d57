//! Which bytes of a region are held, and by how many loans.

use std::collections::BTreeMap;
use std::ops::Range;

/// A count for each byte, kept as stretches of equal counts. Loans may overlap in any way: the other
/// process says where they are.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// Where a stretch begins, and how many loans hold it. It ends where the next begins. Before the first
    /// and after the last, which is one of 0, nothing is held; no two neighbours have the same count.
    counts: BTreeMap<u64, u32>,
}

impl Coverage {
    /// Notes that one loan more holds these bytes.
    pub(crate) fn hold(&mut self, part: Range<u64>) {
        self.change(part, |count| *count += 1);
    }

    /// Notes that a loan which held just these bytes holds them no more.
    pub(crate) fn release(&mut self, part: Range<u64>) {
        self.change(part, |count| *count -= 1);
    }

    /// The stretches of a part that nobody holds, in order.
    pub(crate) fn gaps(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut free = (self.count_at(within.start) == 0).then_some(within.start);
        for (&start, &count) in self.counts.range(within.clone()) {
            match (free, count) {
                (None, 0) => free = Some(start),
                (Some(begun), 1..) => {
                    gaps.extend((begun < start).then_some(begun..start));
                    free = None;
                }
                _ => {}
            }
        }
        gaps.extend(free.filter(|begun| *begun < within.end).map(|begun| begun..within.end));
        gaps
    }

    fn count_at(&self, byte: u64) -> u32 {
        self.counts.range(..=byte).next_back().map_or(0, |(_, count)| *count)
    }

    fn change(&mut self, part: Range<u64>, change: impl Fn(&mut u32)) {
        if part.is_empty() {
            return;
        }
        for border in [part.start, part.end] {
            let count = self.count_at(border);
            self.counts.entry(border).or_insert(count);
        }
        self.counts.range_mut(part.clone()).for_each(|(_, count)| change(count));
        // All within have changed by the same, so only the borders can be none any more.
        for border in [part.start, part.end] {
            let before = self.counts.range(..border).next_back().map_or(0, |(_, count)| *count);
            if self.counts.get(&border) == Some(&before) {
                self.counts.remove(&border);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn gaps_are_the_bytes_that_nobody_holds(
            steps in prop::collection::vec((any::<bool>(), 0usize..40, 0usize..40), 1..60),
            within in (0usize..40, 0usize..40),
        ) {
            let mut counts = [0u32; 40];
            let mut coverage = Coverage::default();
            let mut held = Vec::new();
            for (hold, a, b) in steps {
                let part = if hold {
                    held.push(a.min(b)..a.max(b));
                    held[held.len() - 1].clone()
                } else if held.is_empty() {
                    continue
                } else {
                    held.swap_remove(a % held.len())
                };
                let bytes = part.start as u64..part.end as u64;
                if hold { coverage.hold(bytes) } else { coverage.release(bytes) }
                for count in &mut counts[part] {
                    *count = if hold { *count + 1 } else { *count - 1 };
                }
                let within = within.0.min(within.1)..within.0.max(within.1);
                let gaps = coverage.gaps(within.start as u64..within.end as u64);
                let free: Vec<u64> = gaps.iter().cloned().flatten().collect();
                let expected: Vec<u64> =
                    within.filter(|i| counts[*i] == 0).map(|i| i as u64).collect();
                prop_assert_eq!(free, expected);
                prop_assert!(gaps.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
            if held.is_empty() {
                prop_assert!(coverage.counts.is_empty());
            }
        }
    }
}
