//! Large allocations straight from the kernel.
//!
//! The byte budget promises how much memory a loader takes. The C library's allocator keeps what was freed: after the
//! first large buffer was given back it takes the next ones from heaps of its own, one per thread, and returns little
//! of them. So buffers from a megabyte on are mappings of their own, which are gone when they are freed.
//!
//! This concerns what is allocated in Rust by this module alone; Python, NumPy and torch keep their allocators.

use std::alloc::{GlobalAlloc, Layout, System};

/// From this size on.
pub(crate) const LARGE: usize = 1 << 20;

/// The system's allocator, with large allocations apart.
pub(crate) struct LargeApart;

#[cfg(target_os = "linux")]
// SAFETY: which of the two ways an allocation went follows from its layout alone, which is the same when it is freed; and
// each way keeps the contract by itself: the system's allocator has its own word, and a private anonymous mapping is
// zeroed memory of at least the size, aligned to a page, used by nobody else until it is unmapped.
unsafe impl GlobalAlloc for LargeApart {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_apart(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's contract, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_apart(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's contract, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_apart(layout) {
            // SAFETY: `map` made it with this size, or `realloc` resized it to it, and the caller gives it up.
            unsafe { libc::munmap(memory.cast(), layout.size()) };
            return;
        }
        // SAFETY: the caller's contract, passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
            return std::ptr::null_mut();
        };
        match (is_apart(layout), is_apart(wanted)) {
            // SAFETY: the caller's contract, passed on.
            (false, false) => unsafe { System.realloc(memory, layout, size) },
            (true, true) => {
                // SAFETY: the mapping is the caller's alone, and moves with its content.
                let moved = unsafe {
                    libc::mremap(memory.cast(), layout.size(), size, libc::MREMAP_MAYMOVE)
                };
                if moved == libc::MAP_FAILED { std::ptr::null_mut() } else { moved.cast() }
            }
            _ => {
                // SAFETY: both layouts are valid, the new memory is at least as long as what is copied, and the old
                // one is freed once.
                unsafe {
                    let new = self.alloc(wanted);
                    if !new.is_null() {
                        new.copy_from_nonoverlapping(memory, layout.size().min(size));
                        self.dealloc(memory, layout);
                    }
                    new
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn is_apart(layout: Layout) -> bool {
    // No kernel has smaller pages.
    layout.size() >= LARGE && layout.align() <= 4096
}

#[cfg(target_os = "linux")]
fn map(size: usize) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing of ours.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED { std::ptr::null_mut() } else { memory.cast() }
}

#[cfg(not(target_os = "linux"))]
// SAFETY: the system's allocator, unchanged.
unsafe impl GlobalAlloc for LargeApart {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract, passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}
