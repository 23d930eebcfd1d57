//! Blurring by a Gaussian bell.

use super::frame::source;
use crate::image::Picture;
use crate::image::action::Border;

/// The weights of a bell of deviation `sigma`, cut to `length` pixels.
fn bell(length: usize, sigma: f64) -> Vec<f32> {
    let middle = (length as f64 - 1.0) / 2.0;
    let weights: Vec<f64> =
        (0..length).map(|i| (-((i as f64 - middle) / sigma).powi(2) / 2.0).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|w| (w / total) as f32).collect()
}

/// Blurs with a kernel of so many columns and rows; the picture is mirrored at its edges. `middle` is
/// memory to work in.
pub(crate) fn blur(
    picture: &mut Picture,
    (columns, rows): (usize, usize),
    sigma: f64,
    middle: &mut Vec<f32>,
) {
    let (height, width, channels) = (picture.height(), picture.width(), picture.channels());
    if height == 0 || width == 0 {
        return;
    }
    let row = width * channels;
    middle.clear();
    middle.resize(height * row, 0.0);
    let across = bell(columns, sigma);
    let from_columns: Vec<usize> = (0..width + columns - 1)
        .map(|x| mirrored(x as isize - (columns / 2) as isize, width) * channels)
        .collect();
    for (out, from) in middle.chunks_exact_mut(row).zip(picture.pixels().chunks_exact(row)) {
        for (x, out) in out.chunks_exact_mut(channels).enumerate() {
            for (weight, at) in across.iter().zip(&from_columns[x..]) {
                for (out, value) in out.iter_mut().zip(&from[*at..]) {
                    *out += weight * f32::from(*value);
                }
            }
        }
    }
    let down = bell(rows, sigma);
    let mut sum = vec![0f32; row];
    for y in 0..height {
        sum.fill(0.0);
        for (i, weight) in down.iter().enumerate() {
            let from = mirrored((y + i) as isize - (rows / 2) as isize, height);
            for (sum, value) in sum.iter_mut().zip(&middle[from * row..][..row]) {
                *sum += weight * value;
            }
        }
        for (out, sum) in picture.pixels_mut()[y * row..][..row].iter_mut().zip(&sum) {
            *out = sum.round_ties_even() as u8;
        }
    }
}

/// Smooths a field of numbers, `width` to a row, in place: by bells of these deviations, cut to so many columns and
/// rows. The field is mirrored at its edges.
pub(crate) fn smooth(
    field: &mut [f32],
    width: usize,
    (columns, rows): (usize, usize),
    sigma: (f64, f64),
) {
    let height = field.len() / width.max(1);
    if height == 0 || width == 0 {
        return;
    }
    let across = bell(columns, sigma.0);
    let places: Vec<usize> = (0..width + columns - 1)
        .map(|x| mirrored(x as isize - (columns / 2) as isize, width))
        .collect();
    let mut longer = vec![0f32; places.len()];
    for row in field.chunks_exact_mut(width) {
        for (longer, place) in longer.iter_mut().zip(&places) {
            *longer = row[*place];
        }
        row.fill(0.0);
        for (i, weight) in across.iter().enumerate() {
            add(row, &longer[i..], *weight);
        }
    }
    let down = bell(rows, sigma.1);
    let before = field.to_vec();
    for (y, row) in field.chunks_exact_mut(width).enumerate() {
        row.fill(0.0);
        for (i, weight) in down.iter().enumerate() {
            let from = mirrored((y + i) as isize - (rows / 2) as isize, height);
            add(row, &before[from * width..][..width], *weight);
        }
    }
}

fn add(to: &mut [f32], values: &[f32], weight: f32) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += weight * value;
    }
}

fn mirrored(at: isize, length: usize) -> usize {
    source(at, length, Border::Reflect).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_sums_to_one_and_is_symmetric() {
        for (length, sigma) in [(1, 0.5), (5, 1.1), (23, 2.0), (9, 0.1)] {
            let bell = bell(length, sigma);
            assert!((bell.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            assert!((0..length).all(|i| bell[i] == bell[length - 1 - i]));
        }
    }
}
