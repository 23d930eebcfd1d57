//! Shared memory without a name in any file system, so a small /dev/shm does not matter and nothing
//! is left behind when a process dies.
//!
//! One file holds all that a hub and its workers share. It is far larger than any machine's memory:
//! pages come into being when they are first touched, and go back to the system when they are
//! [removed](Window::remove). So memory grows and shrinks without another descriptor, and a process
//! needs one, however many batches are kept.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::IpcError;

/// The size of a page, at least: removing in multiples of it is sound on machines with larger pages too,
/// because the system rounds inwards.
pub(crate) const PAGE: u64 = 4096;

/// A shared file must not shrink: touching a page that is gone kills the process with SIGBUS. Nor may it
/// grow, so that its size is the same for everybody. The last seal keeps others from adding seals.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A sparse file in memory, whose size is sealed: no process, whatever it does, can take away memory
/// that another has mapped.
#[derive(Debug)]
pub(crate) struct SharedFile {
    fd: OwnedFd,
    len: u64,
}

impl SharedFile {
    /// Makes a file of zeros. The name is for people who look into /proc; any number may have the same.
    pub(crate) fn create(name: &str, len: u64) -> Result<SharedFile, IpcError> {
        let error = |doing| move |source| IpcError::System { doing, bytes: len, source };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags).map_err(error("create"))?;
        rustix::fs::ftruncate(&fd, len).map_err(error("size"))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(error("seal"))?;
        Ok(SharedFile { fd, len })
    }

    /// Takes a descriptor that came from another process. It must be of a sealed file in memory.
    pub(crate) fn open(fd: OwnedFd) -> Result<SharedFile, IpcError> {
        let number = fd.as_raw_fd();
        let other = |why: String| IpcError::NotOurs { fd: number, why };
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|source| other(format!("it has no seals: {source}")))?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(other("its size is not sealed, so whoever has it could crash us".into()));
        }
        // After the seals were seen: from here on the size cannot change.
        let status = rustix::fs::fstat(&fd).map_err(|source| other(source.to_string()))?;
        Ok(SharedFile { len: status.st_size as u64, fd })
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Maps a part of it for reading and writing. The range begins at a page.
    pub(crate) fn map(&self, range: Range<u64>) -> Result<Window, IpcError> {
        let bytes = range.end.saturating_sub(range.start);
        let error = |source| IpcError::System { doing: "map", bytes, source };
        let Ok(len) = usize::try_from(bytes) else { return Err(error(Errno::NOMEM)) };
        if range.end > self.len || len == 0 {
            return Err(error(Errno::INVAL));
        }
        // SAFETY: the system chooses an address range that nothing else uses; `Window` gives it back.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &self.fd,
                range.start,
            )
        };
        let address = NonNull::new(address.map_err(error)?.cast()).ok_or(error(Errno::FAULT))?;
        Ok(Window { address, start: range.start, len })
    }
}

impl AsFd for SharedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A part of a [`SharedFile`], mapped. It needs the file's descriptor no more.
#[derive(Debug)]
pub(crate) struct Window {
    address: NonNull<u8>,
    start: u64,
    len: usize,
}

// SAFETY: a window is an address range that belongs to it alone. Its safe methods touch no byte of the
// range; who may is told where it is done.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Where it is in the file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + self.len as u64
    }

    /// Its first byte.
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Where a part of the file is in this process; None if the window does not show all of it.
    pub(crate) fn at(&self, part: Range<u64>) -> Option<NonNull<u8>> {
        let all = self.range();
        if part.start < all.start || part.end > all.end || part.start > part.end {
            return None;
        }
        // SAFETY: within the mapping, or one past its end.
        Some(unsafe { self.address.add((part.start - all.start) as usize) })
    }

    /// Gives the whole pages of a part of the file back to the system, for everybody: they read as
    /// zeros afterwards. Whoever calls owns what is there.
    pub(crate) fn remove(&self, part: Range<u64>) {
        let start = part.start.next_multiple_of(PAGE);
        let end = part.end - part.end % PAGE;
        if start >= end {
            return;
        }
        let Some(address) = self.at(start..end) else { return };
        // SAFETY: within the mapping, and nobody's. Should it fail, the memory stays until the file goes.
        let _ = unsafe {
            rustix::mm::madvise(
                address.as_ptr().cast(),
                (end - start) as usize,
                Advice::LinuxRemove,
            )
        };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: `map` mapped just this range, and whoever looks into it holds the window.
        // It can only fail for a range that was never mapped.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.len) };
    }
}
