//! Shared memory without a name in any file system, so a small /dev/shm does not matter and nothing
//! is left behind when a process dies.
//!
//! One file holds all that a hub and its workers share. It is far larger than any machine's memory:
//! pages come into being when they are first touched, and go back to the system when they are punched out
//! of it. So memory grows and shrinks without another descriptor, and a process needs one, however many
//! batches are kept.
//!
//! Only whole pages can go back, and how large a page is differs between machines (4, 16 or 64 KiB). The
//! system does not refuse a part of a page but takes all of it, or fills the part with zeros. So whoever gives
//! memory back does it by [`whole_pages`], and the functions here do nothing for anything else.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::IpcError;

/// The pages that lie within a part of a file as a whole; an empty range if there are none.
pub(crate) fn whole_pages(part: Range<u64>, page: u64) -> Range<u64> {
    let end = part.end - part.end % page;
    let start = part.start.checked_next_multiple_of(page).map_or(end, |start| start.min(end));
    start..end
}

/// The pages that a part of a file touches.
pub(crate) fn touched_pages(part: Range<u64>, page: u64) -> Range<u64> {
    part.start - part.start % page..part.end.checked_next_multiple_of(page).unwrap_or(part.end)
}

/// A shared file must not shrink: touching a page that is gone kills the process with SIGBUS. Nor may it
/// grow, so that its size is the same for everybody. The last seal keeps others from adding seals.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A sparse file in memory, whose size is sealed: no process, whatever it does, can take away memory
/// that another has mapped.
#[derive(Debug)]
pub(crate) struct SharedFile {
    fd: OwnedFd,
    len: u64,
    page: u64,
}

impl SharedFile {
    /// Makes a file of zeros. The name is for people who look into /proc; any number may have the same.
    pub(crate) fn create(name: &str, len: u64) -> Result<SharedFile, IpcError> {
        let error = |doing| move |source| IpcError::System { doing, bytes: len, source };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags).map_err(error("create"))?;
        rustix::fs::ftruncate(&fd, len).map_err(error("size"))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(error("seal"))?;
        Ok(SharedFile { fd, len, page: rustix::param::page_size() as u64 })
    }

    /// The same file, handled as on a machine with pages of this size, which its own divides.
    #[cfg(test)]
    pub(crate) fn with_page(self, page: u64) -> SharedFile {
        assert!(page.is_multiple_of(self.page));
        SharedFile { page, ..self }
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
        let page = rustix::param::page_size() as u64;
        Ok(SharedFile { len: status.st_size as u64, fd, page })
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The size of a page on this machine.
    pub(crate) fn page(&self) -> u64 {
        self.page
    }

    /// Gives whole pages back to the system, for everybody and whoever has them mapped: they read as zeros
    /// afterwards. Whoever calls owns what is there.
    pub(crate) fn punch(&self, pages: Range<u64>) {
        if !are_pages(&pages, self.page) {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = pages.end - pages.start;
        // Should it fail, the memory stays until the file goes.
        let _ =
            rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.fd, flags, pages.start, len));
    }

    /// Maps a part of it for reading and writing. The range begins at a page.
    pub(crate) fn map(&self, range: Range<u64>) -> Result<Mapping, IpcError> {
        let bytes = range.end.saturating_sub(range.start);
        let error = |source| IpcError::System { doing: "map", bytes, source };
        let Ok(len) = usize::try_from(bytes) else { return Err(error(Errno::NOMEM)) };
        if range.end > self.len || len == 0 {
            return Err(error(Errno::INVAL));
        }
        // SAFETY: the system chooses an address range that nothing else uses; `Mapping` gives it back.
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
        Ok(Mapping { address, start: range.start, len, page: self.page })
    }
}

/// Whether there is something to give back. Not being whole pages is a mistake of this crate; then nothing
/// is given back, because a neighbour's bytes might go with it.
fn are_pages(pages: &Range<u64>, page: u64) -> bool {
    let whole = pages.start.is_multiple_of(page) && pages.end.is_multiple_of(page);
    debug_assert!(whole, "{pages:?} are not whole pages of {page} bytes");
    whole && !pages.is_empty()
}

impl AsFd for SharedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A part of a [`SharedFile`], mapped. It needs the file's descriptor no more.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: NonNull<u8>,
    start: u64,
    len: usize,
    page: u64,
}

// SAFETY: a mapping is an address range that belongs to it alone. Its safe methods touch no byte of the
// range; who may is told where it is done.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Where it is in the file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + self.len as u64
    }

    /// Its first byte.
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Where a part of the file is in this process; None if the mapping does not show all of it.
    pub(crate) fn at(&self, part: Range<u64>) -> Option<NonNull<u8>> {
        let all = self.range();
        if part.start < all.start || part.end > all.end || part.start > part.end {
            return None;
        }
        // SAFETY: within the mapping, or one past its end.
        Some(unsafe { self.address.add((part.start - all.start) as usize) })
    }

    /// The same as [`SharedFile::punch`] where the mapping shows the pages, for when the file's descriptor
    /// is closed.
    pub(crate) fn punch(&self, pages: Range<u64>) {
        if !are_pages(&pages, self.page) {
            return;
        }
        let Some(address) = self.at(pages.clone()) else { return };
        let len = (pages.end - pages.start) as usize;
        // SAFETY: within the mapping, and nobody's. Should it fail, the memory stays until the file goes.
        let _ = unsafe { rustix::mm::madvise(address.as_ptr().cast(), len, Advice::LinuxRemove) };
    }

    /// The size of a page on this machine.
    pub(crate) fn page(&self) -> u64 {
        self.page
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` mapped just this range, and whoever looks into it holds the mapping.
        // It can only fail for a range that was never mapped.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_touched_pages_are_what_counting_bytes_says() {
        for page in [4, 16, 64] {
            let pages = |part: &Range<u64>, wanted: fn(usize, u64) -> bool| -> Vec<u64> {
                (0..256 / page)
                    .filter(|i| {
                        let bytes = i * page..(i + 1) * page;
                        wanted(bytes.filter(|byte| part.contains(byte)).count(), page)
                    })
                    .collect()
            };
            for start in 0..256 {
                for end in start..=256 {
                    let whole = whole_pages(start..end, page);
                    let expected = pages(&(start..end), |bytes, page| bytes as u64 == page);
                    assert_eq!(
                        Vec::from_iter(whole.step_by(page as usize).map(|b| b / page)),
                        expected
                    );
                    let touched = touched_pages(start..end, page);
                    let expected = pages(&(start..end), |bytes, _| bytes > 0);
                    if start < end {
                        let found = touched.step_by(page as usize).map(|b| b / page);
                        assert_eq!(Vec::from_iter(found), expected);
                    }
                }
            }
        }
        assert!(whole_pages(u64::MAX - 5..u64::MAX, 4096).is_empty());
    }

    #[test]
    fn punched_pages_are_gone_and_their_neighbours_are_not() {
        for page in [1, 4] {
            let file = SharedFile::create("test", 1 << 20).expect("memory");
            let page = page * file.page();
            let file = file.with_page(page);
            let mapping = file.map(0..1 << 20).expect("memory");
            let bytes = mapping.address().as_ptr();
            // SAFETY: all of the mapping, which nobody else has.
            unsafe { bytes.write_bytes(7, 1 << 20) };
            file.punch(page..3 * page);
            mapping.punch(5 * page..6 * page);
            // Before anybody looks: that would make pages of zeros.
            let blocks = rustix::fs::fstat(&file).expect("a file").st_blocks as u64;
            assert_eq!(blocks * 512, (1 << 20) - 3 * page);
            for byte in 0..1 << 20 {
                let gone = (page..3 * page).contains(&byte) || (5 * page..6 * page).contains(&byte);
                // SAFETY: within the mapping.
                assert_eq!(unsafe { bytes.add(byte as usize).read() }, if gone { 0 } else { 7 });
            }
        }
    }
}
