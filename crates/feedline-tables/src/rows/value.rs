//! Numbers in text.

use std::num::IntErrorKind;

use feedline_core::DType;
use half::f16;

/// Why a text is no number of a dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberFault {
    /// Nothing but blanks.
    Empty,
    /// No number, or none of that kind.
    Not,
    /// Beyond what the dtype can hold.
    Range,
}

/// Appends the number that a text holds, with blanks around it or not.
pub(crate) fn write_number(
    text: &[u8],
    dtype: DType,
    out: &mut Vec<u8>,
) -> Result<(), NumberFault> {
    fn whole<T: std::str::FromStr<Err = std::num::ParseIntError>, const N: usize>(
        text: &str,
        bytes: fn(T) -> [u8; N],
        out: &mut Vec<u8>,
    ) -> Result<(), NumberFault> {
        let number = text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => NumberFault::Range,
            // A minus before an unsigned number.
            IntErrorKind::InvalidDigit if text.parse::<i64>().is_ok() => NumberFault::Range,
            _ => NumberFault::Not,
        })?;
        out.extend_from_slice(&bytes(number));
        Ok(())
    }
    let text = text.trim_ascii();
    if text.is_empty() {
        return Err(NumberFault::Empty);
    }
    let text = std::str::from_utf8(text).map_err(|_| NumberFault::Not)?;
    match dtype {
        DType::U8 => whole(text, u8::to_ne_bytes, out),
        DType::I8 => whole(text, i8::to_ne_bytes, out),
        DType::U16 => whole(text, u16::to_ne_bytes, out),
        DType::I16 => whole(text, i16::to_ne_bytes, out),
        DType::U32 => whole(text, u32::to_ne_bytes, out),
        DType::I32 => whole(text, i32::to_ne_bytes, out),
        DType::U64 => whole(text, u64::to_ne_bytes, out),
        DType::I64 => whole(text, i64::to_ne_bytes, out),
        DType::Bool => {
            let bit = match text {
                "0" => false,
                "1" => true,
                _ if text.eq_ignore_ascii_case("true") => true,
                _ if text.eq_ignore_ascii_case("false") => false,
                _ => return Err(NumberFault::Not),
            };
            out.push(u8::from(bit));
            Ok(())
        }
        _ => write_float(text.parse().map_err(|_| NumberFault::Not)?, text, dtype, out),
    }
}

/// A number that is written as `text`, in a dtype of floats; digits beyond what it can hold are out of range.
fn write_float(
    number: f64,
    text: &str,
    dtype: DType,
    out: &mut Vec<u8>,
) -> Result<(), NumberFault> {
    let written_infinite = || text.bytes().all(|byte| !byte.is_ascii_digit());
    let (bytes, infinite) = match dtype {
        DType::F64 => (number.to_ne_bytes().to_vec(), number.is_infinite()),
        DType::F32 => {
            let number: f32 = text.parse().map_err(|_| NumberFault::Not)?;
            (number.to_ne_bytes().to_vec(), number.is_infinite())
        }
        DType::F16 => {
            let number = f16::from_f64(number);
            (number.to_ne_bytes().to_vec(), number.is_infinite())
        }
        _ => return Err(NumberFault::Not),
    };
    if infinite && !written_infinite() {
        return Err(NumberFault::Range);
    }
    out.extend_from_slice(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_dtype() {
        let mut out = Vec::new();
        let mut of = |text: &str, dtype| {
            out.clear();
            write_number(text.as_bytes(), dtype, &mut out).map(|()| out.clone())
        };
        assert_eq!(of(" -7 ", DType::I8), Ok(vec![249]));
        assert_eq!(of("255", DType::U8), Ok(vec![255]));
        assert_eq!(of("256", DType::U8), Err(NumberFault::Range));
        assert_eq!(of("-1", DType::U8), Err(NumberFault::Range));
        assert_eq!(of("99999999999999999999", DType::I64), Err(NumberFault::Range));
        assert_eq!(of("1.5", DType::I64), Err(NumberFault::Not));
        assert_eq!(of("1.5", DType::F64), Ok(1.5f64.to_ne_bytes().to_vec()));
        assert_eq!(of("1e39", DType::F32), Err(NumberFault::Range));
        assert_eq!(of("-inf", DType::F32), Ok(f32::NEG_INFINITY.to_ne_bytes().to_vec()));
        assert_eq!(of("0.1", DType::F32), Ok(0.1f32.to_ne_bytes().to_vec()));
        assert_eq!(of("TRUE", DType::Bool), Ok(vec![1]));
        assert_eq!(of("yes", DType::Bool), Err(NumberFault::Not));
        assert_eq!(of("  ", DType::F64), Err(NumberFault::Empty));
    }
}
