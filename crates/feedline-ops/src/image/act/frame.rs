//! Cutting out, and adding a border.

use crate::image::Picture;
use crate::image::action::{Area, Border, Fill};

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

/// Adds a border of so many columns and rows.
pub(crate) fn pad(
    from: &Picture,
    [left, top, right, bottom]: [usize; 4],
    border: Border,
    fill: Fill,
    to: &mut Picture,
) {
    let (height, width, channels) = (from.height(), from.width(), from.channels());
    let (new_height, new_width) = (height + top + bottom, width + left + right);
    to.reset(new_width, new_height, channels);
    let colour = colour(fill);
    let columns: Vec<Option<usize>> =
        (0..new_width).map(|x| source(x as isize - left as isize, width, border)).collect();
    for (y, out) in to.pixels_mut().chunks_exact_mut((new_width * channels).max(1)).enumerate() {
        let Some(row) = source(y as isize - top as isize, height, border) else {
            out.chunks_exact_mut(channels).for_each(|p| p.copy_from_slice(&colour[..channels]));
            continue;
        };
        let row = &from.pixels()[row * width * channels..][..width * channels];
        let outside = |out: &mut [u8], columns: &[Option<usize>]| {
            for (out, column) in out.chunks_exact_mut(channels).zip(columns) {
                match column {
                    Some(x) => out.copy_from_slice(&row[x * channels..][..channels]),
                    None => out.copy_from_slice(&colour[..channels]),
                }
            }
        };
        let (before, rest) = out.split_at_mut(left * channels);
        let (inside, after) = rest.split_at_mut(row.len());
        outside(before, &columns[..left]);
        inside.copy_from_slice(row);
        outside(after, &columns[left + width..]);
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
