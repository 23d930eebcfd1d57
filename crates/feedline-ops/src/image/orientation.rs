//! Which way up a picture is, by its EXIF data.

use super::Picture;

/// The eight EXIF orientations, named by what must be done to see the picture upright.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Orientation {
    #[default]
    Upright = 1,
    FlipHorizontal = 2,
    Rotate180 = 3,
    FlipVertical = 4,
    Transpose = 5,
    Rotate90 = 6,
    Transverse = 7,
    Rotate270 = 8,
}

impl Orientation {
    /// The orientation of an EXIF block that starts with its byte order (`II` or `MM`). A broken block and one
    /// that does not say mean upright: broken EXIF is common and the pixels are fine.
    pub(crate) fn of_exif(block: &[u8]) -> Self {
        match image::metadata::Orientation::from_exif_chunk(block) {
            Some(found) => Self::from_exif(found.to_exif()),
            None => Self::Upright,
        }
    }

    /// The orientation with this number; those out of range are upright.
    pub fn from_exif(number: u8) -> Self {
        match number {
            2 => Self::FlipHorizontal,
            3 => Self::Rotate180,
            4 => Self::FlipVertical,
            5 => Self::Transpose,
            6 => Self::Rotate90,
            7 => Self::Transverse,
            8 => Self::Rotate270,
            _ => Self::Upright,
        }
    }

    /// Whether width and height change places.
    pub fn swaps_sides(self) -> bool {
        self as u8 >= 5
    }

    /// Turns `from` upright into `to`.
    pub fn apply(self, from: &Picture, to: &mut Picture) {
        let (width, height, channels) = (from.width(), from.height(), from.channels());
        let (out_width, out_height) =
            if self.swaps_sides() { (height, width) } else { (width, height) };
        let out = to.reset(out_width, out_height, channels);
        let pixels = from.pixels();
        for (y, row) in out.chunks_exact_mut(out_width * channels).enumerate() {
            for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                let (from_x, from_y) = match self {
                    Self::Upright => (x, y),
                    Self::FlipHorizontal => (width - 1 - x, y),
                    Self::Rotate180 => (width - 1 - x, height - 1 - y),
                    Self::FlipVertical => (x, height - 1 - y),
                    Self::Transpose => (y, x),
                    Self::Rotate90 => (y, height - 1 - x),
                    Self::Transverse => (width - 1 - y, height - 1 - x),
                    Self::Rotate270 => (width - 1 - y, x),
                };
                let at = (from_y * width + from_x) * channels;
                pixel.copy_from_slice(&pixels[at..at + channels]);
            }
        }
    }
}
