//! Walking along a line of the new grid through the old one, whichever way it lies.

use std::ops::Range;

use crate::{Move, Region, Shape};

/// Coordinates in parts of a voxel: 32 bits after the point.
pub(super) const ONE: i64 = 1 << 32;

/// Coordinates beyond this are nowhere near a volume; sums of two of them do not overflow.
const FAR: f64 = (1u64 << 28) as f64;

pub(super) fn fixed(coordinate: f64) -> i64 {
    (coordinate.clamp(-FAR, FAR) * ONE as f64).round() as i64
}

/// A line: where its first voxel is in the region's own coordinates, and how far apart voxels are.
#[derive(Copy, Clone, Debug)]
pub(super) struct Line {
    pub(super) at: [i64; 3],
    pub(super) step: [i64; 3],
}

/// All lines of a region of the new grid, in the coordinates of a region of the old one.
pub(super) struct Walk {
    map: crate::Map,
    start: [usize; 3],
    old: [usize; 3],
    step: [i64; 3],
}

impl Walk {
    pub(super) fn new(step: &Move, from: Region, to: Region) -> Walk {
        let along = std::array::from_fn(|row| fixed(step.map.linear[row][2]));
        Walk { map: step.map, start: to.start, old: from.start, step: along }
    }

    /// The line in this row of this plane.
    pub(super) fn line(&self, plane: usize, row: usize) -> Line {
        let index = [self.start[0] + plane, self.start[1] + row, self.start[2]];
        let at = self.map.of(index.map(|x| x as f64));
        let at = std::array::from_fn(|axis| fixed(at[axis] - self.old[axis] as f64));
        Line { at, step: self.step }
    }
}

impl Line {
    /// The place of voxel `i`.
    #[inline(always)]
    pub(super) fn place(&self, i: usize) -> [i64; 3] {
        std::array::from_fn(|axis| {
            self.at[axis].wrapping_add(self.step[axis].wrapping_mul(i as i64))
        })
    }

    /// The same line from voxel `i` on.
    pub(super) fn from(&self, i: usize) -> Line {
        Line { at: self.place(i), step: self.step }
    }

    /// Whether each of the first `count` voxels has its eight neighbours in a box of this shape. (Along an axis with
    /// one voxel alone it is its own neighbour.) Coordinates only grow or only shrink, so the two ends tell.
    pub(super) fn stays_in(&self, shape: Shape, count: usize) -> bool {
        let Some(steps) = count.checked_sub(1).and_then(|steps| i64::try_from(steps).ok()) else {
            return count == 0;
        };
        (0..3).all(|axis| {
            let (first, cells) = (self.at[axis], shape[axis].max(2) - 1);
            let last = self.step[axis].checked_mul(steps).and_then(|far| first.checked_add(far));
            let inside = |at: i64| at >= 0 && ((at >> 32) as usize) < cells;
            inside(first) && last.is_some_and(inside)
        })
    }

    /// Which of `count` voxels lie from `low` to `high` along all axes, both included. Other voxels may be far away
    /// and their places too large to compute.
    pub(super) fn between(&self, low: [i64; 3], high: [i64; 3], count: usize) -> Range<usize> {
        let mut range = 0..count as i64;
        for axis in 0..3 {
            let (at, step) = (self.at[axis], self.step[axis]);
            let (low, high) = (low[axis] - at, high[axis] - at);
            let (first, last) = match step {
                0 if low <= 0 && 0 <= high => continue,
                0 => return 0..0,
                1.. => (ceil(low, step), floor(high, step)),
                _ => (ceil(-high, -step), floor(-low, -step)),
            };
            range = range.start.max(first)..range.end.min(last.saturating_add(1));
        }
        if range.start >= range.end { 0..0 } else { range.start as usize..range.end as usize }
    }
}

fn floor(number: i64, by: i64) -> i64 {
    number.div_euclid(by)
}

fn ceil(number: i64, by: i64) -> i64 {
    -(-number).div_euclid(by)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_range_has_exactly_the_voxels_between(
            at in proptest::array::uniform3(-50i64..50),
            step in proptest::array::uniform3(-7i64..7),
            low in proptest::array::uniform3(-30i64..30),
            over in proptest::array::uniform3(-3i64..60),
        ) {
            let line = Line { at, step };
            let high = std::array::from_fn(|axis| low[axis] + over[axis]);
            let inside = |i: &usize| {
                let place = line.place(*i);
                (0..3).all(|axis| low[axis] <= place[axis] && place[axis] <= high[axis])
            };
            let wanted: Vec<usize> = (0..40).filter(inside).collect();
            prop_assert_eq!(line.between(low, high, 40).collect::<Vec<_>>(), wanted);
        }

        #[test]
        fn a_line_stays_in_a_box_if_each_voxel_has_its_neighbours_there(
            at in proptest::array::uniform3(-2i64..9),
            step in proptest::array::uniform3(-6i64..6),
            shape in proptest::array::uniform3(1usize..6),
            count in 0usize..12,
        ) {
            // Coordinates in halves of a voxel.
            let line = Line { at: at.map(|x| x * (ONE / 2)), step: step.map(|x| x * (ONE / 2)) };
            let has_neighbours = |i: usize| {
                line.place(i).into_iter().zip(shape).all(|(at, side)| {
                    let first = at.div_euclid(ONE);
                    first >= 0 && (first + 1 < side as i64 || (side == 1 && first == 0))
                })
            };
            prop_assert_eq!(line.stays_in(shape, count), (0..count).all(has_neighbours));
        }
    }

    #[test]
    fn a_line_that_goes_beyond_all_numbers_stays_in_no_box() {
        let line = Line { at: [0; 3], step: [1 << 60, 0, 0] };
        assert!(line.stays_in([5; 3], 1));
        // Sixteen times this step is nothing, modulo 2^64.
        assert!(!line.stays_in([5; 3], 17));
    }
}
