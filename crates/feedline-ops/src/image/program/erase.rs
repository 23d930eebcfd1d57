//! Painting over what is already written as numbers.

use half::{bf16, f16};

use crate::image::action::{Area, Size};
use crate::image::draw::Draw;
use crate::image::op::Erasure;
use crate::image::{Dtype, Finish, Layout};

/// Paints an area of a finished picture of `size` over.
pub(super) fn erase(
    out: &mut [u8],
    size: Size,
    finish: &Finish,
    area: Area,
    erasure: Erasure,
    draw: &mut dyn Draw,
) {
    let channels = finish.channels();
    for channel in 0..channels {
        for y in area.top..area.top + area.height {
            for x in area.left..area.left + area.width {
                let value = match erasure {
                    Erasure::Colour(fill) => fill[channel.min(2)],
                    Erasure::Noise => draw.normal() as f32,
                };
                let at = match finish.layout() {
                    Layout::Chw => (channel * size.height + y) * size.width + x,
                    Layout::Hwc => (y * size.width + x) * channels + channel,
                };
                put(out, at, finish.dtype(), value);
            }
        }
    }
}

fn put(out: &mut [u8], at: usize, dtype: Dtype, value: f32) {
    let out = &mut out[at * dtype.size()..][..dtype.size()];
    match dtype {
        Dtype::U8 => out[0] = value as u8,
        Dtype::F16 => out.copy_from_slice(&f16::from_f32(value).to_ne_bytes()),
        Dtype::Bf16 => out.copy_from_slice(&bf16::from_f32(value).to_ne_bytes()),
        Dtype::F32 => out.copy_from_slice(&value.to_ne_bytes()),
    }
}
