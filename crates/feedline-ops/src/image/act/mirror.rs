//! Mirroring, and turning by quarters: pixels move as they are.

use crate::image::{Picture, flip};

/// Swaps left and right.
pub(crate) fn flip_horizontally(picture: &mut Picture) {
    let (width, channels) = (picture.width(), picture.channels());
    flip::horizontal(picture.pixels_mut(), width, channels);
}

/// Swaps top and bottom.
pub(crate) fn flip_vertically(picture: &mut Picture) {
    let row = picture.width() * picture.channels();
    flip::vertical(picture.pixels_mut(), row);
}

/// Turns by so many quarters, counter-clockwise.
pub(crate) fn turn(from: &Picture, quarters: u8, to: &mut Picture) {
    let (height, width, channels) = (from.height(), from.width(), from.channels());
    let new_width = if quarters % 2 == 1 { height } else { width };
    let new_height = if quarters % 2 == 1 { width } else { height };
    let out = to.reset(new_width, new_height, channels);
    let pixels = from.pixels();
    for (at, out) in out.chunks_exact_mut(channels).enumerate() {
        let (y, x) = (at / new_width, at % new_width);
        let (from_y, from_x) = match quarters % 4 {
            0 => (y, x),
            1 => (x, width - 1 - y),
            2 => (height - 1 - y, width - 1 - x),
            _ => (height - 1 - x, y),
        };
        out.copy_from_slice(&pixels[(from_y * width + from_x) * channels..][..channels]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(height: usize, width: usize, channels: usize) -> Picture {
        let mut picture = Picture::default();
        picture.reset(width, height, channels);
        for (i, value) in picture.pixels_mut().iter_mut().enumerate() {
            *value = i as u8;
        }
        picture
    }

    #[test]
    fn flips_undo_themselves() {
        for (height, width, channels) in [(3, 5, 3), (4, 4, 1), (1, 7, 3), (6, 1, 1)] {
            let before = numbered(height, width, channels);
            let mut after = before.clone();
            flip_horizontally(&mut after);
            assert_eq!(
                after.pixels()[..channels],
                before.pixels()[(width - 1) * channels..][..channels]
            );
            flip_horizontally(&mut after);
            flip_vertically(&mut after);
            flip_vertically(&mut after);
            assert_eq!(after.pixels(), before.pixels());
        }
    }

    #[test]
    fn four_quarters_are_a_whole_turn_and_two_are_both_flips() {
        let before = numbered(3, 5, 3);
        let (mut now, mut next) = (before.clone(), Picture::default());
        for quarter in 1..=4 {
            turn(&now, 1, &mut next);
            std::mem::swap(&mut now, &mut next);
            turn(&before, quarter, &mut next);
            assert_eq!(now.pixels(), next.pixels());
            assert_eq!((now.height(), now.width()), (next.height(), next.width()));
        }
        assert_eq!(now.pixels(), before.pixels());
        turn(&before, 2, &mut next);
        flip_horizontally(&mut next);
        flip_vertically(&mut next);
        assert_eq!(next.pixels(), before.pixels());
    }

    #[test]
    fn a_quarter_brings_the_right_edge_to_the_top() {
        let before = numbered(2, 3, 1);
        let mut after = Picture::default();
        turn(&before, 1, &mut after);
        assert_eq!(after.pixels(), [2, 5, 1, 4, 0, 3]);
    }
}
