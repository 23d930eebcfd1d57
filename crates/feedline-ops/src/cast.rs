//! Conversion of one element type to another.

use half::{bf16, f16};

use crate::OpError;

/// A number that can become a `T`: the same value where `T` has it, else the nearest.
///
/// Integers out of range become the nearest end of the range. Floats lose their fraction when they become
/// integers, and not-a-number becomes 0. Floats out of range of a smaller float become infinite.
pub trait Cast<T>: Copy {
    /// The number as a `T`.
    fn cast(self) -> T;
}

/// Rust's `as`, which already does what [`Cast`] promises.
macro_rules! by_as {
    ($from:ty => $($to:ty),*) => {$(
        impl Cast<$to> for $from {
            #[inline]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )*};
}

/// Between integers `as` would wrap around.
macro_rules! by_clamp {
    ($from:ty => $($to:ty),*) => {$(
        impl Cast<$to> for $from {
            #[inline]
            fn cast(self) -> $to {
                // Wide enough for all of them; the compiler drops what a pair does not need.
                i128::from(self).clamp(i128::from(<$to>::MIN), i128::from(<$to>::MAX)) as $to
            }
        }
    )*};
}

macro_rules! numbers {
    (integers: $($int:ty),*; floats: $($float:ty),*; halves: $($half:ty),*) => {
        $(
            by_clamp!($int => u8, i8, u16, i16, u32, i32, u64, i64);
            by_as!($int => f32, f64);
            to_half!($int);
        )*
        $(
            by_as!($float => u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);
            to_half!($float);
        )*
        $(from_half!($half => u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16);)*
    };
}

/// A half has few digits, and each integer or double is rounded once: to a double it is exact, or so
/// long that rounding it there does not matter here.
macro_rules! to_half {
    ($from:ty) => {
        impl Cast<f16> for $from {
            #[inline]
            fn cast(self) -> f16 {
                f16::from_f64(self as f64)
            }
        }
        impl Cast<bf16> for $from {
            #[inline]
            fn cast(self) -> bf16 {
                bf16::from_f64(self as f64)
            }
        }
    };
}

/// Every half is a float exactly.
macro_rules! from_half {
    ($half:ty => $($to:ty),*) => {$(
        impl Cast<$to> for $half {
            #[inline]
            fn cast(self) -> $to {
                self.to_f32().cast()
            }
        }
    )*};
}

numbers!(integers: u8, i8, u16, i16, u32, i32, u64, i64; floats: f32, f64; halves: f16, bf16);

fn same_length(input: usize, output: usize) -> Result<(), OpError> {
    if input == output { Ok(()) } else { Err(OpError::Lengths { input, output }) }
}

/// Converts every element.
///
/// ```
/// let mut small = [0u8; 4];
/// feedline_ops::cast(&[1.9f64, -7.0, 300.0, f64::NAN], &mut small)?;
/// assert_eq!(small, [1, 0, 255, 0]);
/// # Ok::<(), feedline_ops::OpError>(())
/// ```
pub fn cast<S: Cast<D>, D>(input: &[S], output: &mut [D]) -> Result<(), OpError> {
    same_length(input.len(), output.len())?;
    for (to, from) in output.iter_mut().zip(input) {
        *to = from.cast();
    }
    Ok(())
}

/// `output = input * factor + offset`, in single precision.
pub fn scale<S: Cast<f32>>(
    input: &[S],
    output: &mut [f32],
    factor: f32,
    offset: f32,
) -> Result<(), OpError> {
    same_length(input.len(), output.len())?;
    for (to, from) in output.iter_mut().zip(input) {
        *to = from.cast() * factor + offset;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one<S: Cast<D>, D: Default + Copy>(value: S) -> D {
        let mut out = [D::default()];
        cast(&[value], &mut out).expect("one and one");
        out[0]
    }

    #[test]
    fn what_fits_is_kept() {
        assert_eq!(one::<u8, f32>(200), 200.0);
        assert_eq!(one::<f64, f32>(0.1), 0.1f32);
        assert_eq!(one::<i64, u8>(7), 7);
        assert_eq!(one::<f16, f32>(f16::from_f32(1.5)), 1.5);
        assert_eq!(one::<bf16, i16>(bf16::from_f32(-128.0)), -128);
        assert_eq!(one::<f32, bf16>(-2.5).to_f32(), -2.5);
        assert_eq!(one::<u64, i64>(1 << 62), 1 << 62, "beyond a double's precision");
        assert_eq!(one::<i64, i64>(i64::MAX - 1), i64::MAX - 1);
    }

    #[test]
    fn what_does_not_fit_becomes_the_nearest_end() {
        assert_eq!(one::<i32, u8>(-5), 0);
        assert_eq!(one::<u16, i8>(60_000), i8::MAX);
        assert_eq!(one::<u64, i64>(u64::MAX), i64::MAX);
        assert_eq!(one::<f32, i32>(1e20), i32::MAX);
        assert_eq!(one::<f32, u8>(f32::NEG_INFINITY), 0);
        assert_eq!(one::<f32, u8>(f32::NAN), 0);
        assert!(one::<f64, f32>(1e300).is_infinite());
        assert!(one::<i64, f16>(100_000).is_infinite());
    }

    #[test]
    fn different_lengths_are_refused() {
        let refused = cast(&[1u8, 2], &mut [0f32; 3]);
        assert_eq!(refused, Err(OpError::Lengths { input: 2, output: 3 }));
        assert!(scale(&[1u8], &mut [], 1.0, 0.0).is_err());
    }

    proptest! {
        #[test]
        fn integers_go_where_checked_conversion_says(values in proptest::collection::vec(any::<i64>(), 0..50)) {
            let mut out = vec![0u16; values.len()];
            cast(&values, &mut out).unwrap();
            for (out, value) in out.into_iter().zip(values) {
                let expected = u16::try_from(value).unwrap_or(if value < 0 { 0 } else { u16::MAX });
                prop_assert_eq!(out, expected);
            }
        }

        #[test]
        fn scaling_bytes_is_the_plain_loop(
            values in proptest::collection::vec(any::<u8>(), 0..100),
            factor in -10f32..10.0,
            offset in -10f32..10.0,
        ) {
            let mut out = vec![0f32; values.len()];
            scale(&values, &mut out, factor, offset).unwrap();
            for i in 0..values.len() {
                prop_assert_eq!(out[i], f32::from(values[i]) * factor + offset);
            }
        }
    }
}
