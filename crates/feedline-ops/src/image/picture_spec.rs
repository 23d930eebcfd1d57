//! What to make of a picture, and which of its pixels that takes.

use feedline_resize::{Filter, PixelArea, Window};

use super::{Color, Flips, ImageError};

/// A part of a picture, in whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rect {
    /// The left column.
    pub x: u32,
    /// The upper row.
    pub y: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// What to make of a picture before its numbers are finished.
///
/// The order is that of a training pipeline: turn upright, crop, resize, take a window of that, flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureSpec {
    /// The part that is resized; the whole picture if `None`.
    pub crop: Option<Rect>,
    /// Height and width to which the crop is resized; as it is if `None`.
    pub size: Option<(u32, u32)>,
    /// The part of the resized crop that is wanted, as `Resize(256)` followed by `CenterCrop(224)` does; all of
    /// it if `None`. What lies outside is neither resized nor, where possible, decoded.
    pub window: Option<Rect>,
    /// Left becomes right.
    pub flip_horizontal: bool,
    /// Top becomes bottom.
    pub flip_vertical: bool,
    /// How new pixels are made of old ones.
    pub filter: Filter,
    /// Whether the pixels must be those of decoding everything at full size. If not, pictures whose crop is at
    /// least twice the wanted size are decoded at a half, a quarter or an eighth of theirs.
    pub exact: bool,
    /// Channels of the result.
    pub color: Color,
    /// Whether to turn the picture upright by its EXIF orientation first.
    pub orientation: bool,
}

impl Default for PictureSpec {
    fn default() -> Self {
        Self {
            crop: None,
            size: None,
            window: None,
            flip_horizontal: false,
            flip_vertical: false,
            filter: Filter::Bilinear,
            exact: false,
            color: Color::Rgb,
            orientation: false,
        }
    }
}

impl PictureSpec {
    pub(super) fn flips(&self) -> Flips {
        Flips { horizontal: self.flip_horizontal, vertical: self.flip_vertical }
    }
}

/// Where a result comes from, in the pixels of the whole picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Origin {
    /// Outside of these pixels the filter sees nothing.
    pub(super) crop: Rect,
    /// The part of the crop that becomes the result.
    pub(super) window: Window,
    /// Height and width of the result.
    pub(super) out: (usize, usize),
    /// Whether pixels are resized at all.
    pub(super) resizes: bool,
    /// Pixels of the crop per pixel of the result, across and down.
    step: (f64, f64),
    /// How far the filter reaches, in pixels of the result where it shrinks and of the crop where it enlarges.
    reach: f64,
}

impl Origin {
    /// Where the spec's result comes from in a picture of this width and height.
    pub(super) fn of(spec: &PictureSpec, (width, height): (u32, u32)) -> Result<Self, ImageError> {
        let crop = spec.crop.unwrap_or(Rect { x: 0, y: 0, width, height });
        crop.inside((width, height))?;
        let size = spec.size.unwrap_or((crop.height, crop.width));
        let part = spec.window.unwrap_or(Rect { x: 0, y: 0, width: size.1, height: size.0 });
        part.inside((size.1, size.0))?;
        let step =
            (f64::from(crop.width) / f64::from(size.1), f64::from(crop.height) / f64::from(size.0));
        let window = Window {
            x: f64::from(crop.x) + f64::from(part.x) * step.0,
            y: f64::from(crop.y) + f64::from(part.y) * step.1,
            width: f64::from(part.width) * step.0,
            height: f64::from(part.height) * step.1,
        };
        let reach = match spec.filter {
            Filter::Nearest | Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
        };
        let resizes = size != (crop.height, crop.width);
        let out = (part.height as usize, part.width as usize);
        Ok(Self { crop, window, out, resizes, step, reach })
    }

    /// The size at which to decode, in eighths: the smallest at which no pixel of the result has less than one
    /// of its own.
    pub(super) fn eighths(&self) -> u32 {
        match self.step.0.min(self.step.1) {
            _ if !self.resizes => 8,
            step if step >= 8.0 => 1,
            step if step >= 4.0 => 2,
            step if step >= 2.0 => 4,
            _ => 8,
        }
    }

    /// The pixels that the filter looks at, and the window, both in a picture scaled to so many eighths.
    pub(super) fn scaled(&self, eighths: u32) -> (PixelArea, Window) {
        let scale = f64::from(eighths) / 8.0;
        let window = Window {
            x: self.window.x * scale,
            y: self.window.y * scale,
            width: self.window.width * scale,
            height: self.window.height * scale,
        };
        let needed = |from: f64, length: f64, step: f64, crop_from: u32, crop_length: u32| {
            // One more on each side than the filter weighs, because its weights are rounded elsewhere.
            let reach = if self.resizes { self.reach * (step * scale).max(1.0) + 1.0 } else { 0.0 };
            let crop_to = f64::from(crop_from + crop_length) * scale;
            let first = (from - reach).max(f64::from(crop_from) * scale).floor();
            let end = (from + length + reach).min(crop_to).ceil();
            (first as usize, end as usize - first as usize)
        };
        let Rect { x, y, width, height } = self.crop;
        let (x, width) = needed(window.x, window.width, self.step.0, x, width);
        let (y, height) = needed(window.y, window.height, self.step.1, y, height);
        (PixelArea { x, y, width, height }, window)
    }
}

impl Rect {
    /// Refuses a part that is empty or reaches over the edge.
    fn inside(self, (width, height): (u32, u32)) -> Result<(), ImageError> {
        let fits = |from: u32, length: u32, whole: u32| {
            length > 0 && u64::from(from) + u64::from(length) <= u64::from(whole)
        };
        if fits(self.x, self.width, width) && fits(self.y, self.height, height) {
            return Ok(());
        }
        Err(ImageError::Crop {
            x: self.x,
            y: self.y,
            crop_width: self.width,
            crop_height: self.height,
            width,
            height,
        })
    }
}
