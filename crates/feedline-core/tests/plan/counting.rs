//! Counts the bytes that the current thread has allocated and not freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn book(bytes: isize) {
    // A thread that is being torn down may still free memory; it is measuring nothing then.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: every call goes to the system allocator unchanged; the counter is a plain thread-local
// without destructor, which never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        book(layout.size() as isize);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        book(-(layout.size() as isize));
        // SAFETY: `pointer` came from `System` with this layout, through `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What `make` returns, and the bytes it keeps alive.
pub(crate) fn kept<T>(make: impl FnOnce() -> T) -> (T, isize) {
    let before = LIVE.get();
    let made = make();
    (made, LIVE.get() - before)
}
