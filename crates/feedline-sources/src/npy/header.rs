//! The header of an `.npy` file, versions 1.0 to 3.0.

use std::borrow::Cow;
use std::path::Path;

use feedline_core::DType;

use crate::SourceError;
use crate::source_file::SourceFile;
use crate::stamp::Stamp;

use super::{descr, literal};

pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Magic, version, and the longer of the two kinds of length field.
const PREAMBLE: usize = 12;
/// Longer headers are refused before they are read. NumPy itself draws the line at 10,000 bytes.
const MOST_TEXT: usize = 1 << 16;

/// What an `.npy` file says about itself.
///
/// ```
/// use feedline_core::DType;
/// use feedline_sources::npy::NpyHeader;
///
/// let mut file = b"\x93NUMPY\x01\x00\x3a\x00".to_vec();
/// file.extend(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n");
/// let header = NpyHeader::parse(&file)?;
/// assert_eq!(header.dtype(), DType::F32);
/// assert_eq!(header.shape(), [2, 3]);
/// assert_eq!(header.data_bytes(), 24);
/// assert_eq!(header.data_offset(), 68);
/// # Ok::<(), feedline_sources::npy::HeaderError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    dtype: DType,
    swapped: bool,
    fortran_order: bool,
    shape: Vec<usize>,
    data_offset: usize,
    data_bytes: usize,
}

/// Why a header is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file is something else.
    #[error("this is no .npy file: {hint}")]
    Magic {
        /// What it looks like, and what to do.
        hint: &'static str,
    },
    /// A version of the format that this parser does not know.
    #[error(
        "format version {major}.{minor} is none of 1.0, 2.0 and 3.0; re-save it with `np.save`"
    )]
    Version {
        /// Its first number.
        major: u8,
        /// Its second number.
        minor: u8,
    },
    /// The file ends within the header.
    #[error("the header needs {expected} bytes, the file has {actual}; write or copy it again")]
    Truncated {
        /// Bytes up to the header's end.
        expected: usize,
        /// Bytes that are there.
        actual: usize,
    },
    /// An absurd length.
    #[error(
        "the header claims to be {length} bytes long, more than {most}: the file is damaged; write \
         or copy it again"
    )]
    TooLong {
        /// The length it claims.
        length: usize,
        /// The limit.
        most: usize,
    },
    /// Version 3.0 promises UTF-8.
    #[error("the header is not UTF-8 (at its byte {at}); re-save the file with `np.save`")]
    NotUtf8 {
        /// The first offending byte of the header's text.
        at: usize,
    },
    /// Not the dictionary that it should be.
    #[error(
        "the header's text is malformed at its byte {at}: expected {expected}, got {}; re-save the \
         file with `np.save`",
        got.as_ref().map_or("its end".to_string(), |c| format!("{c:?}"))
    )]
    Text {
        /// Where in the text.
        at: usize,
        /// What should be there.
        expected: String,
        /// What is there; nothing at the end.
        got: Option<String>,
    },
    /// A key is not there.
    #[error("the header has no `{key}`; re-save the file with `np.save`")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// A key that the format does not have.
    #[error("the header has an unknown key {key:?}; re-save the file with `np.save`")]
    UnknownKey {
        /// The key, shortened.
        key: String,
    },
    /// A key is there twice.
    #[error("the header has `{key}` twice; re-save the file with `np.save`")]
    RepeatedKey {
        /// The key.
        key: String,
    },
    /// A dtype that batches do not have.
    #[error("dtype {descr:?} cannot be loaded: {advice}")]
    DType {
        /// As the file has it, shortened.
        descr: String,
        /// What to do.
        advice: &'static str,
    },
    /// An axis of negative length.
    #[error("the shape has an axis of length {axis}; lengths start at 0: the file is damaged")]
    NegativeAxis {
        /// Its length.
        axis: String,
    },
    /// An axis that no machine can have.
    #[error("the shape has an axis of length {axis}, which is too large: the file is damaged")]
    HugeAxis {
        /// Its length, shortened.
        axis: String,
    },
    /// More axes than NumPy allows.
    #[error("the shape has more than {most} axes; reshape the array to fewer")]
    TooManyAxes {
        /// The limit.
        most: usize,
    },
    /// A size beyond the address space.
    #[error("an array of shape {shape:?} is too large: the file is damaged")]
    Overflow {
        /// The shape.
        shape: Vec<usize>,
    },
}

impl NpyHeader {
    /// Parses the header at the start of `file`, which may or may not go on after it.
    pub fn parse(file: &[u8]) -> Result<NpyHeader, HeaderError> {
        let (text_at, data_offset, version) = preamble(file)?;
        let text = file.get(text_at..data_offset);
        let text =
            text.ok_or(HeaderError::Truncated { expected: data_offset, actual: file.len() })?;
        let text = match version {
            // Latin-1, of which each byte is the code point of that number.
            1 | 2 => match std::str::from_utf8(text) {
                Ok(text) if text.is_ascii() => Cow::Borrowed(text),
                _ => Cow::Owned(text.iter().map(|&byte| char::from(byte)).collect()),
            },
            _ => Cow::Borrowed(
                std::str::from_utf8(text)
                    .map_err(|e| HeaderError::NotUtf8 { at: e.valid_up_to() })?,
            ),
        };
        let fields = literal::parse(&text)?;
        let (dtype, swapped) = descr::parse(fields.descr)?;
        let data_bytes = size(dtype, &fields.shape)
            .filter(|bytes| {
                bytes.checked_add(data_offset).is_some_and(|n| n <= isize::MAX as usize)
            })
            .ok_or_else(|| HeaderError::Overflow { shape: fields.shape.clone() })?;
        Ok(NpyHeader {
            dtype,
            swapped,
            fortran_order: fields.fortran_order,
            shape: fields.shape,
            data_offset,
            data_bytes,
        })
    }

    /// Reads the header of an open file, and checks that its data can be there.
    pub(super) fn read(
        file: &SourceFile,
        stamp: &Stamp,
        path: &Path,
    ) -> Result<NpyHeader, SourceError> {
        let io = |source| SourceError::Io { doing: "read", path: path.to_path_buf(), source };
        let wrong = |source| SourceError::Header { path: path.to_path_buf(), source };
        let length = stamp.len;
        let mut bytes = vec![0; PREAMBLE.min(usize::try_from(length).unwrap_or(PREAMBLE))];
        file.read_exact_at(&mut bytes, 0).map_err(io)?;
        let (_, data_offset, _) = preamble(&bytes).map_err(wrong)?;
        let there = usize::try_from(length).unwrap_or(usize::MAX);
        bytes.resize(data_offset.min(there), 0);
        file.read_exact_at(&mut bytes, 0).map_err(io)?;
        let header = NpyHeader::parse(&bytes).map_err(wrong)?;
        header.check_length(length, path)?;
        Ok(header)
    }

    /// Refuses a file of fewer bytes than the header asks for. More are ignored, as NumPy does.
    pub(super) fn check_length(&self, actual: u64, path: &Path) -> Result<(), SourceError> {
        let expected = (self.data_offset + self.data_bytes) as u64;
        if actual < expected {
            return Err(SourceError::Short { path: path.to_path_buf(), expected, actual });
        }
        Ok(())
    }

    /// The dtype of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Whether the elements' bytes are in the other order than this machine's.
    #[must_use]
    pub fn is_byte_swapped(&self) -> bool {
        self.swapped
    }

    /// Whether the first axis varies fastest.
    #[must_use]
    pub fn is_fortran_order(&self) -> bool {
        self.fortran_order
    }

    /// The array's shape; empty for a single number.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Where the elements begin in the file.
    #[must_use]
    pub fn data_offset(&self) -> usize {
        self.data_offset
    }

    /// Bytes of all elements.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }
}

/// Bytes of an array, if that is a number of bytes. An axis of length 0 makes it 0 whatever the
/// others are.
pub(super) fn size(dtype: DType, shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &axis| bytes.checked_mul(axis))?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// Where the text begins, where the data begins, and the major version.
fn preamble(file: &[u8]) -> Result<(usize, usize, u8), HeaderError> {
    if !file.starts_with(MAGIC) {
        return Err(HeaderError::Magic { hint: hint(file) });
    }
    let truncated = |expected| HeaderError::Truncated { expected, actual: file.len() };
    let (&[major, minor], rest) = file[MAGIC.len()..].split_first_chunk().ok_or(truncated(10))?;
    let (text_at, length) = match (major, minor) {
        (1, 0) => {
            let (&length, _) = rest.split_first_chunk().ok_or(truncated(10))?;
            (10, usize::from(u16::from_le_bytes(length)))
        }
        (2 | 3, 0) => {
            let (&length, _) = rest.split_first_chunk().ok_or(truncated(PREAMBLE))?;
            (PREAMBLE, usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX))
        }
        _ => return Err(HeaderError::Version { major, minor }),
    };
    if length > MOST_TEXT {
        return Err(HeaderError::TooLong { length, most: MOST_TEXT });
    }
    Ok((text_at, text_at + length, major))
}

fn hint(file: &[u8]) -> &'static str {
    match file {
        [] => "it is empty; write or copy it again",
        [b'P', b'K', ..] => {
            "it is a zip archive, probably .npz; save each array with `np.save` to a file of its own"
        }
        [0x80, ..] => "it looks like a pickle; load it in Python and save the array with `np.save`",
        _ if MAGIC.starts_with(file) => {
            "it ends within its first six bytes; write or copy it again"
        }
        _ => "it does not begin with \\x93NUMPY; give a file written by `np.save`",
    }
}
