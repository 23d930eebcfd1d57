//! Text in gzip or zstd, known by its first bytes.

use std::io::{self, BufRead, Read};

use crate::source_file::SourceFile;

/// How a file is compressed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// By the first bytes of a file; `None` where it is not compressed.
    pub(super) fn of(start: &[u8]) -> Option<Compression> {
        match start {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Some(Compression::Zstd)
            }
            _ => None,
        }
    }

    /// The same of an open file of `len` bytes.
    pub(super) fn of_file(file: &SourceFile, len: u64) -> io::Result<Option<Compression>> {
        let mut start = [0; 4];
        let start = &mut start[..len.min(4) as usize];
        file.read_exact_at(start, 0)?;
        Ok(Compression::of(start))
    }

    /// What is unpacked. What the decoders need is bounded: zstd refuses windows beyond 128 MiB.
    pub(super) fn reader<'a>(self, packed: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            Compression::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
        })
    }
}
