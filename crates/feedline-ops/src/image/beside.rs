//! Boxes and keypoints that lie on a picture and move with it.
//!
//! Coordinates are in pixels from the upper left corner, x before y, in single precision, and move as
//! torchvision moves its `BoundingBoxes` (x0, y0, x1, y1) and `KeyPoints`.

use super::action::{Action, Size};

/// Moves boxes (x0, y0, x1, y1 each) along with a picture of `size`. What leaves the picture is cut off.
pub fn move_boxes(actions: &[Action], mut size: Size, boxes: &mut [f32]) {
    for action in actions {
        let after = action.size_after(size);
        for corners in boxes.as_chunks_mut::<4>().0 {
            *corners = moved_box(action, size, *corners);
            if action.moves_pixels() {
                clamp(corners, after);
            }
        }
        size = after;
    }
}

/// Moves points (x, y each) along with a picture of `size`. They may leave it.
pub fn move_points(actions: &[Action], mut size: Size, points: &mut [f32]) {
    for action in actions {
        for point in points.as_chunks_mut::<2>().0 {
            *point = match action {
                // The middle of the first pixel becomes that of the last, not the edge the edge.
                Action::FlipHorizontally => [size.width as f32 - 1.0 - point[0], point[1]],
                Action::FlipVertically => [point[0], size.height as f32 - 1.0 - point[1]],
                _ => moved(action, size, *point),
            };
        }
        size = action.size_after(size);
    }
}

fn moved_box(action: &Action, size: Size, [x0, y0, x1, y1]: [f32; 4]) -> [f32; 4] {
    let corners = match action {
        Action::Warp(_) | Action::Perspective(_) => [[x0, y0], [x1, y0], [x1, y1], [x0, y1]],
        // Of the pixels that lie at or after the corners, as torchvision has it.
        Action::Elastic(_) => {
            let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(f32::ceil);
            [[x0, y0], [x1, y0], [x1, y1], [x0, y1]]
        }
        // Along the axes two corners tell everything.
        _ => [[x0, y0], [x1, y1], [x0, y0], [x1, y1]],
    };
    let corners = corners.map(|corner| moved(action, size, corner));
    let least = |axis: usize| corners.iter().map(|c| c[axis]).fold(f32::INFINITY, f32::min);
    let most = |axis: usize| corners.iter().map(|c| c[axis]).fold(f32::NEG_INFINITY, f32::max);
    [least(0), least(1), most(0), most(1)]
}

fn clamp(corners: &mut [f32; 4], size: Size) {
    for (i, at) in corners.iter_mut().enumerate() {
        *at = at.clamp(0.0, if i % 2 == 0 { size.width } else { size.height } as f32);
    }
}

/// Where a point of the plane goes.
fn moved(action: &Action, size: Size, [x, y]: [f32; 2]) -> [f32; 2] {
    let (width, height) = (size.width as f32, size.height as f32);
    match action {
        Action::Crop(area) => [x - area.left as f32, y - area.top as f32],
        Action::Pad { left, top, .. } => [x + *left as f32, y + *top as f32],
        Action::Resize { to, .. } => {
            // The ratio in double precision, as Python computes it.
            let across = to.width as f64 / size.width.max(1) as f64;
            let down = to.height as f64 / size.height.max(1) as f64;
            [x * across as f32, y * down as f32]
        }
        Action::FlipHorizontally => [width - x, y],
        Action::FlipVertically => [x, height - y],
        Action::Turn(quarters) => match quarters % 4 {
            1 => [y, width - x],
            2 => [width - x, height - y],
            3 => [height - y, x],
            _ => [x, y],
        },
        Action::Warp(warp) => {
            let m = warp.forward.map(|m| m as f32);
            [x * m[0] + y * m[1] + m[2], x * m[3] + y * m[4] + m[5]]
        }
        Action::Perspective(map) => map.moved([x, y]),
        Action::Elastic(map) => map.moved([x, y]),
        Action::Tone(_)
        | Action::Mix(_)
        | Action::Blur { .. }
        | Action::Gray(_)
        | Action::Erase { .. } => [x, y],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::action::Area;

    #[test]
    fn boxes_are_cut_at_the_edge_of_a_crop_and_points_are_not() {
        let crop = Action::Crop(Area { top: 10, left: 20, height: 30, width: 40 });
        let mut boxes = [15.0, 5.0, 100.0, 20.0];
        move_boxes(std::slice::from_ref(&crop), Size::new(100, 200), &mut boxes);
        assert_eq!(boxes, [0.0, 0.0, 40.0, 10.0]);
        let mut points = [15.0, 5.0];
        move_points(&[crop], Size::new(100, 200), &mut points);
        assert_eq!(points, [-5.0, -5.0]);
    }

    #[test]
    fn a_flipped_box_stays_a_box() {
        let mut boxes = [1.0, 2.0, 5.0, 9.0];
        let flips = [Action::FlipHorizontally, Action::FlipVertically];
        move_boxes(&flips, Size::new(10, 20), &mut boxes);
        assert_eq!(boxes, [15.0, 1.0, 19.0, 8.0]);
    }
}
