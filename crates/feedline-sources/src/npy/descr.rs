//! NumPy's type strings, such as `<f4`: byte order, kind, bytes.

use feedline_core::DType;

use super::HeaderError;

/// What a type string says: the dtype, and whether its bytes are in the other order than the
/// machine's.
pub(super) fn parse(descr: &str) -> Result<(DType, bool), HeaderError> {
    let native = if cfg!(target_endian = "little") { '<' } else { '>' };
    let (order, code) = match descr.chars().next() {
        Some(order @ ('<' | '>')) => (order, &descr[1..]),
        Some('|' | '=') => (native, &descr[1..]),
        _ => (native, descr),
    };
    let dtype = match code {
        "b1" | "?" => DType::Bool,
        "u1" => DType::U8,
        "i1" => DType::I8,
        "u2" => DType::U16,
        "i2" => DType::I16,
        "u4" => DType::U32,
        "i4" => DType::I32,
        "u8" => DType::U64,
        "i8" => DType::I64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => {
            return Err(HeaderError::DType { descr: descr.to_string(), advice: advice(code) });
        }
    };
    Ok((dtype, order != native && dtype.size() > 1))
}

/// What to do about a type that no batch can hold.
fn advice(code: &str) -> &'static str {
    match code.chars().next() {
        Some('O') => {
            "it holds pickled Python objects, which could run any code; re-save it without \
             dtype=object, for example `np.save(path, np.stack(list_of_arrays))`"
        }
        Some('U' | 'S' | 'a' | 'T') => {
            "it holds strings; save numbers instead, for example indices into a list of classes"
        }
        Some('M' | 'm') => "it holds dates or durations; re-save it with `a.astype(np.int64)`",
        Some('V') => {
            "it holds raw bytes without a type, as bfloat16 arrays are saved; re-save it with \
             `a.astype(np.float32)` or `a.view(np.uint8)`"
        }
        Some('f' | 'c' | 'g' | 'G') => "re-save it with `a.astype(np.float64)` (or np.complex128)",
        _ => "use bool, int, uint, float or complex of at most 64 bits per number",
    }
}

/// NumPy's advice for a dtype made of several fields.
pub(super) const STRUCTURED: &str = "it is structured (several fields in one array); save each \
    field to a file of its own, for example `np.save(path, a['name'])`";

/// The type string of a dtype in the machine's byte order, if NumPy has it.
pub(super) fn of(dtype: DType) -> Option<String> {
    let kind = match dtype {
        DType::Bool => 'b',
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 'u',
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 'i',
        DType::F16 | DType::F32 | DType::F64 => 'f',
        DType::C64 | DType::C128 => 'c',
        _ => return None,
    };
    let order = match dtype.size() {
        1 => '|',
        _ if cfg!(target_endian = "little") => '<',
        _ => '>',
    };
    Some(format!("{order}{kind}{}", dtype.size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_that_numpy_has_is_found_again() {
        for dtype in DType::ALL {
            match of(dtype) {
                Some(descr) => assert_eq!(parse(&descr), Ok((dtype, false)), "{descr}"),
                None => assert_eq!(dtype, DType::Bf16),
            }
        }
    }

    #[test]
    fn byte_order_matters_beyond_one_byte_only() {
        let foreign = if cfg!(target_endian = "little") { '>' } else { '<' };
        assert_eq!(parse(&format!("{foreign}f4")), Ok((DType::F32, true)));
        assert_eq!(parse(&format!("{foreign}u1")), Ok((DType::U8, false)));
        assert_eq!(parse("=i8"), Ok((DType::I64, false)));
        assert_eq!(parse("|b1"), Ok((DType::Bool, false)));
        assert_eq!(parse("?"), Ok((DType::Bool, false)));
    }

    #[test]
    fn a_refused_type_comes_with_advice_of_its_own() {
        let cases = [
            ("|O", "dtype=object"),
            ("<U5", "strings"),
            ("|S3", "strings"),
            ("<M8[ns]", "np.int64"),
            ("|V2", "bfloat16"),
            ("<f16", "np.float64"),
            ("<c32", "complex128"),
            ("", "at most 64 bits"),
            ("é4", "at most 64 bits"),
            ("<i3", "at most 64 bits"),
        ];
        for (descr, expected) in cases {
            let message = parse(descr).unwrap_err().to_string();
            assert!(message.contains(expected), "{descr}: {message}");
        }
    }
}
