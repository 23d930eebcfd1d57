//! Elastic maps: every pixel is moved by a little of its own.

use std::sync::Arc;

use super::grid::sample;
use crate::image::Picture;
use crate::image::action::{Fill, Size};

/// An elastic map with everything drawn. Pictures keep their size.
#[derive(Clone, Debug, PartialEq)]
pub struct Displacement {
    /// How far each pixel comes from elsewhere, across and down: row by row, as parts of half the width and height.
    pub shifts: Arc<[[f32; 2]]>,
    /// The size of the picture.
    pub size: Size,
    /// Whether neighbours are blended; else the nearest is taken.
    pub smooth: bool,
    /// The colour of what comes from outside; `None` is black without blending.
    pub fill: Option<Fill>,
}

impl Displacement {
    /// Where the pixel at the floor of a point goes, nearly: what is shifted there is taken back here.
    pub(crate) fn moved(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let Size { height, width } = self.size;
        // `as` stays in range, and makes nothing of what is no number.
        let (x, y) = ((x as usize).min(width.max(1) - 1), (y as usize).min(height.max(1) - 1));
        let Some([across, down]) = self.shifts.get(y * width + x) else { return [0.0; 2] };
        let back = |at: usize, side: usize, shift: f32| {
            (middle(at, side) - shift + 1.0) * (0.5 * side as f32) - 0.5
        };
        [back(x, width, *across), back(y, height, *down)]
    }
}

/// The middle of pixel `at` of `side`, where the picture goes from -1 to 1.
fn middle(at: usize, side: usize) -> f32 {
    if side < 2 {
        return 0.0;
    }
    // As torch's linspace: from whichever end is nearer.
    let end = ((side as f64 - 1.0) / side as f64) as f32;
    let step = 2.0 * end / (side - 1) as f32;
    if at < side / 2 {
        step.mul_add(at as f32, -end)
    } else {
        (-step).mul_add((side - at - 1) as f32, end)
    }
}

/// Moves every pixel.
pub(crate) fn displace(from: &Picture, map: &Displacement, to: &mut Picture) {
    let Size { height, width } = map.size;
    let columns: Vec<f32> = (0..width).map(|x| middle(x, width)).collect();
    let (columns, shifts) = (&columns[..], &map.shifts[..]);
    sample(from, map.size, map.smooth, map.fill, to, |row| {
        let y = middle(row, height);
        move |x: usize| {
            let [across, down] = shifts[row * width + x];
            (columns[x] + across, y + down)
        }
    });
}
