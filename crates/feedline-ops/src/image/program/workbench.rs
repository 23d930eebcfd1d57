//! The memory a worker keeps from picture to picture, and how actions are done in it.

use feedline_resize::{Source, Window};

use crate::image::act;
use crate::image::action::{Action, Area, Fill, Interpolation, Size};
use crate::image::{Filter, ImageError, Picture, Resizer, Scratch};

/// Buffers that a worker keeps from picture to picture.
#[derive(Debug, Default)]
pub struct Workbench {
    pub(super) scratch: Scratch,
    /// The picture at hand.
    pub(super) picture: Picture,
    pub(super) tools: Tools,
}

/// What actions need besides the picture.
#[derive(Debug, Default)]
pub(super) struct Tools {
    spare: Picture,
    floats: Vec<f32>,
    resizer: Resizer,
}

impl Tools {
    /// Does one action to a picture.
    pub(super) fn apply(
        &mut self,
        action: &Action,
        picture: &mut Picture,
    ) -> Result<(), ImageError> {
        let spare = &mut self.spare;
        // Either a new picture is made in `spare`, or this one is changed in place.
        let mut in_place = false;
        match action {
            Action::Crop(area) => act::crop(picture, *area, spare),
            Action::Pad { left, top, right, bottom, border, fill } => {
                act::pad(picture, [*left, *top, *right, *bottom], *border, *fill, spare);
            }
            Action::Resize { to, interpolation: Interpolation::Nearest, .. } => {
                act::resize_nearest(picture, *to, spare);
            }
            Action::Resize { to, interpolation, antialias } => {
                let filter = match (interpolation, antialias) {
                    (Interpolation::Bicubic, true) => Filter::Bicubic,
                    (_, true) => Filter::Bilinear,
                    (interpolation, false) => {
                        act::resize_plain(picture, *to, *interpolation, spare);
                        std::mem::swap(picture, spare);
                        return Ok(());
                    }
                };
                let (height, width) = (picture.height(), picture.width());
                let area = Area { top: 0, left: 0, height, width };
                resize(picture, area, *to, filter, &mut self.resizer, spare)?;
            }
            Action::Turn(quarters) => act::turn(picture, *quarters, spare),
            Action::Warp(warp) => act::warp(picture, warp, spare),
            changing => {
                in_place = true;
                match changing {
                    Action::FlipHorizontally => act::flip_horizontally(picture),
                    Action::FlipVertically => act::flip_vertically(picture),
                    Action::Tone(tone) => tone.apply(picture, spare),
                    Action::Gray(channels) => {
                        act::make_gray(picture, channels.unwrap_or(picture.channels()), spare);
                    }
                    Action::Blur { kernel, sigma } => {
                        act::blur(picture, *kernel, *sigma, &mut self.floats);
                    }
                    Action::Erase { area, fill } => erase(picture, *area, *fill),
                    _ => {}
                }
            }
        }
        if !in_place {
            std::mem::swap(picture, spare);
        }
        Ok(())
    }

    /// Makes `to` of the first actions on a picture that must stay as it is; returns how many they are.
    pub(super) fn begin(
        &mut self,
        decoded: &Picture,
        actions: &[Action],
        to: &mut Picture,
    ) -> Result<usize, ImageError> {
        match actions {
            [
                Action::Crop(area),
                Action::Resize { to: size, interpolation, antialias: true },
                ..,
            ] if *interpolation != Interpolation::Nearest => {
                let bicubic = *interpolation == Interpolation::Bicubic;
                let filter = if bicubic { Filter::Bicubic } else { Filter::Bilinear };
                resize(decoded, *area, *size, filter, &mut self.resizer, to)?;
                Ok(2)
            }
            [Action::Crop(area), ..] => {
                act::crop(decoded, *area, to);
                Ok(1)
            }
            _ => {
                to.clone_from(decoded);
                Ok(0)
            }
        }
    }

    /// Does the geometry of an action to a mask: values stay as they are.
    pub(super) fn apply_to_mask(
        &mut self,
        action: &Action,
        mask: &mut Picture,
    ) -> Result<(), ImageError> {
        // One number fills masks too; a colour means nothing there.
        let plain =
            |fill: &Fill| if fill[1..].iter().all(|f| *f == fill[0]) { *fill } else { [0.0; 3] };
        match action {
            Action::Resize { to, .. } => {
                let interpolation = Interpolation::Nearest;
                self.apply(&Action::Resize { to: *to, interpolation, antialias: false }, mask)
            }
            Action::Warp(warp) => {
                let mut warp = warp.clone();
                warp.smooth = false;
                warp.fill = warp.fill.as_ref().map(plain);
                self.apply(&Action::Warp(warp), mask)
            }
            Action::Pad { left, top, right, bottom, border, fill } => {
                act::pad(
                    mask,
                    [*left, *top, *right, *bottom],
                    *border,
                    plain(fill),
                    &mut self.spare,
                );
                std::mem::swap(mask, &mut self.spare);
                Ok(())
            }
            action if action.moves_pixels() => self.apply(action, mask),
            _ => Ok(()),
        }
    }
}

/// Resizes an area of a picture, with antialiasing.
fn resize(
    from: &Picture,
    area: Area,
    size: Size,
    filter: Filter,
    resizer: &mut Resizer,
    to: &mut Picture,
) -> Result<(), ImageError> {
    let Area { top: y, left: x, height, width } = area;
    let channels = from.channels();
    let area = feedline_resize::Area { x, y, width, height };
    let source = Source { pixels: from.pixels(), width: from.width(), channels, area };
    let [x, y, width, height] = [x, y, width, height].map(|n| n as f64);
    let out = to.reset(size.width, size.height, channels);
    resizer
        .resize(source, Window { x, y, width, height }, filter, out, (size.width, size.height))
        .map_err(|reason| ImageError::Resize { reason })
}

fn erase(picture: &mut Picture, area: Area, fill: Fill) {
    let (width, channels) = (picture.width(), picture.channels());
    let colour = act::colour(fill);
    for y in area.top..area.top + area.height {
        let row = &mut picture.pixels_mut()[(y * width + area.left) * channels..];
        for pixel in row[..area.width * channels].chunks_exact_mut(channels) {
            pixel.copy_from_slice(&colour[..channels]);
        }
    }
}

/// The size of a picture.
pub(super) fn size_of(picture: &Picture) -> Size {
    Size::new(picture.height(), picture.width())
}
