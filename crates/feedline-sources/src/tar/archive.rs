//! Going through an archive, member by member, to its very end.
//!
//! Single headers are read by the `tar` crate. The way from one to the next is our own, because of
//! what happens at the end: a shard that was cut off must be an error, wherever the cut is, while an
//! archive without its two closing blocks is none. Readers that jump from header to header take
//! either for the end. Here every byte is accounted for, nothing is allocated that a size field asks
//! for, and archives that were appended to one another are read through.
//!
//! # How an archive ends
//!
//! Tar programs close an archive with two blocks of zeros, and many then fill it up to a whole record: of
//! 20 blocks (GNU tar, Python's `tarfile`, bsdtar into a pipe; the others stop after two), or of what
//! `tar -b` said, which is a larger power of two wherever it is anything else (tapes, object stores, `dd`). So what may
//! stand where a header should is nothing at all, 1,024 bytes of zeros, or as many as fill the last record
//! of such an archive. Anything else is a tail, or a hole, that was lost: a file system that crashed
//! before it wrote the content of a file whose length it knew leaves just that.

use std::io::{self, Read};

use tar::{EntryType, Header, PaxExtensions};

use crate::crowd::Stop;
use crate::source_file::SourceFile;

const BLOCK: u64 = 512;
/// What closes an archive.
const CLOSING: u64 = 2 * BLOCK;
/// What programs fill an archive up to unless they are told otherwise.
const RECORD: u64 = 20 * BLOCK;
/// The largest other record, 2048 blocks.
const LARGEST_RECORD: u64 = 1 << 20;
/// More than any file system's longest path: an extended header beyond that is refused, not read.
const LONGEST_EXTENSION: u64 = 1 << 20;

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// Not even a header.
    #[error("it is empty (0 bytes): it was never written; make it again")]
    Empty,
    /// It ends where it should not.
    #[error("it is cut off: it ends at byte {end} {within}; copy or make it again")]
    Truncated {
        /// Where it ends.
        end: u64,
        /// Within what.
        within: String,
    },
    /// A header that is none.
    #[error("what should be a header at byte {at} is none (its checksum is wrong); {advice}")]
    Checksum {
        /// Where.
        at: u64,
        /// What to do.
        advice: &'static str,
    },
    /// Zeros that do not close an archive.
    #[error(
        "from byte {from} on it has {zeros} bytes of zeros{more}, and tar programs close an archive with 1024, \
         or with what fills its last record: what was there is lost; copy or make it again (if it was \
         packed with a blocking factor other than 20 or a power of two from 32 to 2048, pack it \
         with the usual one, `tar -b 20`)"
    )]
    Zeros {
        /// Where they begin.
        from: u64,
        /// How many were seen.
        zeros: u64,
        /// What is known of what follows them.
        more: &'static str,
    },
    /// More is said of its members than fits into memory.
    #[error("its table would take more than {most} bytes; split it into several shards")]
    TooManyMembers {
        /// Bytes that a table may take.
        most: u64,
    },
    /// A header with a field that makes no sense.
    #[error("the header at byte {at} is damaged: {what}")]
    Field {
        /// Where.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// A member with holes.
    #[error("member `{name}` is stored with holes; pack the shard without --sparse")]
    Sparse {
        /// The member's name, escaped.
        name: String,
    },
    /// A compression that cannot be read.
    #[error("it is compressed with {with}, which cannot be read; use gzip or zstd")]
    Compression {
        /// Its name.
        with: &'static str,
    },
    /// Random access into a compressed archive.
    #[error(
        "it is compressed with {with}, so samples cannot be picked out of it; open it for streaming"
    )]
    NotSeekable {
        /// How it is compressed.
        with: &'static str,
    },
    /// It is not what it was.
    #[error(
        "the shard has changed since it was opened: {what}; open it again (to replace a shard that is in \
         use, rename another over it)"
    )]
    Changed {
        /// What is different.
        what: String,
    },
    /// The watcher broke it off.
    #[error("reading was interrupted")]
    Interrupted,
    /// The system refused, or the compressed data is damaged.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What an archive is read from: forward only.
pub(super) trait Tape {
    /// Fills the block as far as there is something.
    fn read(&mut self, block: &mut [u8]) -> Result<usize, ArchiveError>;
    /// Goes on by `bytes`; returns how many there were.
    fn skip(&mut self, bytes: u64) -> Result<u64, ArchiveError>;
}

/// A file whose members need not be read to get past them.
pub(super) struct FileTape<'a> {
    file: &'a SourceFile,
    at: u64,
    len: u64,
}

impl<'a> FileTape<'a> {
    pub(super) fn new(file: &'a SourceFile, len: u64) -> FileTape<'a> {
        FileTape { file, at: 0, len }
    }
}

impl Tape for FileTape<'_> {
    fn read(&mut self, block: &mut [u8]) -> Result<usize, ArchiveError> {
        let there = (self.len - self.at).min(block.len() as u64) as usize;
        self.file.read_exact_at(&mut block[..there], self.at)?;
        self.at += there as u64;
        Ok(there)
    }
    fn skip(&mut self, bytes: u64) -> Result<u64, ArchiveError> {
        let there = (self.len - self.at).min(bytes);
        self.at += there;
        Ok(there)
    }
}

/// What is skipped of an object rather than read: where a request takes 50 ms, and a hundred megabytes come in a
/// second, so much comes while one would wait for the next header alone.
const LONG: u64 = 8 << 20;

/// An object: what lies between its headers is read, unless it is so long that a request of its own is quicker.
pub(super) struct FarTape<'a> {
    file: FileTape<'a>,
    passed: Vec<u8>,
    stop: &'a Stop<'a>,
}

impl<'a> FarTape<'a> {
    pub(super) fn new(file: &'a SourceFile, len: u64, stop: &'a Stop<'a>) -> FarTape<'a> {
        FarTape { file: FileTape::new(file, len), passed: Vec::new(), stop }
    }
}

impl Tape for FarTape<'_> {
    fn read(&mut self, block: &mut [u8]) -> Result<usize, ArchiveError> {
        self.file.read(block)
    }
    fn skip(&mut self, bytes: u64) -> Result<u64, ArchiveError> {
        /// So that what was read ahead is taken in pieces.
        const PIECE: u64 = 256 << 10;
        if bytes >= LONG {
            return self.file.skip(bytes);
        }
        let mut done = 0;
        while done < bytes {
            if self.stop.is_asked() {
                return Err(ArchiveError::Interrupted);
            }
            self.passed.resize((bytes - done).min(PIECE) as usize, 0);
            let there = self.file.read(&mut self.passed)? as u64;
            if there == 0 {
                break;
            }
            done += there;
        }
        Ok(done)
    }
}

/// A stream that must be read to get on.
pub(super) struct StreamTape<'a, R> {
    pub(super) reader: R,
    /// Looked at on long ways: a few kilobytes may become terabytes of a single member.
    pub(super) stop: Option<&'a Stop<'a>>,
}

/// How far a stream goes before it looks up.
const STRIDE: u64 = 16 << 20;

impl<R: Read> Tape for StreamTape<'_, R> {
    fn read(&mut self, mut block: &mut [u8]) -> Result<usize, ArchiveError> {
        let mut done = 0;
        while !block.is_empty() {
            match self.reader.read(block) {
                Ok(0) => break,
                Ok(n) => {
                    done += n;
                    block = &mut block[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(done)
    }
    fn skip(&mut self, bytes: u64) -> Result<u64, ArchiveError> {
        let mut done = 0;
        while done < bytes {
            if self.stop.is_some_and(Stop::is_asked) {
                return Err(ArchiveError::Interrupted);
            }
            let stride = (bytes - done).min(STRIDE);
            let there = io::copy(&mut self.reader.by_ref().take(stride), &mut io::sink())?;
            done += there;
            if there < stride {
                break;
            }
        }
        Ok(done)
    }
}

/// A regular file in the archive.
pub(super) struct Member<'a> {
    pub(super) name: &'a [u8],
    /// Where its content begins in the archive.
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// What extended headers have said of the member that follows.
#[derive(Default)]
struct Announced {
    /// Whether there was such a header.
    pending: bool,
    name: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

/// Shows all regular members to `visit`, in their order. Links, folders and devices are passed over.
/// Returns the archive's length. Looks at `stop` at every header, because there may be any number.
pub(super) fn members(
    tape: &mut impl Tape,
    stop: &Stop<'_>,
    mut visit: impl FnMut(Member<'_>) -> Result<(), ArchiveError>,
) -> Result<u64, ArchiveError> {
    let mut at = 0;
    let mut announced = Announced::default();
    let mut block = [0; BLOCK as usize];
    // Where this archive begins (another may have been put behind it), and zeros that were met.
    let (mut start, mut zeros) = (0, 0);
    loop {
        if stop.is_asked() {
            return Err(ArchiveError::Interrupted);
        }
        let there = tape.read(&mut block)?;
        let is_zero = block[..there].iter().all(|byte| *byte == 0);
        if there < block.len() {
            let end = at + there as u64;
            if end == 0 {
                return Err(ArchiveError::Empty);
            }
            if !is_zero || announced.pending {
                return Err(ArchiveError::Truncated { end, within: "within a header".to_string() });
            }
            zeros += there as u64;
            // Less than two blocks at the very end: many programs leave them out.
            if zeros > CLOSING && !fills_record(end - start, zeros) {
                return Err(ArchiveError::Zeros { from: end - zeros, zeros, more: "" });
            }
            return Ok(end);
        }
        if is_zero {
            at += BLOCK;
            zeros += BLOCK;
            if announced.pending || zeros > most_zeros(LARGEST_RECORD) {
                return Err(ArchiveError::Zeros { from: at - zeros, zeros, more: " or more" });
            }
            continue;
        }
        if zeros > 0 {
            if zeros != CLOSING && !fills_record(at - start, zeros) {
                let more = " between two members";
                return Err(ArchiveError::Zeros { from: at - zeros, zeros, more });
            }
            (start, zeros) = (at, 0);
        }
        let header = checked(&block, at)?;
        let data = at + BLOCK;
        let here = at;
        let field = |what: String| ArchiveError::Field { at: here, what };
        let kind = header.entry_type();
        let size = header.entry_size().map_err(|e| field(e.to_string()))?;
        let extension = match kind {
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader => true,
            // Said of all members at once, which a name or size cannot be.
            EntryType::XGlobalHeader => false,
            _ => {
                let Announced { name, size: announced_size, sparse, .. } =
                    std::mem::take(&mut announced);
                let name = name.map_or_else(|| header.path_bytes(), Into::into);
                let size = announced_size.unwrap_or(size);
                let size = if has_content(kind) { size } else { 0 };
                let shown = || crate::escaped(&name).to_string();
                if sparse || kind == EntryType::GNUSparse {
                    return Err(ArchiveError::Sparse { name: shown() });
                }
                if is_regular(kind) && !name.ends_with(b"/") {
                    visit(Member { name: &name, offset: data, size })?;
                }
                at = past(tape, data, size, || format!("within member `{}`", shown()))?;
                continue;
            }
        };
        if !extension {
            at = past(tape, data, size, || "within an extended header".to_string())?;
            continue;
        }
        if size > LONGEST_EXTENSION {
            return Err(field(format!("an extended header of {size} bytes")));
        }
        let mut content = vec![0; size as usize];
        let there = tape.read(&mut content)?;
        if there < content.len() {
            let (end, within) = (data + there as u64, "within an extended header".to_string());
            return Err(ArchiveError::Truncated { end, within });
        }
        let padding = size.next_multiple_of(BLOCK) - size;
        at = past_padding(tape, data + size, padding)?;
        announced.pending = true;
        match kind {
            EntryType::GNULongName => {
                let end = content.iter().position(|byte| *byte == 0).unwrap_or(content.len());
                content.truncate(end);
                announced.name = Some(content);
            }
            EntryType::XHeader => announce(&content, &mut announced).map_err(field)?,
            _ => {}
        }
    }
}

/// Whether zeros at the end of an archive of `len` bytes are what fills its last record.
fn fills_record(len: u64, zeros: u64) -> bool {
    let of_two = (1 << len.trailing_zeros().min(63)).min(LARGEST_RECORD);
    let in_records = |record| len.is_multiple_of(record) && zeros <= most_zeros(record);
    zeros >= CLOSING && (in_records(RECORD) || (of_two > RECORD && in_records(of_two)))
}

/// The longest run of zeros that ends an archive in such records: one more block would make one more record.
fn most_zeros(record: u64) -> u64 {
    CLOSING + record - BLOCK
}

/// The header in a block whose checksum is right.
fn checked(block: &[u8; 512], at: u64) -> Result<&Header, ArchiveError> {
    let header = Header::from_byte_slice(block);
    let sum = |value: fn(u8) -> i64| -> i64 {
        let field = 148..156;
        let counted =
            |(i, byte): (usize, &u8)| value(if field.contains(&i) { b' ' } else { *byte });
        block.iter().enumerate().map(counted).sum()
    };
    // Some old programs summed signed bytes.
    let right = header.cksum().is_ok_and(|sum_there| {
        let sum_there = i64::from(sum_there);
        sum_there == sum(i64::from) || sum_there == sum(|byte| i64::from(byte.cast_signed()))
    });
    if right {
        return Ok(header);
    }
    let advice = match at {
        0 => "it is no tar archive, or damaged",
        _ => "the archive is damaged: copy or make it again",
    };
    Err(ArchiveError::Checksum { at, advice })
}

/// Takes over what a PAX header says.
fn announce(content: &[u8], announced: &mut Announced) -> Result<(), String> {
    for record in PaxExtensions::new(content) {
        let record = record.map_err(|e| e.to_string())?;
        match record.key_bytes() {
            b"path" => announced.name = Some(record.value_bytes().to_vec()),
            b"size" => {
                let size = record.value().ok().and_then(|value| value.parse().ok());
                announced.size = Some(size.ok_or("its size is no number")?);
            }
            key if key.starts_with(b"GNU.sparse.") => announced.sparse = true,
            _ => {}
        }
    }
    Ok(())
}

/// Goes past a member's content and what fills its last block.
fn past(
    tape: &mut impl Tape,
    data: u64,
    size: u64,
    within: impl FnOnce() -> String,
) -> Result<u64, ArchiveError> {
    let there = tape.skip(size)?;
    if there < size {
        let within = format!("{}, which claims {size} bytes", within());
        return Err(ArchiveError::Truncated { end: data + there, within });
    }
    let padded = size.checked_next_multiple_of(BLOCK).and_then(|padded| data.checked_add(padded));
    if padded.is_none() {
        let (at, what) = (data - BLOCK, "its size is beyond 64 bits".to_string());
        return Err(ArchiveError::Field { at, what });
    }
    past_padding(tape, data + size, size.next_multiple_of(BLOCK) - size)
}

fn past_padding(tape: &mut impl Tape, from: u64, padding: u64) -> Result<u64, ArchiveError> {
    let there = tape.skip(padding)?;
    if there < padding {
        let within = "between two members".to_string();
        return Err(ArchiveError::Truncated { end: from + there, within });
    }
    Ok(from + padding)
}

fn is_regular(kind: EntryType) -> bool {
    matches!(kind, EntryType::Regular | EntryType::Continuous)
}

/// Links, devices and folders have none, whatever their size field says, as in Python's `tarfile`.
fn has_content(kind: EntryType) -> bool {
    !matches!(
        kind,
        EntryType::Link
            | EntryType::Symlink
            | EntryType::Char
            | EntryType::Block
            | EntryType::Directory
            | EntryType::Fifo
    )
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::SourceError;
    use crate::crowd::each;

    /// Does what has no end, and breaks it off when the watcher is first asked.
    fn broken_off(work: impl Fn(&Stop<'_>) -> Result<u64, ArchiveError> + Sync) {
        let done = each(1, &AtomicU64::new(0), &mut |_| ControlFlow::Break(()), |_, stop| {
            assert!(matches!(work(stop), Err(ArchiveError::Interrupted)));
            Err::<(), _>(SourceError::Interrupted)
        });
        assert!(matches!(done, Err(SourceError::Interrupted)), "{done:?}");
    }

    /// A file of one header after the other.
    struct Folders(Header);

    impl Tape for Folders {
        fn read(&mut self, block: &mut [u8]) -> Result<usize, ArchiveError> {
            block.copy_from_slice(self.0.as_bytes());
            Ok(block.len())
        }
        fn skip(&mut self, bytes: u64) -> Result<u64, ArchiveError> {
            Ok(bytes)
        }
    }

    #[test]
    fn headers_without_end_can_be_broken_off() {
        broken_off(|stop| {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            header.set_cksum();
            members(&mut Folders(header), stop, |_| Ok(()))
        });
    }

    #[test]
    fn a_member_without_end_can_be_broken_off() {
        broken_off(|stop| StreamTape { reader: io::repeat(0), stop: Some(stop) }.skip(u64::MAX));
    }
}
