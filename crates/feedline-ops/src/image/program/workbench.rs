//! The memory a worker keeps from picture to picture, and how actions are done in it.

use feedline_resize::{SourcePixels, Window};

use crate::image::act;
use crate::image::action::{Action, Area, Fill, Interpolation, Mix, Size};
use crate::image::{DecodeBuffers, Displacement, Filter, ImageError, Picture, Resizer};

/// Buffers that a worker keeps from picture to picture.
#[derive(Debug, Default)]
pub struct Workbench {
    pub(super) buffers: DecodeBuffers,
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
    /// What a blend is summed up in, and the copy that is added to it.
    sum: Vec<f32>,
    copy: Picture,
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
            Action::Pad { left, top, border, fill, .. } => {
                let (from, size) = (start(*top, *left), action.size_after(size_of(picture)));
                act::frame(picture, from, size, *border, *fill, spare);
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
            Action::Perspective(map) => act::perspective(picture, map, spare),
            Action::Elastic(map) => act::displace(picture, map, spare),
            Action::Mix(mix) => return self.mix(mix, picture),
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

    /// Blends a picture with changed copies of itself.
    fn mix(&mut self, mix: &Mix, picture: &mut Picture) -> Result<(), ImageError> {
        let (mut sum, mut copy) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.copy));
        sum.clear();
        sum.extend(picture.pixels().iter().map(|value| mix.original * f32::from(*value)));
        for (weight, actions) in &mix.chains {
            copy.clone_from(picture);
            for action in actions {
                self.apply(action, &mut copy)?;
            }
            for (sum, value) in sum.iter_mut().zip(copy.pixels()) {
                *sum += weight * f32::from(*value);
            }
        }
        for (value, sum) in picture.pixels_mut().iter_mut().zip(&sum) {
            *value = *sum as u8;
        }
        (self.sum, self.copy) = (sum, copy);
        Ok(())
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
            Action::Perspective(map) => {
                let mut map = map.clone();
                map.smooth = false;
                map.fill = map.fill.as_ref().map(plain);
                self.apply(&Action::Perspective(map), mask)
            }
            Action::Elastic(map) => {
                let fill = map.fill.as_ref().map(plain);
                self.apply(
                    &Action::Elastic(Displacement { smooth: false, fill, ..map.clone() }),
                    mask,
                )
            }
            Action::Pad { left, top, right, bottom, border, fill } => {
                let (left, top, right, bottom) = (*left, *top, *right, *bottom);
                let (border, fill) = (*border, plain(fill));
                self.apply(&Action::Pad { left, top, right, bottom, border, fill }, mask)
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
    let area = feedline_resize::PixelArea { x, y, width, height };
    let source = SourcePixels { pixels: from.pixels(), width: from.width(), channels, area };
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

/// Where the first pixel lies of a picture that gets a border of so many rows and columns.
fn start(top: usize, left: usize) -> (isize, isize) {
    (-(top as isize), -(left as isize))
}

/// A border and then a part of it, made at once. `None` where the actions are others.
pub(super) fn framed(decoded: &Picture, actions: &[Action], to: &mut Picture) -> Option<usize> {
    let [Action::Pad { left, top, border, fill, .. }, Action::Crop(area), ..] = actions else {
        return None;
    };
    let (down, across) = start(*top, *left);
    let from = (down + area.top as isize, across + area.left as isize);
    act::frame(decoded, from, area.size(), *border, *fill, to);
    Some(2)
}

/// The size of a picture.
pub(super) fn size_of(picture: &Picture) -> Size {
    Size::new(picture.height(), picture.width())
}
