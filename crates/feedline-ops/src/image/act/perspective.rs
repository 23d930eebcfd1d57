//! Perspective maps: a rectangle becomes any four-sided figure.

use super::grid::{dot, sample};
use crate::image::Picture;
use crate::image::action::{Fill, Size};

/// A perspective map with everything drawn. Pictures keep their size.
#[derive(Clone, Debug, PartialEq)]
pub struct Perspective {
    /// Where an output pixel (x, y) comes from: `(ax + by + c) / (gx + hy + 1)`, `(dx + ey + f) / (gx + hy + 1)`.
    pub inverse: [f32; 8],
    /// Where an input point goes, in the same way.
    pub forward: [f32; 8],
    /// Whether neighbours are blended; else the nearest is taken.
    pub smooth: bool,
    /// The colour of what comes from outside; `None` is black without blending.
    pub fill: Option<Fill>,
}

impl Perspective {
    /// The map that moves the corners of a picture of `size` (upper left, upper right, lower right, lower left) to
    /// `corners`. `None` where no map does, because they fall on a line.
    #[must_use]
    pub fn to_corners(
        size: Size,
        corners: [(f64, f64); 4],
        smooth: bool,
        fill: Option<Fill>,
    ) -> Option<Perspective> {
        let (right, bottom) = (size.width as f64 - 1.0, size.height as f64 - 1.0);
        let from = [(0.0, 0.0), (right, 0.0), (right, bottom), (0.0, bottom)];
        let mut rows = [[0.0; 9]; 8];
        for (i, ((x, y), (u, v))) in corners.into_iter().zip(from).enumerate() {
            rows[2 * i] = [x, y, 1.0, 0.0, 0.0, 0.0, -u * x, -u * y, u];
            rows[2 * i + 1] = [0.0, 0.0, 0.0, x, y, 1.0, -v * x, -v * y, v];
        }
        let inverse = solved(rows)?.map(|value| value as f32);
        let forward = inverted(inverse.map(f64::from))?.map(|value| value as f32);
        Some(Perspective { inverse, forward, smooth, fill })
    }

    /// Where a point goes.
    pub(crate) fn moved(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let [a, b, c, d, e, f, g, h] = self.forward;
        let depth = dot([g, h, 1.0], x, y);
        [dot([a, b, c], x, y) / depth, dot([d, e, f], x, y) / depth]
    }
}

/// Solves eight linear equations by elimination; each row ends with its right side.
fn solved(mut rows: [[f64; 9]; 8]) -> Option<[f64; 8]> {
    for column in 0..8 {
        let size = |row: usize| rows[row][column].abs();
        let pivot = (column..8).max_by(|a, b| size(*a).total_cmp(&size(*b)))?;
        if size(pivot) < 1e-9 {
            return None;
        }
        rows.swap(column, pivot);
        let taken = rows[column];
        for (i, row) in rows.iter_mut().enumerate() {
            if i != column {
                let factor = row[column] / taken[column];
                row.iter_mut().zip(taken).for_each(|(value, taken)| *value -= factor * taken);
            }
        }
    }
    let solution: [f64; 8] = std::array::from_fn(|i| rows[i][8] / rows[i][i]);
    solution.iter().all(|value| value.is_finite()).then_some(solution)
}

/// The map that undoes another.
fn inverted([a, b, c, d, e, f, g, h]: [f64; 8]) -> Option<[f64; 8]> {
    let divisor = a * e - b * d;
    let inverse = [
        e - f * h,
        -b + c * h,
        b * f - c * e,
        -d + f * g,
        a - c * g,
        -a * f + c * d,
        -e * g + d * h,
        -a * h + b * g,
    ]
    .map(|value| value / divisor);
    inverse.iter().all(|value| value.is_finite()).then_some(inverse)
}

/// Moves every pixel.
pub(crate) fn perspective(from: &Picture, map: &Perspective, to: &mut Picture) {
    let (height, width) = (from.height(), from.width());
    let [a, b, c, d, e, f, g, h] = map.inverse;
    let (half_w, half_h) = (0.5 * width as f32, 0.5 * height as f32);
    let to_x = [a / half_w, b / half_w, c / half_w];
    let to_y = [d / half_h, e / half_h, f / half_h];
    sample(from, Size::new(height, width), map.smooth, map.fill, to, |row| {
        let y = row as f32 + 0.5;
        move |column| {
            let x = column as f32 + 0.5;
            let depth = dot([g, h, 1.0], x, y);
            (dot(to_x, x, y) / depth - 1.0, dot(to_y, x, y) / depth - 1.0)
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_go_where_they_were_sent_and_back() {
        let corners = [(3.0, 2.0), (38.0, 5.0), (35.0, 25.0), (1.0, 28.0)];
        let map = Perspective::to_corners(Size::new(30, 40), corners, true, None).unwrap();
        let from = [[0.0, 0.0], [39.0, 0.0], [39.0, 29.0], [0.0, 29.0]];
        for (corner, to) in from.into_iter().zip(corners) {
            let [x, y] = map.moved(corner);
            assert!((x - to.0 as f32).abs() < 1e-3 && (y - to.1 as f32).abs() < 1e-3, "{x} {y}");
        }
    }

    #[test]
    fn corners_on_a_line_make_no_map() {
        let size = Size::new(30, 40);
        assert_eq!(Perspective::to_corners(size, [(1.0, 1.0); 4], true, None), None);
        let line = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)];
        assert_eq!(Perspective::to_corners(size, line, true, None), None);
        let one = Size::new(1, 1);
        assert_eq!(Perspective::to_corners(one, [(0.0, 0.0); 4], true, None), None);
    }
}
