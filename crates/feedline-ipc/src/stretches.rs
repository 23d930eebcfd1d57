//! Free stretches of a region, and the best one for an extent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::file::whole_pages;

/// A set of stretches that do not touch each other, except at multiples of `border`: no stretch lies
/// across one of these.
#[derive(Debug)]
pub(crate) struct Stretches {
    border: u64,
    /// Start to length.
    by_start: BTreeMap<u64, u64>,
    /// The same as (length, start).
    by_len: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Stretches {
    /// No stretches.
    pub(crate) fn new(border: u64) -> Stretches {
        Stretches { border, by_start: BTreeMap::new(), by_len: BTreeSet::new(), total: 0 }
    }

    /// Bytes in all stretches.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Adds a stretch that overlaps none that is there, and joins it with its neighbours.
    pub(crate) fn add(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut first, mut end) = (start, start + len);
        if !start.is_multiple_of(self.border)
            && let Some((&before, &n)) = self.by_start.range(..start).next_back()
            && before + n == start
        {
            self.remove(before, n);
            first = before;
        }
        if !end.is_multiple_of(self.border)
            && let Some(&n) = self.by_start.get(&end)
        {
            self.remove(end, n);
            end += n;
        }
        self.insert(first, end - first);
    }

    /// Takes `len` bytes from the shortest stretch that has them, the lower one of two; from its start.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let &(n, start) = self.by_len.range((len, 0)..).next()?;
        self.remove(start, n);
        if n > len {
            self.insert(start + len, n - len);
        }
        Some(start)
    }

    /// Takes whole units, up to `most` bytes in all, from the ends of stretches, the longest first. What is
    /// left of these before and after stays.
    pub(crate) fn take_units(&mut self, most: u64, unit: u64) -> Vec<Range<u64>> {
        let mut left = most - most % unit;
        let mut cuts = Vec::new();
        for &(n, start) in self.by_len.iter().rev() {
            if left == 0 || n < unit {
                break;
            }
            let whole = whole_pages(start..start + n, unit);
            let cut = left.min(whole.end - whole.start);
            if cut > 0 {
                left -= cut;
                cuts.push((start, n, whole.end - cut..whole.end));
            }
        }
        for (start, n, cut) in &cuts {
            self.remove(*start, *n);
            for rest in [*start..cut.start, cut.end..start + n] {
                if !rest.is_empty() {
                    self.insert(rest.start, rest.end - rest.start);
                }
            }
        }
        cuts.into_iter().map(|(_, _, cut)| cut).collect()
    }

    /// All stretches in order of place.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_start.iter().map(|(start, len)| (*start, *len))
    }

    fn insert(&mut self, start: u64, len: u64) {
        self.by_start.insert(start, len);
        self.by_len.insert((len, start));
        self.total += len;
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.by_start.remove(&start);
        self.by_len.remove(&(len, start));
        self.total -= len;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A region as a list of cells, each free or not: what `Stretches` must agree with.
    fn runs(cells: &[bool], chunk: usize) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        for (i, free) in cells.iter().enumerate() {
            if !free {
                continue;
            }
            match found.last_mut() {
                Some((start, len)) if *start + *len == i as u64 && i % chunk != 0 => *len += 1,
                _ => found.push((i as u64, 1)),
            }
        }
        found
    }

    proptest! {
        #[test]
        fn stretches_are_what_is_free(steps in prop::collection::vec((0u8..3, 1u64..9), 1..120)) {
            // Cells of 64 bytes, borders every 16 cells.
            let cell = 64;
            let mut cells = vec![false; 64];
            let mut stretches = Stretches::new(16 * cell);
            let mut taken: Vec<(u64, u64)> = (0..64).map(|i| (i, 1)).collect();
            for (what, n) in steps {
                match what {
                    0 => {
                        if let Some(start) = stretches.take(n * cell) {
                            let start = start / cell;
                            // The shortest that is long enough.
                            let best = runs(&cells, 16).into_iter().filter(|(_, len)| *len >= n)
                                .map(|(_, len)| len).min();
                            let whole = runs(&cells, 16).into_iter().find(|(s, _)| *s == start);
                            prop_assert_eq!(whole.map(|(_, len)| len), best);
                            for i in start..start + n {
                                prop_assert!(std::mem::replace(&mut cells[i as usize], false));
                            }
                            taken.push((start, n));
                        } else {
                            prop_assert!(runs(&cells, 16).iter().all(|(_, len)| *len < n));
                        }
                    }
                    1 => {
                        let Some((start, len)) = taken.pop() else { continue };
                        stretches.add(start * cell, len * cell);
                        cells[start as usize..(start + len) as usize].fill(true);
                    }
                    _ => {
                        // Units of four cells.
                        let units = |cells: &[bool]| cells.chunks(4).filter(|c| c.iter().all(|f| *f)).count();
                        let before = units(&cells);
                        let cuts = stretches.take_units(n * cell, 4 * cell);
                        let cut: u64 = cuts.iter().map(|cut| cut.end - cut.start).sum();
                        prop_assert_eq!(cut, (n / 4).min(before as u64) * 4 * cell);
                        for cut in cuts {
                            prop_assert!(cut.start.is_multiple_of(4 * cell) && cut.end.is_multiple_of(4 * cell));
                            let cut = cut.start / cell..cut.end / cell;
                            cells[cut.start as usize..cut.end as usize].fill(false);
                            taken.insert(0, (cut.start, cut.end - cut.start));
                        }
                    }
                }
                let expected: Vec<_> =
                    runs(&cells, 16).into_iter().map(|(s, n)| (s * cell, n * cell)).collect();
                prop_assert_eq!(stretches.iter().collect::<Vec<_>>(), expected);
                prop_assert_eq!(stretches.total(), cells.iter().filter(|free| **free).count() as u64 * cell);
            }
        }
    }
}
