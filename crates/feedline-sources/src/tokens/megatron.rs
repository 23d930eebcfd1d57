//! Megatron's index files, `.idx` beside `.bin`.
//!
//! ```text
//! "MMIDIDX\0\0"  version: u64 = 1  dtype: u8  sequences: u64  documents: u64
//! lengths        i32 per sequence, in tokens
//! pointers       i64 per sequence, in bytes of the .bin
//! documents      i64 each: the number of the first sequence of each document, then how many sequences there are
//! ```

use std::path::Path;

use super::shard::{TokenType, cannot, wrong};
use crate::SourceError;
use crate::source_file::SourceFile;

const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
const HEADER: u64 = 34;

/// Where documents are.
#[derive(Debug)]
pub(super) struct MegatronIndex {
    pub(super) dtype: TokenType,
    /// The first token of each sequence, and how many it has.
    pub(super) sequences: Vec<(u64, u32)>,
    /// The first sequence of each document; then how many there are.
    pub(super) documents: Vec<u64>,
}

impl MegatronIndex {
    /// The index beside a `.bin` of so many bytes, if there is one.
    pub(super) fn beside(bin: &Path, bin_bytes: u64) -> Result<Option<MegatronIndex>, SourceError> {
        if bin.extension().is_none_or(|extension| extension != "bin") {
            return Ok(None);
        }
        let path = bin.with_extension("idx");
        let (file, stamp) = match SourceFile::open(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("open", &path)(error)),
        };
        let len = usize::try_from(stamp.len).map_err(|_| wrong(&path, "it is too large".into()))?;
        let mut bytes = Vec::new();
        // An index of another program may be of any length; those of Megatron begin so.
        file.append_at(&mut bytes, 0, len.min(HEADER as usize)).map_err(cannot("read", &path))?;
        if !bytes.starts_with(MAGIC) {
            let what = "it does not begin as Megatron's index files do; rename it if it is none";
            return Err(wrong(&path, what.to_string()));
        }
        bytes.clear();
        file.append_whole(&mut bytes, stamp.len).map_err(cannot("read", &path))?;
        if let Some(what) = file.change(&stamp).map_err(cannot("read", &path))? {
            return Err(SourceError::Changed { path, what });
        }
        MegatronIndex::parse(&bytes, bin_bytes).map(Some).map_err(|what| wrong(&path, what))
    }

    fn parse(bytes: &[u8], bin_bytes: u64) -> Result<MegatronIndex, String> {
        let number = |at: usize| -> Result<u64, String> {
            let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>);
            bytes
                .map(|bytes| u64::from_le_bytes(*bytes))
                .ok_or_else(|| "it was cut off".to_string())
        };
        let version = number(9)?;
        if version != 1 {
            return Err(format!("it is of version {version}, and 1 is read"));
        }
        let dtype = match bytes.get(17) {
            Some(1) => TokenType::U8,
            Some(4) => TokenType::I32,
            Some(5) => TokenType::I64,
            Some(8) => TokenType::U16,
            Some(code) => return Err(format!("its dtype code is {code}, which no tokens have")),
            None => return Err("it was cut off".to_string()),
        };
        let (count, documents) = (number(18)?, number(26)?);
        let needed = count
            .checked_mul(12)
            .and_then(|bytes| documents.checked_mul(8)?.checked_add(bytes)?.checked_add(HEADER));
        if needed.is_none_or(|needed| needed > bytes.len() as u64) {
            return Err(format!(
                "it says {count} sequences and {documents} documents, and is too short for them"
            ));
        }
        let (count, documents) = (count as usize, documents as usize);
        let lengths = bytes[HEADER as usize..].as_chunks::<4>().0;
        let pointers = bytes[HEADER as usize + 4 * count..].as_chunks::<8>().0;
        let firsts = bytes[HEADER as usize + 12 * count..].as_chunks::<8>().0;
        let size = dtype.size() as u64;
        let mut sequences = Vec::with_capacity(count);
        for (number, (length, pointer)) in
            lengths[..count].iter().zip(&pointers[..count]).enumerate()
        {
            let (length, pointer) = (i32::from_le_bytes(*length), i64::from_le_bytes(*pointer));
            let wrong = || {
                format!(
                    "sequence {number} is said to have {length} tokens at byte {pointer}, and the .bin has {bin_bytes} bytes"
                )
            };
            let (tokens, start) =
                u32::try_from(length).ok().zip(u64::try_from(pointer).ok()).ok_or_else(wrong)?;
            let end = start.checked_add(u64::from(tokens) * size);
            if start % size != 0 || end.is_none_or(|end| end > bin_bytes) {
                return Err(wrong());
            }
            sequences.push((start / size, tokens));
        }
        let documents: Vec<u64> =
            firsts[..documents].iter().map(|first| u64::from_le_bytes(*first)).collect();
        let ordered = documents.windows(2).all(|pair| pair[0] <= pair[1]);
        if !ordered || documents.last().is_some_and(|last| *last > count as u64) {
            return Err("its documents are no ranges of its sequences".to_string());
        }
        Ok(MegatronIndex { dtype, sequences, documents })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(lengths: &[i32], pointers: &[i64], documents: &[i64]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(1_u64.to_le_bytes());
        bytes.push(8);
        bytes.extend((lengths.len() as u64).to_le_bytes());
        bytes.extend((documents.len() as u64).to_le_bytes());
        bytes.extend(lengths.iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(pointers.iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(documents.iter().flat_map(|n| n.to_le_bytes()));
        bytes
    }

    #[test]
    fn an_index_says_where_documents_are() {
        let read = MegatronIndex::parse(&index(&[3, 2], &[0, 6], &[0, 1, 2]), 10).unwrap();
        assert_eq!(read.sequences, [(0, 3), (3, 2)]);
        assert_eq!(read.documents, [0, 1, 2]);
    }

    #[test]
    fn an_index_that_lies_is_refused() {
        let lies = [
            index(&[3, 3], &[0, 6], &[0, 1, 2]),
            index(&[-1], &[0], &[0, 1]),
            index(&[1], &[-2], &[0, 1]),
            index(&[1], &[1], &[0, 1]),
            index(&[1], &[i64::MAX], &[0, 1]),
            index(&[1], &[0], &[0, 2]),
            index(&[1, 1], &[0, 2], &[1, 0, 2]),
        ];
        for lie in lies {
            assert!(MegatronIndex::parse(&lie, 10).is_err());
        }
        let mut many = index(&[3], &[0], &[0, 1]);
        many[18..26].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(MegatronIndex::parse(&many, 10).unwrap_err().contains("too short"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_index_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120), bin in 0_u64..100,
        ) {
            bytes.splice(..bytes.len().min(17), [&MAGIC[..], &1_u64.to_le_bytes()].concat());
            let _ = MegatronIndex::parse(&bytes, bin);
        }
    }
}
