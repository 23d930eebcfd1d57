//! Shared memory without a name in any file system, so a small /dev/shm does not matter and nothing
//! is left behind when a process dies.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// A segment must not shrink: touching a page that is gone kills the process with SIGBUS. Nor may it grow,
/// so that its size is the same for everybody. The last seal keeps others from adding seals.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Memory that several processes see, held by a file descriptor and mapped for reading and writing.
///
/// Its size is sealed: no process, whatever it does, can take away memory that another has mapped.
/// The memory goes back to the system when the last descriptor is closed and the last mapping dropped.
#[derive(Debug)]
pub struct Segment {
    fd: OwnedFd,
    address: NonNull<u8>,
    len: usize,
}

// SAFETY: a segment is a descriptor and an address range that belongs to it alone. Its safe methods
// touch no byte of the range; who may is in the contracts of `bytes` and `bytes_mut`.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Why a segment cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// A size that no segment has.
    #[error("a segment of {bytes} bytes cannot be made; pass 1 to {}", isize::MAX)]
    Size {
        /// The size asked for.
        bytes: usize,
    },
    /// The system refused.
    #[error("cannot {doing} shared memory of {bytes} bytes: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The segment's size.
        bytes: usize,
        /// What the system said.
        source: Errno,
    },
    /// A descriptor of something else.
    #[error("the descriptor is not of shared memory: {source}; pass one from `Segment::duplicate`")]
    NotShared {
        /// What the system said.
        source: Errno,
    },
    /// A descriptor whose memory could be taken away.
    #[error(
        "the shared memory is not sealed against change of size, so whoever has it could crash this \
         process; pass a descriptor from `Segment::duplicate`"
    )]
    NotSealed,
    /// Another size than expected.
    #[error(
        "the shared memory has {actual} bytes, expected {expected}; both sides must agree on it"
    )]
    OtherSize {
        /// The size expected.
        expected: usize,
        /// The size it has.
        actual: u64,
    },
    /// A range that is not in the segment.
    #[error("bytes {start}..{end} are not within a segment of {len}")]
    Range {
        /// Its start.
        start: usize,
        /// Its end.
        end: usize,
        /// The segment's size.
        len: usize,
    },
}

impl Segment {
    /// Makes a segment of zeros. The name is for people who look into /proc; any number of segments may
    /// have the same. Memory is taken when a page is first touched.
    pub fn create(name: &str, bytes: usize) -> Result<Segment, SegmentError> {
        if bytes == 0 || bytes > isize::MAX as usize {
            return Err(SegmentError::Size { bytes });
        }
        let error = |doing| move |source| SegmentError::System { doing, bytes, source };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags).map_err(error("create"))?;
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(error("size"))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(error("seal"))?;
        Segment::map(fd, bytes)
    }

    /// Maps a segment that another process made. The descriptor must be of sealed shared memory of
    /// exactly `bytes` bytes: it may come from a process that is broken.
    pub fn open(fd: OwnedFd, bytes: usize) -> Result<Segment, SegmentError> {
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|source| SegmentError::NotShared { source })?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(SegmentError::NotSealed);
        }
        // After the seals were seen: from here on the size cannot change.
        let actual = rustix::fs::fstat(&fd)
            .map_err(|source| SegmentError::System { doing: "measure", bytes, source })?
            .st_size as u64;
        if actual != bytes as u64 || bytes == 0 {
            return Err(SegmentError::OtherSize { expected: bytes, actual });
        }
        Segment::map(fd, bytes)
    }

    fn map(fd: OwnedFd, len: usize) -> Result<Segment, SegmentError> {
        // SAFETY: the system chooses an address range that nothing else uses; `drop` gives it back.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )
        };
        let error = |source| SegmentError::System { doing: "map", bytes: len, source };
        let address = NonNull::new(address.map_err(error)?.cast()).ok_or(error(Errno::FAULT))?;
        Ok(Segment { fd, address, len })
    }

    /// A second descriptor, to be given to another process. It is closed in programs that this process
    /// starts, unless whoever starts them says otherwise.
    pub fn duplicate(&self) -> Result<OwnedFd, SegmentError> {
        rustix::io::fcntl_dupfd_cloexec(&self.fd, 0).map_err(|source| SegmentError::System {
            doing: "duplicate the descriptor of",
            bytes: self.len,
            source,
        })
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a segment of no bytes cannot be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its first byte in this process, aligned to a page. Valid as long as the segment lives.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Bytes of it, to be read.
    ///
    /// # Safety
    /// As long as the slice lives nobody writes to the range, in this process or any other.
    pub unsafe fn bytes(&self, range: Range<usize>) -> Result<&[u8], SegmentError> {
        let (start, len) = self.check(range)?;
        // SAFETY: the range is within the mapping, which lives as long as `self` and cannot lose a
        // page (its size is sealed); the caller promises that nobody writes to it.
        Ok(unsafe { std::slice::from_raw_parts(self.address.as_ptr().add(start), len) })
    }

    /// Bytes of it, to be written.
    ///
    /// # Safety
    /// As long as the slice lives nobody else reads or writes the range, in this process or any other.
    #[expect(clippy::mut_from_ref, reason = "who may write is the caller's promise")]
    pub unsafe fn bytes_mut(&self, range: Range<usize>) -> Result<&mut [u8], SegmentError> {
        let (start, len) = self.check(range)?;
        // SAFETY: as in `bytes`; the caller promises that nobody else touches the range.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr().add(start), len) })
    }

    fn check(&self, range: Range<usize>) -> Result<(usize, usize), SegmentError> {
        let Range { start, end } = range;
        if start > end || end > self.len {
            return Err(SegmentError::Range { start, end, len: self.len });
        }
        Ok((start, end - start))
    }
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: `map` mapped just this range, and every slice of it borrows from `self`.
        // It can only fail for a range that was never mapped.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.len) };
    }
}
