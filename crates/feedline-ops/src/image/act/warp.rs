//! Affine maps: rotation, shear, scale, shift.
//!
//! The arithmetic is that of torch's `affine_grid` and `grid_sample` (single precision, coordinates
//! from -1 to 1), so that the pixels are torchvision's.

use super::grid::{dot, sample};
use crate::image::Picture;
use crate::image::action::{Fill, Size};

/// An affine map with everything drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Warp {
    /// Where an output pixel comes from: row-major 2x3, in pixels from the picture's centre.
    pub inverse: [f64; 6],
    /// Where an input point goes: row-major 2x3, in pixels from the picture's corner.
    pub forward: [f64; 6],
    /// The size of the result.
    pub size: Size,
    /// Whether neighbours are blended; else the nearest is taken.
    pub smooth: bool,
    /// The colour of what comes from outside; `None` is black without blending.
    pub fill: Option<Fill>,
}

/// The affine map that rotates by `angle`, scales and shears (degrees) about `center`, then shifts; or
/// its inverse. Row-major 2x3.
#[must_use]
pub fn affine_matrix(
    center: (f64, f64),
    angle: f64,
    shift: (f64, f64),
    scale: f64,
    shear: (f64, f64),
    inverted: bool,
) -> [f64; 6] {
    let (rotation, shear_x, shear_y) =
        (angle.to_radians(), shear.0.to_radians(), shear.1.to_radians());
    let ((cx, cy), (tx, ty)) = (center, shift);
    let a = (rotation - shear_y).cos() / shear_y.cos();
    let b = -(a * shear_x.tan() + rotation.sin());
    let c = (rotation - shear_y).sin() / shear_y.cos();
    let d = rotation.cos() - c * shear_x.tan();
    if inverted {
        let mut m = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0];
        m[2] = cx - m[0] * (cx + tx) - m[1] * (cy + ty);
        m[5] = cy - m[3] * (cx + tx) - m[4] * (cy + ty);
        m
    } else {
        let mut m = [a * scale, b * scale, 0.0, c * scale, d * scale, 0.0];
        m[2] = cx + tx - m[0] * cx - m[1] * cy;
        m[5] = cy + ty - m[3] * cx - m[4] * cy;
        m
    }
}

/// The size that holds all of a picture after the centred map `inverse` belongs to.
#[must_use]
pub fn expanded(inverse: &[f64; 6], size: Size) -> Size {
    let m = inverse.map(|x| x as f32);
    let (half_width, half_height) = (0.5 * size.width as f32, 0.5 * size.height as f32);
    let corners = [(-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0)]
        .map(|(x, y): (f32, f32)| (x * half_width, y * half_height));
    let spread = |row: &[f32], half: f32| {
        let along = corners.map(|(x, y)| x * row[0] + y * row[1] + row[2]);
        let least = along.iter().copied().fold(f32::INFINITY, f32::min) + half;
        let most = along.iter().copied().fold(f32::NEG_INFINITY, f32::max) + half;
        // Cut to 1e-4, so that rounding noise does not add a row.
        let cut = |x: f32| (x * 1e4).trunc() * 1e-4;
        (cut(most).ceil() - cut(least).floor()).max(1.0) as usize
    };
    Size::new(spread(&m[3..], half_height), spread(&m[..3], half_width))
}

/// Moves every pixel.
pub(crate) fn warp(from: &Picture, warp: &Warp, to: &mut Picture) {
    let m = warp.inverse.map(|x| x as f32);
    let (half_w, half_h) = (0.5 * from.width() as f32, 0.5 * from.height() as f32);
    // As torch: the matrix is divided, not the coordinates.
    let to_x = [m[0] / half_w, m[1] / half_w, m[2] / half_w];
    let to_y = [m[3] / half_h, m[4] / half_h, m[5] / half_h];
    let (out_h, out_w) = (warp.size.height as f32, warp.size.width as f32);
    sample(from, warp.size, warp.smooth, warp.fill, to, |row| {
        let y = row as f32 + (1.0 - out_h) * 0.5;
        move |column| {
            let x = column as f32 + (1.0 - out_w) * 0.5;
            (dot(to_x, x, y), dot(to_y, x, y))
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_matrix_undoes_the_forward_one() {
        let (center, shift, shear) = ((12.0, 7.5), (3.0, -2.0), (10.0, -5.0));
        let there = affine_matrix(center, 33.0, shift, 1.3, shear, false);
        let back = affine_matrix(center, 33.0, shift, 1.3, shear, true);
        for (x, y) in [(0.0, 0.0), (5.0, 9.0), (-4.0, 20.0)] {
            let (u, v) =
                (there[0] * x + there[1] * y + there[2], there[3] * x + there[4] * y + there[5]);
            let (x2, y2) =
                (back[0] * u + back[1] * v + back[2], back[3] * u + back[4] * v + back[5]);
            assert!((x - x2).abs() < 1e-9 && (y - y2).abs() < 1e-9);
        }
    }

    #[test]
    fn a_quarter_turn_expands_to_the_swapped_size() {
        let inverse = affine_matrix((0.0, 0.0), -90.0, (0.0, 0.0), 1.0, (0.0, 0.0), true);
        assert_eq!(expanded(&inverse, Size::new(30, 50)), Size::new(50, 30));
    }
}
