//! Numbers as files have them.

use crate::Region;

/// Voxels of one type, the last axis fastest.
#[derive(Copy, Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Voxels<'a> {
    U8(&'a [u8]),
    I8(&'a [i8]),
    U16(&'a [u16]),
    I16(&'a [i16]),
    U32(&'a [u32]),
    I32(&'a [i32]),
    U64(&'a [u64]),
    I64(&'a [i64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

/// A type of voxels.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum VoxelType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl VoxelType {
    /// Bytes of a voxel.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            VoxelType::U8 | VoxelType::I8 => 1,
            VoxelType::U16 | VoxelType::I16 => 2,
            VoxelType::U32 | VoxelType::I32 | VoxelType::F32 => 4,
            VoxelType::U64 | VoxelType::I64 | VoxelType::F64 => 8,
        }
    }
}

/// The same for voxels of every type, as the slice `$slice`.
macro_rules! of_any_type {
    ($voxels:expr, $slice:ident => $made:expr) => {
        match $voxels {
            $crate::Voxels::U8($slice) => $made,
            $crate::Voxels::I8($slice) => $made,
            $crate::Voxels::U16($slice) => $made,
            $crate::Voxels::I16($slice) => $made,
            $crate::Voxels::U32($slice) => $made,
            $crate::Voxels::I32($slice) => $made,
            $crate::Voxels::U64($slice) => $made,
            $crate::Voxels::I64($slice) => $made,
            $crate::Voxels::F32($slice) => $made,
            $crate::Voxels::F64($slice) => $made,
        }
    };
}
pub(crate) use of_any_type;

impl<'a> Voxels<'a> {
    /// Of bytes in this machine's order. None, if they are not aligned for the type or end within a voxel.
    #[must_use]
    pub fn of_bytes(kind: VoxelType, bytes: &'a [u8]) -> Option<Voxels<'a>> {
        use bytemuck::try_cast_slice as cast;
        Some(match kind {
            VoxelType::U8 => Voxels::U8(bytes),
            VoxelType::I8 => Voxels::I8(cast(bytes).ok()?),
            VoxelType::U16 => Voxels::U16(cast(bytes).ok()?),
            VoxelType::I16 => Voxels::I16(cast(bytes).ok()?),
            VoxelType::U32 => Voxels::U32(cast(bytes).ok()?),
            VoxelType::I32 => Voxels::I32(cast(bytes).ok()?),
            VoxelType::U64 => Voxels::U64(cast(bytes).ok()?),
            VoxelType::I64 => Voxels::I64(cast(bytes).ok()?),
            VoxelType::F32 => Voxels::F32(cast(bytes).ok()?),
            VoxelType::F64 => Voxels::F64(cast(bytes).ok()?),
        })
    }

    /// Some of them, one after the other.
    ///
    /// # Panics
    ///
    /// If there are not as many.
    #[must_use]
    pub fn part(&self, range: std::ops::Range<usize>) -> Voxels<'a> {
        match *self {
            Voxels::U8(slice) => Voxels::U8(&slice[range]),
            Voxels::I8(slice) => Voxels::I8(&slice[range]),
            Voxels::U16(slice) => Voxels::U16(&slice[range]),
            Voxels::I16(slice) => Voxels::I16(&slice[range]),
            Voxels::U32(slice) => Voxels::U32(&slice[range]),
            Voxels::I32(slice) => Voxels::I32(&slice[range]),
            Voxels::U64(slice) => Voxels::U64(&slice[range]),
            Voxels::I64(slice) => Voxels::I64(&slice[range]),
            Voxels::F32(slice) => Voxels::F32(&slice[range]),
            Voxels::F64(slice) => Voxels::F64(&slice[range]),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        of_any_type!(self, slice => slice.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One channel of an image as it was read: a voxel's value is `number * slope + intercept`.
#[derive(Copy, Clone, Debug)]
pub struct ImageChannel<'a> {
    /// The numbers of the region that was read.
    pub voxels: Voxels<'a>,
    /// What they are multiplied by.
    pub slope: f64,
    /// What is added then.
    pub intercept: f64,
}

impl<'a> ImageChannel<'a> {
    /// Numbers that are the values.
    #[must_use]
    pub fn plain(voxels: Voxels<'a>) -> ImageChannel<'a> {
        ImageChannel { voxels, slope: 1.0, intercept: 0.0 }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.slope == 1.0 && self.intercept == 0.0
    }
}

/// What was read of a volume: a region of all channels of the image, and the same of its mask.
#[derive(Copy, Clone, Debug)]
pub struct Read<'a> {
    /// Which voxels: those that were asked for, or more.
    pub region: Region,
    /// Channel by channel.
    pub image: &'a [ImageChannel<'a>],
    /// Labels.
    pub mask: Option<Voxels<'a>>,
}

/// A number that a voxel may be.
pub(crate) trait Voxel: Copy {
    /// As a double.
    fn number(self) -> f64;
    /// As a float.
    fn float(self) -> f32;
    /// As a label, if it is a whole number of a label's range.
    fn label(self) -> Option<i16>;
}

macro_rules! voxel {
    ($($kind:ty),*) => {$(
        impl Voxel for $kind {
            #[inline(always)]
            fn number(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn float(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn label(self) -> Option<i16> {
                let label = self as i16;
                (f64::from(label) == self as f64).then_some(label)
            }
        }
    )*};
}
voxel!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// The type and range of labels that operations work with.
pub type Label = i16;

/// A number in a mask that is no label.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "the mask has the value {value}, and labels are whole numbers from -32768 to 32767; pass the mask that \
     belongs to the image, or renumber its labels"
)]
pub struct NoLabel {
    /// The number.
    pub value: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_the_range_are_labels() {
        assert_eq!(7u8.label(), Some(7));
        assert_eq!((-1i8).label(), Some(-1));
        assert_eq!(40_000u16.label(), None, "it would wrap around");
        assert_eq!(u64::MAX.label(), None);
        assert_eq!((-32_768i64).label(), Some(-32_768));
        assert_eq!(3.0f32.label(), Some(3));
        assert_eq!(0.5f64.label(), None);
        assert_eq!(f64::NAN.label(), None);
        assert_eq!(1e30f32.label(), None);
    }

    #[test]
    fn bytes_that_do_not_fit_are_refused() {
        let words = [0u64; 2];
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        assert_eq!(Voxels::of_bytes(VoxelType::I16, bytes).map(|v| v.len()), Some(8));
        assert!(Voxels::of_bytes(VoxelType::I16, &bytes[1..]).is_none());
        assert!(Voxels::of_bytes(VoxelType::F64, &bytes[..12]).is_none());
    }
}
