//! How a shard is compressed: told by its first bytes, not by its name.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use super::archive::ArchiveError;
use crate::crowd::Stop;
use crate::source_file::{Forward, SourceFile};

/// How a shard is compressed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn of(file: &SourceFile, len: u64) -> Result<Compression, ArchiveError> {
        let mut magic = [0; 6];
        let there = len.min(magic.len() as u64) as usize;
        file.read_exact_at(&mut magic[..there], 0)?;
        let refused = |with| Err(ArchiveError::Compression { with });
        match magic {
            [0x1f, 0x8b, ..] => Ok(Compression::Gzip),
            // A frame, or one to be skipped, which some programs write first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Ok(Compression::Zstd)
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0] => refused("xz"),
            [b'B', b'Z', b'h', ..] => refused("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => refused("lz4"),
            [b'P', b'K', 3, 4, ..] => refused("zip"),
            _ => Ok(Compression::None),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Compression::None => "nothing",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// The archive in the file, from its start. What the decoders need is bounded: zstd refuses
    /// windows beyond 128 MiB. `stop` ends the reading with an error.
    pub(super) fn reader<'a>(
        self,
        file: Arc<SourceFile>,
        stop: Option<&'a Stop<'a>>,
    ) -> io::Result<Box<dyn Read + Send + 'a>> {
        let file = Stoppable { file: Forward::new(file), stop };
        Ok(match self {
            Compression::None => Box::new(file),
            Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
            Compression::Zstd => Box::new(zstd::Decoder::with_buffer(file)?),
        })
    }
}

/// A file that ends with an error when it is time to stop: a decoder may read through any amount of
/// it before it has a byte to give.
struct Stoppable<'a> {
    file: Forward<Arc<SourceFile>>,
    stop: Option<&'a Stop<'a>>,
}

impl BufRead for Stoppable<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.stop.is_some_and(Stop::is_asked) {
            return Err(io::Error::other("reading was interrupted"));
        }
        self.file.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.file.consume(bytes);
    }
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_some_and(Stop::is_asked) {
            return Err(io::Error::other("reading was interrupted"));
        }
        self.file.read(buffer)
    }
}
