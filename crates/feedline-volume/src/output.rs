//! How results are written.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::Label;

/// The number type of images.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Dtype {
    #[default]
    F32,
    F16,
    Bf16,
}

/// The number type of masks.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MaskDtype {
    U8,
    #[default]
    I16,
    I32,
    I64,
}

/// The number types of results.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Of images.
    pub image: Dtype,
    /// Of masks.
    pub mask: MaskDtype,
}

impl Dtype {
    /// Bytes of a number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }

    /// Writes numbers as this type, in this machine's order.
    pub(crate) fn write(self, from: &[f32], to: &mut [u8]) {
        match self {
            Dtype::F32 => to.copy_from_slice(bytemuck::cast_slice(from)),
            Dtype::F16 => match bytemuck::try_cast_slice_mut::<u8, f16>(to) {
                Ok(to) => to.convert_from_f32_slice(from),
                Err(_) => each(from, to, |x| f16::from_f32(x).to_ne_bytes()),
            },
            Dtype::Bf16 => match bytemuck::try_cast_slice_mut::<u8, bf16>(to) {
                Ok(to) => to.convert_from_f32_slice(from),
                Err(_) => each(from, to, |x| bf16::from_f32(x).to_ne_bytes()),
            },
        }
    }
}

impl MaskDtype {
    /// Bytes of a number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            MaskDtype::U8 => 1,
            MaskDtype::I16 => 2,
            MaskDtype::I32 => 4,
            MaskDtype::I64 => 8,
        }
    }

    /// Writes labels as this type, in this machine's order; returns one that it cannot hold.
    pub(crate) fn write(self, from: &[Label], to: &mut [u8]) -> Result<(), Label> {
        match self {
            MaskDtype::U8 => {
                let mut lost = None;
                for (to, from) in to.iter_mut().zip(from) {
                    *to = *from as u8;
                    if Label::from(*to) != *from {
                        lost = Some(*from);
                    }
                }
                return lost.map_or(Ok(()), Err);
            }
            MaskDtype::I16 => to.copy_from_slice(bytemuck::cast_slice(from)),
            MaskDtype::I32 => each(from, to, |x| i32::from(x).to_ne_bytes()),
            MaskDtype::I64 => each(from, to, |x| i64::from(x).to_ne_bytes()),
        }
        Ok(())
    }
}

fn each<T: Copy, const N: usize>(from: &[T], to: &mut [u8], bytes: impl Fn(T) -> [u8; N]) {
    for (to, from) in to.as_chunks_mut::<N>().0.iter_mut().zip(from) {
        *to = bytes(*from);
    }
}
