//! New voxels of old ones, each way where it is enough: copied, or interpolated.

use crate::voxels::{Voxel, of_any_type};
use crate::{Channel, Label, Move, NoLabel, Region, Shape, Voxels};

use super::copy::copy;
use super::tables::{aligned, exact, nearest};
use super::view::View;

/// Makes the region `to` of a channel's new grid.
pub(crate) fn move_image(
    channel: &Channel<'_>,
    region: Region,
    shape: Shape,
    step: &Move,
    to: Region,
    out: &mut [f32],
) {
    let fill = step.fill.map_or(0.0, |fill| fill.image);
    if let Some(axes) = aligned(&step.map).filter(|_| exact(&step.map)) {
        of_any_type!(channel.voxels, data => {
            let view = View { data, region, shape };
            let tables = nearest(&view, step, axes, to);
            if channel.is_plain() {
                copy(data, &tables, out, fill, |x| x.float());
            } else {
                let (slope, intercept) = (channel.slope, channel.intercept);
                copy(data, &tables, out, fill, |x| (x.number() * slope + intercept) as f32);
            }
        });
    }
}

/// Makes the region `to` of a mask's new grid.
pub(crate) fn move_mask(
    mask: Voxels<'_>,
    region: Region,
    shape: Shape,
    step: &Move,
    to: Region,
    out: &mut [Label],
    scratch: &mut Vec<Label>,
) -> Result<(), NoLabel> {
    match mask {
        Voxels::U8(data) => labels(View { data, region, shape }, step, to, out),
        Voxels::I16(data) => labels(View { data, region, shape }, step, to, out),
        other => {
            scratch.clear();
            of_any_type!(other, data => {
                for value in data {
                    let label = value.label().ok_or(NoLabel { value: value.number() })?;
                    scratch.push(label);
                }
            });
            labels(View { data: scratch, region, shape }, step, to, out);
        }
    }
    Ok(())
}

fn labels<T: Copy + Into<Label>>(view: View<'_, T>, step: &Move, to: Region, out: &mut [Label]) {
    let fill = step.fill.map_or(0, |fill| fill.mask);
    if let Some(axes) = aligned(&step.map) {
        let tables = nearest(&view, step, axes, to);
        copy(view.data, &tables, out, fill, Into::into);
    }
}
