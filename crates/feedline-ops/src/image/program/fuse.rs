//! What the decoder can do itself: crop, resize, take a part of that, mirror.

use std::sync::Arc;

use crate::image::action::{Action, Area, Interpolation, Size};
use crate::image::op::{Fusible, Operation};
use crate::image::{Filter, Flips, PictureSpec, Rect};

use super::ProgramOptions;

/// How many leading operations the decoder does, where nothing unusual is drawn.
pub(super) fn fused(operations: &[Arc<dyn Operation>]) -> usize {
    let mut resized = false;
    let fits = |operation: &&Arc<dyn Operation>| match operation.fusible() {
        Fusible::Moves | Fusible::Flips => true,
        Fusible::Resizes => !std::mem::replace(&mut resized, true),
        Fusible::No => false,
    };
    operations.iter().take_while(fits).count()
}

/// How many of the last operations are flips, which are done as the result is written.
pub(super) fn finished(operations: &[Arc<dyn Operation>]) -> usize {
    operations.iter().rev().take_while(|operation| operation.fusible() == Fusible::Flips).count()
}

/// Splits the flips at the end off, which are done as the result is written.
pub(super) fn last_flips(actions: &[Action]) -> (&[Action], Flips) {
    let mut flips = Flips::default();
    let mut rest = actions;
    while let Some((last, before)) = rest.split_last() {
        match last {
            Action::FlipHorizontally => flips.horizontal ^= true,
            Action::FlipVertically => flips.vertical ^= true,
            _ => break,
        }
        rest = before;
    }
    (rest, flips)
}

/// Takes the leading actions that the decoder can do into a spec; returns it and how many they are.
pub(super) fn spec(
    actions: &[Action],
    size: Size,
    options: &ProgramOptions,
) -> (PictureSpec, usize) {
    let mut spec = PictureSpec {
        exact: options.exact,
        color: options.color,
        orientation: options.orientation,
        ..PictureSpec::default()
    };
    // The size before the flips, which come last in a spec.
    let mut now = size;
    for (done, action) in actions.iter().enumerate() {
        match action {
            Action::Crop(area) => {
                let area = unflipped(*area, now, &spec);
                let part = if spec.size.is_some() { &mut spec.window } else { &mut spec.crop };
                let (x, y) = part.map_or((0, 0), |part| (part.x, part.y));
                *part = Some(Rect {
                    x: x + area.left as u32,
                    y: y + area.top as u32,
                    width: area.width as u32,
                    height: area.height as u32,
                });
            }
            Action::Resize { to, interpolation, antialias: true } if spec.size.is_none() => {
                spec.filter = match interpolation {
                    Interpolation::Bilinear => Filter::Bilinear,
                    Interpolation::Bicubic => Filter::Bicubic,
                    Interpolation::Nearest => return (spec, done),
                };
                spec.size = Some((to.height as u32, to.width as u32));
            }
            Action::FlipHorizontally => spec.flip_horizontal ^= true,
            Action::FlipVertically => spec.flip_vertical ^= true,
            Action::Turn(quarters) if quarters % 4 == 2 => {
                spec.flip_horizontal ^= true;
                spec.flip_vertical ^= true;
            }
            _ => return (spec, done),
        }
        now = action.size_after(now);
    }
    (spec, actions.len())
}

/// Where an area of the flipped picture lies in the one before.
fn unflipped(area: Area, size: Size, spec: &PictureSpec) -> Area {
    let mut area = area;
    if spec.flip_horizontal {
        area.left = size.width - area.left - area.width;
    }
    if spec.flip_vertical {
        area.top = size.height - area.top - area.height;
    }
    area
}
