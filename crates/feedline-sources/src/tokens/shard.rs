//! Files of token ids, one behind the other.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

use feedline_core::Cause;

use super::held::HeldBytes;
use super::megatron::MegatronIndex;
use crate::SourceError;
use crate::gather::fetch;
use crate::source_file::SourceFile;
use crate::stamp::Stamp;

/// Files that are kept open; of more, each is opened when it is read.
const OPEN: usize = 512;
/// Bytes of llm.c's header: 256 numbers of 32 bits.
const LLMC: u64 = 1024;

/// What ids are stored as, in little-endian order.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "they say it")]
pub enum TokenType {
    U8,
    U16,
    U32,
    I32,
    I64,
}

impl TokenType {
    /// Every type, with NumPy's name of it.
    pub const ALL: [(&'static str, TokenType); 5] = [
        ("uint8", TokenType::U8),
        ("uint16", TokenType::U16),
        ("uint32", TokenType::U32),
        ("int32", TokenType::I32),
        ("int64", TokenType::I64),
    ];

    /// Bytes of an id.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            TokenType::U8 => 1,
            TokenType::U16 => 2,
            TokenType::U32 | TokenType::I32 => 4,
            TokenType::I64 => 8,
        }
    }

    /// NumPy's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        TokenType::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Converts ids, as many as `out` has.
    pub(super) fn widen(self, bytes: &[u8], out: &mut [i64]) {
        fn each<const N: usize>(bytes: &[u8], out: &mut [i64], read: impl Fn([u8; N]) -> i64) {
            for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
                *out = read(*bytes);
            }
        }
        match self {
            TokenType::U8 => each(bytes, out, |[byte]| i64::from(byte)),
            TokenType::U16 => each(bytes, out, |b| i64::from(u16::from_le_bytes(b))),
            TokenType::U32 => each(bytes, out, |b| i64::from(u32::from_le_bytes(b))),
            TokenType::I32 => each(bytes, out, |b| i64::from(i32::from_le_bytes(b))),
            TokenType::I64 => each(bytes, out, i64::from_le_bytes),
        }
    }
}

/// What is before the ids of a file.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenHeader {
    /// Nothing.
    #[default]
    None,
    /// So many bytes that mean nothing.
    Skipped(u64),
    /// llm.c's, which says how many ids there are, and of which type.
    Llmc,
}

/// How shards are read.
#[derive(Clone, Debug)]
pub struct TokenOptions {
    /// What ids are stored as. `None`: as an index beside the file or the header says, otherwise `uint16`.
    pub dtype: Option<TokenType>,
    /// What is before them.
    pub header: TokenHeader,
    /// Bytes of all shards together up to which they are held in memory, once they were read.
    pub held: u64,
}

impl Default for TokenOptions {
    fn default() -> TokenOptions {
        TokenOptions { dtype: None, header: TokenHeader::None, held: 256 << 20 }
    }
}

/// All shards as one stream of tokens.
#[derive(Debug)]
pub(super) struct TokenShards {
    shards: Vec<TokenShard>,
    /// The number of each one's first token; then how many there are.
    firsts: Vec<u64>,
    pub(super) dtype: TokenType,
}

#[derive(Debug)]
struct TokenShard {
    path: PathBuf,
    stamp: Stamp,
    file: Option<SourceFile>,
    held: Option<HeldBytes>,
    /// Bytes before the first token.
    offset: u64,
    tokens: u64,
}

thread_local! {
    /// Ids as they are stored.
    static STORED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer that grew beyond this is not kept.
const KEPT: usize = 1 << 20;

impl TokenShards {
    /// Opens shards of one type; what index files beside them say comes along.
    pub(super) fn open(
        paths: &[PathBuf],
        options: &TokenOptions,
    ) -> Result<(TokenShards, Vec<Option<MegatronIndex>>), SourceError> {
        if paths.is_empty() {
            return Err(SourceError::NothingToJoin { what: "tokens" });
        }
        let (mut shards, mut indexes, mut dtype) = (Vec::new(), Vec::new(), options.dtype);
        for path in paths {
            let (file, stamp) = SourceFile::open(path).map_err(cannot("open", path))?;
            let index = match options.header {
                TokenHeader::None => MegatronIndex::beside(path, stamp.len)?,
                _ => None,
            };
            let (offset, said) = match (options.header, &index) {
                (TokenHeader::Llmc, _) => (LLMC, Some(llmc(path, &file, stamp.len)?)),
                (TokenHeader::Skipped(bytes), _) => (bytes, None),
                (TokenHeader::None, Some(index)) => (0, Some(index.dtype)),
                (TokenHeader::None, None) => (0, None),
            };
            let first = dtype.or(said).unwrap_or(TokenType::U16);
            if let Some(said) = said.filter(|said| *said != first) {
                let (holds, other) = (said.name(), first.name());
                let what = match (options.dtype, paths.first()) {
                    (None, Some(before)) => format!(
                        "it holds {holds}, and `{}` before it {other}; shards of one stream hold one dtype: write them again, \
                         or open them apart",
                        before.display()
                    ),
                    _ => format!("it holds {holds}, not {other}; leave out dtype"),
                };
                return Err(wrong(path, what));
            }
            dtype = Some(first);
            let size = first.size() as u64;
            let Some(bytes) = stamp.len.checked_sub(offset) else {
                let what = format!("it has {} bytes, fewer than its header of {offset}", stamp.len);
                return Err(wrong(path, what));
            };
            if bytes % size != 0 {
                let name = first.name();
                let what = format!(
                    "its {bytes} bytes are no whole number of {name}; say what it holds by dtype and header"
                );
                return Err(wrong(path, what));
            }
            let (path, held, tokens) = (path.clone(), None, bytes / size);
            let file = (shards.len() < OPEN || file.is_far()).then_some(file);
            shards.push(TokenShard { path, stamp, file, held, offset, tokens });
            indexes.push(index);
        }
        let dtype = dtype.unwrap_or(TokenType::U16);
        let bytes: u64 = shards.iter().map(|shard| shard.tokens * dtype.size() as u64).sum();
        if bytes <= options.held {
            for shard in &mut shards {
                shard.held = Some(HeldBytes::new(shard.tokens * dtype.size() as u64));
            }
        }
        let mut firsts = Vec::with_capacity(shards.len() + 1);
        let mut first = 0_u64;
        for shard in &shards {
            firsts.push(first);
            first = first.checked_add(shard.tokens).ok_or(SourceError::TooManySamples)?;
        }
        firsts.push(first);
        Ok((TokenShards { shards, firsts, dtype }, indexes))
    }

    /// How many tokens there are.
    pub(super) fn len(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// The number of a shard's first token.
    pub(super) fn first(&self, shard: usize) -> u64 {
        self.firsts[shard]
    }

    /// Hands out `count` tokens from `start` on as they are stored.
    pub(super) fn stored<T>(
        &self,
        start: u64,
        count: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Cause> {
        let outside = "the tokens lie outside of all shards";
        let (number, at) = self.find(start).ok_or(outside)?;
        let len = count * self.dtype.size();
        if let Some(bytes) = self.shards[number].held(at * self.dtype.size() as u64)?.get(..len) {
            return Ok(take(bytes));
        }
        let mut stored = STORED.take();
        stored.clear();
        let (mut at, mut left) = (start, count as u64);
        while left > 0 {
            let (number, first) = self.find(at).ok_or(outside)?;
            let shard = &self.shards[number];
            let here = (shard.tokens - first).min(left);
            let size = self.dtype.size();
            shard.append(first * size as u64, here as usize * size, &mut stored)?;
            (at, left) = (at + here, left - here);
        }
        let taken = take(&stored);
        if stored.capacity() <= KEPT {
            STORED.set(stored);
        }
        Ok(taken)
    }

    /// Fills `out` with the tokens from `start` on.
    pub(super) fn read(&self, start: u64, out: &mut [i64]) -> Result<(), Cause> {
        if out.is_empty() {
            return Ok(());
        }
        self.stored(start, out.len(), |bytes| self.dtype.widen(bytes, out))
    }

    /// Tells the processor that these tokens will be read, where they are held.
    pub(super) fn prefetch(&self, start: u64, count: usize) {
        let Some((number, at)) = self.find(start) else { return };
        let size = self.dtype.size();
        if let Some(held) = &self.shards[number].held
            && let Some(bytes) = held.read_before(at * size as u64)
        {
            fetch(bytes.as_ptr(), bytes.len().min(count * size));
        }
    }

    /// How many reads ahead they want to be told of.
    pub(super) fn look_ahead(&self) -> usize {
        let files = self.shards.iter().filter_map(|shard| shard.file.as_ref());
        files.map(SourceFile::look_ahead).max().unwrap_or(0)
    }

    /// Told that just these tokens are read soon.
    pub(super) fn expect(&self, start: u64, count: u64) {
        let (mut at, mut left) = (start, count);
        while left > 0 {
            let Some((number, first)) = self.find(at) else { return };
            let shard = &self.shards[number];
            let (here, size) = ((shard.tokens - first).min(left), self.dtype.size() as u64);
            shard.expect(first * size, here * size);
            (at, left) = (at + here, left - here);
        }
    }

    /// The path of a token's shard, and the token's number there.
    pub(super) fn place(&self, token: u64) -> Option<(&Path, u64)> {
        let (number, at) = self.find(token)?;
        Some((&self.shards[number].path, at))
    }

    /// The shard of a token, and the token's number there.
    fn find(&self, token: u64) -> Option<(usize, u64)> {
        if token >= self.len() {
            return None;
        }
        // Of those that begin here the last: empty ones come before it.
        let number = self.firsts.partition_point(|first| *first <= token) - 1;
        Some((number, token - self.firsts[number]))
    }
}

impl TokenShard {
    /// What is held from this byte on, up to the end of its block; nothing where shards are not held.
    fn held(&self, from: u64) -> Result<&[u8], Cause> {
        let Some(held) = &self.held else { return Ok(&[]) };
        held.from(from, |from, bytes| {
            self.read(|file| file.read_exact_at(bytes, self.offset + from))
        })
    }

    /// Appends so many bytes from this one on.
    fn append(&self, mut from: u64, mut len: usize, out: &mut Vec<u8>) -> Result<(), Cause> {
        if self.held.is_none() {
            return self.read(|file| file.append_at(out, self.offset + from, len));
        }
        while len > 0 {
            let bytes = self.held(from)?;
            let here = bytes.len().min(len);
            out.extend_from_slice(&bytes[..here]);
            (from, len) = (from + here as u64, len - here);
        }
        Ok(())
    }

    /// Told that so many bytes from this one on are read soon.
    fn expect(&self, from: u64, len: u64) {
        let Some(file) = self.file.as_ref().filter(|file| file.is_far()) else { return };
        let Some(held) = &self.held else { return file.expect(self.offset + from, len) };
        held.not_read(from, len).for_each(|(start, len)| file.expect(self.offset + start, len));
    }

    /// Reads of the file, which must be what it was.
    fn read(&self, read: impl FnOnce(&SourceFile) -> io::Result<()>) -> Result<(), Cause> {
        let opened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = SourceFile::open(&self.path);
                opened = file.map_err(|e| format!("cannot open it: {e}"))?.0;
                &opened
            }
        };
        let read = read(file);
        // Whatever came of it, first whether the file is still what it was when it was opened.
        let change = file.change(&self.stamp).map_err(|e| format!("cannot read it: {e}"))?;
        if let Some(what) = change {
            let path = self.path.clone();
            return Err(SourceError::Changed { path, what }.into());
        }
        Ok(read.map_err(cannot("read", &self.path))?)
    }
}

/// Checks llm.c's header and tells the type of the ids.
fn llmc(path: &Path, file: &SourceFile, len: u64) -> Result<TokenType, SourceError> {
    if len < LLMC {
        return Err(wrong(
            path,
            format!("it has {len} bytes, fewer than llm.c's header of {LLMC}"),
        ));
    }
    let mut header = [0; 12];
    file.read_exact_at(&mut header, 0).map_err(cannot("read", path))?;
    let number = |at: usize| {
        i32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let dtype = match number(0) {
        20_240_520 => TokenType::U16,
        20_240_801 => TokenType::U32,
        magic => {
            return Err(wrong(
                path,
                format!("its first number is {magic}, none of llm.c's magic numbers"),
            ));
        }
    };
    let tokens = u64::try_from(number(8)).unwrap_or(u64::MAX);
    let expected = tokens.saturating_mul(dtype.size() as u64).saturating_add(LLMC);
    if expected != len {
        let what = format!(
            "its header says {tokens} tokens, which are {expected} bytes, and it has {len}"
        );
        return Err(wrong(path, what));
    }
    Ok(dtype)
}

pub(super) fn cannot(doing: &'static str, path: &Path) -> impl Fn(std::io::Error) -> SourceError {
    let path = path.to_path_buf();
    move |source| SourceError::Io { doing, path: path.clone(), source }
}

pub(super) fn wrong(path: &Path, what: String) -> SourceError {
    SourceError::NoTokens { path: path.to_path_buf(), what }
}
