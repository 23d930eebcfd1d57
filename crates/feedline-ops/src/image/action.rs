//! What is done to one picture, with every random parameter drawn.
//!
//! An [`Operation`](super::op::Operation) is what a user asks for; given a picture's size and a random
//! stream it becomes actions. All actions of a chain are drawn before the first pixel is decoded, so
//! that the decoder can be told what is needed, and so that masks, boxes and keypoints can follow the
//! same geometry.

use super::act::{Displacement, Perspective, Tone, Warp};

/// Height and width in pixels.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Size {
    /// A size from its height and width.
    #[must_use]
    pub const fn new(height: usize, width: usize) -> Size {
        Size { height, width }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.height, self.width)
    }
}

/// A rectangle of a picture.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its first row.
    pub top: usize,
    /// Its first column.
    pub left: usize,
    /// Its rows.
    pub height: usize,
    /// Its columns.
    pub width: usize,
}

impl Area {
    /// All of a picture.
    #[must_use]
    pub const fn whole(size: Size) -> Area {
        Area { top: 0, left: 0, height: size.height, width: size.width }
    }

    /// Its size.
    #[must_use]
    pub const fn size(&self) -> Size {
        Size::new(self.height, self.width)
    }
}

/// What a border is made of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Border {
    /// One colour.
    Constant,
    /// The outermost pixel, repeated.
    Edge,
    /// The picture mirrored, without its outermost pixel.
    Reflect,
    /// The picture mirrored, with its outermost pixel.
    Symmetric,
}

/// How pixels between pixels are made.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interpolation {
    /// The nearest pixel (torch's `nearest`: the one at the floor of the coordinate when resizing).
    Nearest,
    /// A weighted mean of the neighbours.
    Bilinear,
    /// A cubic through the neighbours; for resizing only.
    Bicubic,
}

/// A colour for pixels that come from nowhere: one value per channel.
pub type Fill = [f32; 3];

/// One thing done to a picture.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Keeps an area, which lies within the picture.
    Crop(Area),
    /// Adds a border.
    Pad {
        /// Columns on the left.
        left: usize,
        /// Rows on top.
        top: usize,
        /// Columns on the right.
        right: usize,
        /// Rows below.
        bottom: usize,
        /// What the border is made of.
        border: Border,
        /// Its colour, if it is of one.
        fill: Fill,
    },
    /// Makes it another size.
    Resize {
        /// The new size.
        to: Size,
        /// How pixels are made.
        interpolation: Interpolation,
        /// Whether each new pixel is made of all old ones it covers.
        antialias: bool,
    },
    /// Swaps left and right.
    FlipHorizontally,
    /// Swaps top and bottom.
    FlipVertically,
    /// Turns by so many quarters, counter-clockwise.
    Turn(u8),
    /// Moves every pixel by an affine map.
    Warp(Box<Warp>),
    /// Moves every pixel by a perspective map.
    Perspective(Box<Perspective>),
    /// Moves every pixel by a shift of its own.
    Elastic(Displacement),
    /// Changes colours.
    Tone(Tone),
    /// Blends it with changed copies of itself.
    Mix(Box<Mix>),
    /// Blurs by a Gaussian bell.
    Blur {
        /// Columns and rows of the kernel, both odd.
        kernel: (usize, usize),
        /// Deviation of the bell, in pixels.
        sigma: f64,
    },
    /// Makes it gray, of so many equal channels; of as many as it has, if none are given.
    Gray(Option<usize>),
    /// Paints an area over.
    Erase {
        /// Where.
        area: Area,
        /// With what.
        fill: Fill,
    },
}

/// What a picture is blended of.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// The weight of the picture as it is.
    pub original: f32,
    /// Copies of it: the weight of each, and what is done to it, which leaves its size.
    pub chains: Vec<(f32, Vec<Action>)>,
}

impl Action {
    /// The size of a picture after it.
    #[must_use]
    pub fn size_after(&self, size: Size) -> Size {
        match self {
            Action::Crop(area) => area.size(),
            Action::Pad { left, top, right, bottom, .. } => {
                Size::new(size.height + top + bottom, size.width + left + right)
            }
            Action::Resize { to, .. } => *to,
            Action::Turn(quarters) if quarters % 2 == 1 => Size::new(size.width, size.height),
            Action::Warp(warp) => warp.size,
            _ => size,
        }
    }

    /// Whether masks, boxes and keypoints follow it.
    pub(crate) fn moves_pixels(&self) -> bool {
        !matches!(
            self,
            Action::Tone(_)
                | Action::Mix(_)
                | Action::Blur { .. }
                | Action::Gray(_)
                | Action::Erase { .. }
        )
    }
}
