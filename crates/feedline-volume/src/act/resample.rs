//! New voxels of old ones, each way where it is enough: copied, or interpolated.

use crate::voxels::{Voxel, of_any_type};
use crate::{ImageChannel, Label, Move, NoLabel, Region, Shape, Voxels};

use super::copy::copy;
use super::labels::{Labelled, labels};
use super::separable::{Planes, places, separable};
use super::tables::{aligned, exact, nearest};
use super::trilinear::trilinear;
use super::values::VoxelValues;
use super::view::RegionView;

/// Buffers of moves.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    image: Vec<f32>,
    planes: Planes,
    labels: Vec<Label>,
}

/// Makes the region `to` of a channel's new grid.
pub(crate) fn move_image(
    channel: &ImageChannel<'_>,
    region: Region,
    shape: Shape,
    step: &Move,
    to: Region,
    out: &mut [f32],
    scratch: &mut Scratch,
) {
    let axes = aligned(&step.map);
    if let Some(axes) = axes.filter(|_| exact(&step.map)) {
        let fill = step.fill.map_or(0.0, |fill| fill.image);
        of_any_type!(channel.voxels, data => {
            let view = RegionView { data, region, shape };
            let tables = nearest(&view, step, axes, to);
            if channel.is_plain() {
                copy(data, &tables, out, fill, |x| x.float());
            } else {
                let (slope, intercept) = (channel.slope, channel.intercept);
                copy(data, &tables, out, fill, |x| (x.number() * slope + intercept) as f32);
            }
        });
        return;
    }
    let values = VoxelValues::of(channel);
    if let Some(places) = axes.and_then(|axes| places(region, shape, step, axes, to)) {
        of_any_type!(channel.voxels, data => {
            separable(data, values, &places, out, &mut scratch.planes);
        });
        return;
    }
    let data = match channel.voxels {
        Voxels::F32(data) if channel.is_plain() => data,
        voxels => {
            scratch.image.resize(voxels.len(), 0.0);
            of_any_type!(voxels, data => values.convert(data, &mut scratch.image));
            &scratch.image
        }
    };
    trilinear(RegionView { data, region, shape }, step, to, out);
}

/// Makes the region `to` of a mask's new grid.
pub(crate) fn move_mask(
    mask: Voxels<'_>,
    region: Region,
    shape: Shape,
    step: &Move,
    to: Region,
    out: &mut [Label],
    scratch: &mut Scratch,
) -> Result<(), NoLabel> {
    match mask {
        Voxels::U8(data) => move_labels(RegionView { data, region, shape }, step, to, out),
        Voxels::I16(data) => move_labels(RegionView { data, region, shape }, step, to, out),
        other => {
            let found = &mut scratch.labels;
            found.clear();
            of_any_type!(other, data => {
                for value in data {
                    found.push(value.label().ok_or(NoLabel { value: value.number() })?);
                }
            });
            move_labels(RegionView { data: found, region, shape }, step, to, out);
        }
    }
    Ok(())
}

fn move_labels<T: Labelled>(view: RegionView<'_, T>, step: &Move, to: Region, out: &mut [Label]) {
    let axes = aligned(&step.map);
    let along = axes.filter(|_| step.labels == crate::Labels::Nearest || exact(&step.map));
    match along {
        Some(axes) => {
            let tables = nearest(&view, step, axes, to);
            copy(view.data, &tables, out, step.fill.map_or(0, |fill| fill.mask), Into::into);
        }
        None => labels(view, step, to, out),
    }
}
