//! Affine maps: rotation, shear, scale, shift.
//!
//! The arithmetic is that of torch's `affine_grid` and `grid_sample` (single precision, coordinates
//! from -1 to 1), so that the pixels are torchvision's.

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
    let channels = from.channels();
    to.reset(warp.size.width, warp.size.height, channels);
    match channels {
        1 => run::<1>(from, warp, to),
        _ => run::<3>(from, warp, to),
    }
}

fn run<const C: usize>(from: &Picture, warp: &Warp, to: &mut Picture) {
    let (height, width) = (from.height(), from.width());
    if height == 0 || width == 0 || warp.size.width == 0 {
        return;
    }
    let m = warp.inverse.map(|x| x as f32);
    let (half_w, half_h) = (0.5 * width as f32, 0.5 * height as f32);
    // As torch: the matrix is divided, not the coordinates.
    let to_x = [m[0] / half_w, m[1] / half_w, m[2] / half_w];
    let to_y = [m[3] / half_h, m[4] / half_h, m[5] / half_h];
    let (out_h, out_w) = (warp.size.height as f32, warp.size.width as f32);
    let pixels: &[[u8; C]] = from.pixels().as_chunks::<C>().0;
    let fill: [f32; C] = std::array::from_fn(|c| warp.fill.unwrap_or_default()[c]);
    let rows = to.pixels_mut().chunks_exact_mut(warp.size.width * C);
    for (row, out) in rows.enumerate() {
        let y = row as f32 + (1.0 - out_h) * 0.5;
        // torch's matrix product adds this term by a fused multiplication, which doubles imitate. A
        // coordinate half-way between two pixels falls to the same side then.
        let (down_x, down_y) = [to_x[1], to_y[1]].map(|m| f64::from(y) * f64::from(m)).into();
        for (column, out) in out.as_chunks_mut::<C>().0.iter_mut().enumerate() {
            let x = column as f32 + (1.0 - out_w) * 0.5;
            let grid_x = (f64::from(x * to_x[0]) + down_x) as f32 + to_x[2];
            let grid_y = (f64::from(x * to_y[0]) + down_y) as f32 + to_y[2];
            let at_x = ((grid_x + 1.0) * width as f32 - 1.0) * 0.5;
            let at_y = ((grid_y + 1.0) * height as f32 - 1.0) * 0.5;
            *out = if warp.smooth {
                blend(pixels, (height, width), (at_y, at_x), warp.fill.is_some(), &fill)
            } else {
                let (y, x) = (at_y.round_ties_even(), at_x.round_ties_even());
                if y >= 0.0 && x >= 0.0 && y < height as f32 && x < width as f32 {
                    pixels[y as usize * width + x as usize]
                } else {
                    fill.map(round)
                }
            };
        }
    }
}

fn round(value: f32) -> u8 {
    value.round_ties_even() as u8
}

/// The bilinear mean of four neighbours, of which those outside are nothing.
fn blend<const C: usize>(
    pixels: &[[u8; C]],
    (height, width): (usize, usize),
    (at_y, at_x): (f32, f32),
    filled: bool,
    fill: &[f32; C],
) -> [u8; C] {
    let (top, left) = (at_y.floor(), at_x.floor());
    let (down, right) = (at_y - top, at_x - left);
    // Far outside nothing is added; the comparison also keeps the conversions below in range.
    let near = top >= -1.0 && left >= -1.0 && top < height as f32 && left < width as f32;
    let mut sum = [0f32; C];
    let mut inside = 0f32;
    if near {
        let (top, left) = (top as isize, left as isize);
        let corners = [
            (top, left, (1.0 - down) * (1.0 - right)),
            (top, left + 1, (1.0 - down) * right),
            (top + 1, left, down * (1.0 - right)),
            (top + 1, left + 1, down * right),
        ];
        for (y, x, weight) in corners {
            if y >= 0 && x >= 0 && (y as usize) < height && (x as usize) < width {
                let pixel = pixels[y as usize * width + x as usize];
                for c in 0..C {
                    sum[c] += f32::from(pixel[c]) * weight;
                }
                inside += weight;
            }
        }
    }
    std::array::from_fn(|c| {
        // torchvision weighs what is inside once more where a colour is given.
        round(if filled { (sum[c] - fill[c]) * inside + fill[c] } else { sum[c] })
    })
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
