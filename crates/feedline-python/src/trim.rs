//! Python objects that were large and are gone.
//!
//! Text, bytes and what functions return are Python's objects, whose memory comes from the C library. It keeps what was
//! freed, up to some tens of megabytes per thread that ever freed something large, which the byte budget knows
//! nothing of. So after some megabytes of such objects it is asked to give back what it does not need.
//!
//! It never gives back what lies at the end of a thread's own heap, which is where arrays of a few megabytes are. So the
//! pages of an object that is about to go are given to the system before.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::allocator::LARGE;

/// So much may be kept. To ask takes some tenths of a millisecond, as long as it takes to copy a few megabytes.
const MOST: usize = 4 << 20;

/// Bytes of large objects that are gone since the C library was asked last. Relaxed: a sum, nothing depends on it.
static GONE: AtomicUsize = AtomicUsize::new(0);

/// An object of so many bytes is gone.
pub(crate) fn dropped(bytes: usize) {
    if bytes >= LARGE && GONE.fetch_add(bytes, Ordering::Relaxed) + bytes >= MOST {
        GONE.store(0, Ordering::Relaxed);
        trim();
    }
}

/// Gives the whole pages within `memory` back to the system, if it is large; they are zeros afterwards.
///
/// # Safety
/// `memory` was allocated for an object that is dropped next, and nobody reads what is in it before.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn discard(memory: Range<*const u8>) {
    if (memory.end as usize) - (memory.start as usize) < LARGE {
        return;
    }
    // SAFETY: it may be asked at any time.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let head = memory.start.align_offset(page.next_power_of_two());
    let length = (memory.end as usize - memory.start as usize).saturating_sub(head) / page * page;
    // SAFETY: whole pages within the memory, which the caller has given up. (If the system refuses, they stay.)
    unsafe { libc::madvise(memory.start.add(head).cast_mut().cast(), length, libc::MADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn discard(_memory: Range<*const u8>) {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: it may be called at any time, by any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
