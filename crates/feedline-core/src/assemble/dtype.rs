//! Element types of the arrays in a batch.

use std::fmt;

/// The type of an array's elements.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    I64,
    /// IEEE half precision.
    F16,
    /// bfloat16: the upper half of a float32.
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Two `F32`: real, imaginary.
    C64,
    /// Two `F64`: real, imaginary.
    C128,
}

impl DType {
    /// Every dtype, in the order of declaration.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::U16,
        DType::I16,
        DType::U32,
        DType::I32,
        DType::U64,
        DType::I64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::U16 | DType::I16 | DType::F16 | DType::Bf16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// NumPy's name of it (`bfloat16` has none there and is called so everywhere else).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "uint8",
            DType::I8 => "int8",
            DType::U16 => "uint16",
            DType::I16 => "int16",
            DType::U32 => "uint32",
            DType::I32 => "int32",
            DType::U64 => "uint64",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::Bf16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }

    /// The dtype with this [name](DType::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Writes `value`, converted to this dtype, over all of `out`, whole elements: the padding of ragged fields.
    pub fn fill(self, value: f64, out: &mut [u8]) {
        fn repeat<const N: usize>(out: &mut [u8], one: [u8; N]) {
            for element in out.chunks_exact_mut(N) {
                element.copy_from_slice(&one);
            }
        }
        if value == 0.0 && value.is_sign_positive() {
            out.fill(0);
            return;
        }
        // `as` saturates: a fill value outside the dtype's range becomes its nearest end.
        match self {
            DType::Bool => out.fill(1),
            DType::U8 => out.fill(value as u8),
            DType::I8 => out.fill(value as i8 as u8),
            DType::U16 => repeat(out, (value as u16).to_ne_bytes()),
            DType::I16 => repeat(out, (value as i16).to_ne_bytes()),
            DType::U32 => repeat(out, (value as u32).to_ne_bytes()),
            DType::I32 => repeat(out, (value as i32).to_ne_bytes()),
            DType::U64 => repeat(out, (value as u64).to_ne_bytes()),
            DType::I64 => repeat(out, (value as i64).to_ne_bytes()),
            DType::F16 => repeat(out, half::f16::from_f64(value).to_ne_bytes()),
            DType::Bf16 => repeat(out, half::bf16::from_f64(value).to_ne_bytes()),
            DType::F32 => repeat(out, (value as f32).to_ne_bytes()),
            DType::F64 => repeat(out, value.to_ne_bytes()),
            DType::C64 => repeat(out, ((value as f32).to_bits() as u64).to_ne_bytes()),
            DType::C128 => repeat(out, (value.to_bits() as u128).to_ne_bytes()),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that an array's elements can be read and written as.
///
/// `bool` is not among them: reading arbitrary bytes as `bool` is undefined behaviour. Fields of
/// [`DType::Bool`] are written as `u8`. The list is closed: there is one for each [`DType`].
pub trait Element: sealed::Plain {
    /// Whether an array of `dtype` holds such elements.
    fn is(dtype: DType) -> bool;
    /// The dtype to name in messages.
    const DTYPE: DType;
}

mod sealed {
    /// Any bytes are a value, and any value is its bytes. Which crate says so is nobody's business.
    pub trait Plain: bytemuck::Pod {}
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Plain for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
            fn is(dtype: DType) -> bool { dtype == DType::$dtype }
        }
    )*};
}
elements!(i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
    half::f16 => F16, half::bf16 => Bf16, f32 => F32, f64 => F64,
    [f32; 2] => C64, [f64; 2] => C128);

impl sealed::Plain for u8 {}
impl Element for u8 {
    const DTYPE: DType = DType::U8;
    fn is(dtype: DType) -> bool {
        matches!(dtype, DType::U8 | DType::Bool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_name("object"), None);
    }

    #[test]
    fn fill_writes_the_value_in_every_dtype() {
        for dtype in DType::ALL {
            let mut out = vec![0xAA; dtype.size() * 3];
            dtype.fill(1.0, &mut out);
            let one: Vec<u8> = match dtype {
                DType::Bool | DType::U8 | DType::I8 => vec![1],
                DType::F16 => 0x3C00u16.to_ne_bytes().to_vec(),
                DType::Bf16 => 0x3F80u16.to_ne_bytes().to_vec(),
                DType::F32 => 1f32.to_ne_bytes().to_vec(),
                DType::F64 => 1f64.to_ne_bytes().to_vec(),
                DType::C64 => [1f32.to_ne_bytes(), 0f32.to_ne_bytes()].concat(),
                DType::C128 => [1f64.to_ne_bytes(), 0f64.to_ne_bytes()].concat(),
                integer => {
                    let mut bytes = vec![0; integer.size()];
                    bytes[if cfg!(target_endian = "little") { 0 } else { integer.size() - 1 }] = 1;
                    bytes
                }
            };
            assert_eq!(out, one.repeat(3), "{dtype}");
        }
    }
}
