//! New voxels that are old ones.

use std::ops::Range;

use super::tables::OUTSIDE;
use super::wide::wide;

wide! {
    /// Writes every new voxel, given where along each axis the old ones are.
    pub(super) fn copy<T: Copy, O: Copy>(
        from: &[T],
        tables: &[Vec<usize>; 3],
        out: &mut [O],
        fill: O,
        convert: impl Fn(T) -> O,
    ) {
        let [planes, rows, columns] = tables;
        let columns = LineSources::new(columns);
        let length = columns.places.len();
        let plane_length = rows.len() * length;
        for (z, plane) in planes.iter().enumerate() {
            let start = z * plane_length;
            // Where voxels become smaller, planes and rows are repeated.
            if z > 0 && planes[z - 1] == *plane {
                out.copy_within(start - plane_length..start, start);
                continue;
            }
            for (y, row) in rows.iter().enumerate() {
                let start = start + y * length;
                if y > 0 && rows[y - 1] == *row {
                    out.copy_within(start - length..start, start);
                    continue;
                }
                let line = &mut out[start..start + length];
                if *plane == OUTSIDE || *row == OUTSIDE || columns.inside.is_empty() {
                    line.fill(fill);
                } else {
                    line[..columns.inside.start].fill(fill);
                    line[columns.inside.end..].fill(fill);
                    columns.copy(&from[plane + row..], &mut line[columns.inside.clone()], &convert);
                }
            }
        }
    }
}

/// Where the voxels of a line are in the old one.
struct LineSources<'a> {
    places: &'a [usize],
    /// Which of them are not outside: places outside are at the two ends.
    inside: Range<usize>,
    /// The least and the largest of those.
    bounds: (usize, usize),
    way: Way,
}

/// How a line is gone along.
enum Way {
    Forwards,
    Backwards,
    Anyhow,
}

impl LineSources<'_> {
    fn new(places: &[usize]) -> LineSources<'_> {
        let start = places.iter().position(|place| *place != OUTSIDE).unwrap_or(places.len());
        let end = places.iter().rposition(|place| *place != OUTSIDE).map_or(start, |last| last + 1);
        let inner = &places[start..end];
        let low = inner.iter().copied().min().unwrap_or(0);
        let high = inner.iter().copied().max().unwrap_or(0);
        let all = |next: fn(usize) -> usize| inner.windows(2).all(|pair| next(pair[0]) == pair[1]);
        let way = if all(|place| place.wrapping_add(1)) {
            Way::Forwards
        } else if all(|place| place.wrapping_sub(1)) {
            Way::Backwards
        } else {
            Way::Anyhow
        };
        LineSources { places, inside: start..end, bounds: (low, high), way }
    }

    /// Writes the part of a line that is not outside.
    #[inline(always)]
    fn copy<T: Copy, O>(&self, from: &[T], to: &mut [O], convert: impl Fn(T) -> O) {
        let (low, high) = self.bounds;
        let from = &from[low..=high];
        match self.way {
            Way::Forwards => to.iter_mut().zip(from).for_each(|(to, from)| *to = convert(*from)),
            Way::Backwards => {
                to.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = convert(*from));
            }
            Way::Anyhow => {
                for (to, place) in to.iter_mut().zip(&self.places[self.inside.clone()]) {
                    // SAFETY: `LineSources::new` found the least and the largest of just these places, and `from` goes
                    // from one to the other.
                    let from = unsafe {
                        debug_assert!(place - low < from.len());
                        *from.get_unchecked(place - low)
                    };
                    *to = convert(from);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Places along an axis, some of them outside at both ends.
    fn some_table(side: usize, stride: usize) -> impl Strategy<Value = Vec<usize>> {
        let inner = prop_oneof![
            proptest::collection::vec(0..side, 0..8),
            (0..side).prop_map(move |from| (from..side).collect()),
            (0..side).prop_map(move |from| (from..side).rev().collect()),
            (0..side).prop_map(move |from| (from..side).flat_map(|x| [x, x]).collect()),
        ];
        (inner, 0usize..3, 0usize..3).prop_map(move |(inner, before, after)| {
            let inner = inner.into_iter().map(|place| place * stride);
            let outside = |count| std::iter::repeat_n(OUTSIDE, count);
            outside(before).chain(inner).chain(outside(after)).collect()
        })
    }

    proptest! {
        #[test]
        fn every_voxel_is_the_one_that_the_tables_say(
            planes in some_table(4, 30),
            rows in some_table(5, 6),
            columns in some_table(6, 1),
        ) {
            let from: Vec<u8> = (0..120).collect();
            let place = |z: usize, y: usize, x: usize| {
                if [z, y, x].contains(&OUTSIDE) { -1 } else { i16::from(from[z + y + x]) }
            };
            let mut wanted = Vec::new();
            for z in &planes {
                for y in &rows {
                    wanted.extend(columns.iter().map(|x| place(*z, *y, *x)));
                }
            }
            let mut got = vec![0i16; wanted.len()];
            copy(&from, &[planes, rows, columns], &mut got, -1, i16::from);
            prop_assert_eq!(got, wanted);
        }
    }
}
