//! Cutting out, and adding a border.

use crate::image::Picture;
use crate::image::action::{Area, Border, Fill, Size};

/// Keeps `area`, which lies within the picture.
pub(crate) fn crop(from: &Picture, area: Area, to: &mut Picture) {
    let channels = from.channels();
    to.reset(area.width, area.height, channels);
    let row = from.width() * channels;
    let run = area.width * channels;
    if run == 0 {
        return;
    }
    let start = area.top * row + area.left * channels;
    for (y, out) in to.pixels_mut().chunks_exact_mut(run).enumerate() {
        let at = start + y * row;
        out.copy_from_slice(&from.pixels()[at..at + run]);
    }
}

/// Makes a picture of `size` whose first pixel is the one at `(down, across)` of the old, which may lie outside
/// of it; what lies outside is made as `border` says. So it adds a border, or cuts out of one.
pub(crate) fn frame(
    from: &Picture,
    (down, across): (isize, isize),
    size: Size,
    border: Border,
    fill: Fill,
    to: &mut Picture,
) {
    let (height, width, channels) = (from.height(), from.width(), from.channels());
    to.reset(size.width, size.height, channels);
    let colour = colour(fill);
    // Columns that lie within the old picture are copied as they are.
    let first = (-across).clamp(0, size.width as isize) as usize;
    let end = (width as isize - across).clamp(first as isize, size.width as isize) as usize;
    for (y, out) in to.pixels_mut().chunks_exact_mut((size.width * channels).max(1)).enumerate() {
        let Some(row) = source(y as isize + down, height, border) else {
            out.chunks_exact_mut(channels).for_each(|p| p.copy_from_slice(&colour[..channels]));
            continue;
        };
        let row = &from.pixels()[row * width * channels..][..width * channels];
        let outside = |out: &mut [u8], columns: std::ops::Range<usize>| {
            for (out, x) in out.chunks_exact_mut(channels).zip(columns) {
                match source(x as isize + across, width, border) {
                    Some(x) => out.copy_from_slice(&row[x * channels..][..channels]),
                    None => out.copy_from_slice(&colour[..channels]),
                }
            }
        };
        let (before, rest) = out.split_at_mut(first * channels);
        let (inside, after) = rest.split_at_mut((end - first) * channels);
        outside(before, 0..first);
        if !inside.is_empty() {
            let at = (first as isize + across) as usize * channels;
            inside.copy_from_slice(&row[at..at + inside.len()]);
        }
        outside(after, end..size.width);
    }
}

/// A colour as bytes.
pub(crate) fn colour(fill: Fill) -> [u8; 3] {
    // torch converts to bytes by cutting the fraction off; `as` does too, and stays in range.
    fill.map(|value| value as u8)
}

/// Which of `length` pixels lies at `at`, which may be outside.
pub(crate) fn source(at: isize, length: usize, border: Border) -> Option<usize> {
    let length = length as isize;
    if (0..length).contains(&at) {
        return Some(at as usize);
    }
    if length == 0 {
        return None;
    }
    match border {
        Border::Constant => None,
        Border::Edge => Some(at.clamp(0, length - 1) as usize),
        Border::Reflect => {
            // Back and forth between the outermost pixels: a period of 2 (length - 1).
            let period = (2 * (length - 1)).max(1);
            let at = at.rem_euclid(period);
            Some(if at < length { at } else { period - at } as usize)
        }
        Border::Symmetric => {
            let at = at.rem_euclid(2 * length);
            Some(if at < length { at } else { 2 * length - 1 - at } as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_repeat_as_numpy_pads() {
        let along =
            |border| -> Vec<Option<usize>> { (-4..7).map(|at| source(at, 3, border)).collect() };
        let some = |all: [usize; 11]| all.map(Some).to_vec();
        assert_eq!(along(Border::Edge), some([0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]));
        assert_eq!(along(Border::Reflect), some([0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]));
        assert_eq!(along(Border::Symmetric), some([2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]));
        assert_eq!(along(Border::Constant)[..4], [None; 4]);
        assert_eq!(source(5, 1, Border::Reflect), Some(0), "one pixel mirrors to itself");
        assert_eq!(source(0, 0, Border::Edge), None);
    }
}
