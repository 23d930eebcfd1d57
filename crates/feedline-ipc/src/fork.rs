//! Forked children, and how long they live.
//!
//! A forked child sees the loans that its parent held at that moment, and may look at them as long as it
//! lives. So their extents must not be reused before it has ended, however soon the parent lets go of them.
//!
//! # Protocol
//!
//! Before a fork during which there are loans, a pipe is made. The child keeps its writing end, as do
//! the child's children, and nobody ever writes; the parent keeps the reading end. When the last of them has ended (or
//! has become another program: the ends are closed then), the reading end says so. A loan notes how many
//! forks there were when it was made, and its extent is free to be reused when the children of all later forks have
//! ended.
//!
//! The handlers run in the thread that forks, before the fork and after it in both processes. In the child
//! other threads may have held any lock, so it forgets the parent's list instead of locking it.
//!
//! For the same reason nothing is waited for to register them: a `Once` that another thread is in while this one
//! forks would never end in the child. Whoever finds them not registered registers them; what runs more than once in a
//! fork does nothing the second time.

use std::cell::Cell;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;

use crate::sync::lock;

/// Forks that have begun. Relaxed, as all of these: threads that fork and threads that let go of loans
/// at the same moment may be in either order.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Forks that are over for the parent.
static OVER: AtomicU64 = AtomicU64::new(0);
/// Loans of this process.
static LOANS: AtomicU64 = AtomicU64::new(0);
/// This process's children; null until there is one.
static CHILDREN: AtomicPtr<Mutex<Vec<Child>>> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// Whether this thread is in a fork that is counted already.
    static IS_FORKING: Cell<bool> = const { Cell::new(false) };
    /// The pipe of the fork that this thread is in.
    static PIPE: Cell<Option<(i32, i32)>> = const { Cell::new(None) };
}

/// A child that may look at loans of this process.
struct Child {
    /// Which fork made it, counted from 1.
    fork: u64,
    /// Closed at the other end when it is gone; None if there was no pipe to be had.
    alive: Option<OwnedFd>,
}

fn children() -> &'static Mutex<Vec<Child>> {
    let made = CHILDREN.load(Ordering::Acquire);
    if !made.is_null() {
        // SAFETY: it came from `Box::leak` below and is never freed.
        return unsafe { &*made };
    }
    let new: *mut Mutex<Vec<Child>> = Box::leak(Box::new(Mutex::new(Vec::new())));
    // AcqRel: publishes the new list, or sees that of the thread which was faster (then this one leaks,
    // some bytes once).
    let null = std::ptr::null_mut();
    match CHILDREN.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => unsafe { &*new },
        // SAFETY: as above.
        Err(other) => unsafe { &*other },
    }
}

extern "C" fn before() {
    if IS_FORKING.replace(true) {
        return;
    }
    BEGUN.fetch_add(1, Ordering::Relaxed);
    let pipe = match LOANS.load(Ordering::Relaxed) {
        0 => None,
        _ => rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok(),
    };
    PIPE.set(pipe.map(|(read, write)| (read.into_raw_fd(), write.into_raw_fd())));
}

extern "C" fn after_in_parent() {
    if !IS_FORKING.replace(false) {
        return;
    }
    let pipe = PIPE.take();
    if LOANS.load(Ordering::Relaxed) > 0 || pipe.is_some() {
        // SAFETY: both were made in `before` and belong to nobody else.
        let alive = pipe.map(|(read, write)| unsafe {
            drop(OwnedFd::from_raw_fd(write));
            OwnedFd::from_raw_fd(read)
        });
        let mut children = lock(children());
        // Somebody who forks again and again must not run out of descriptors.
        forget_the_gone(&mut children);
        children.push(Child { fork: BEGUN.load(Ordering::Relaxed), alive });
    }
    OVER.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn after_in_child() {
    if !IS_FORKING.replace(false) {
        return;
    }
    if let Some((read, _write)) = PIPE.take() {
        // SAFETY: made in `before`. The other end stays open as long as this process.
        drop(unsafe { OwnedFd::from_raw_fd(read) });
    }
    // The loans are the parent's, and so are its children.
    LOANS.store(0, Ordering::Relaxed);
    OVER.store(BEGUN.load(Ordering::Relaxed), Ordering::Relaxed);
    CHILDREN.store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// Watches the forks of this process from now on. (`vfork` and `posix_spawn` do not matter: their
/// children run another program.)
pub(crate) fn watch() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    // Relaxed: it says nothing about other memory, and a thread that sees it too late registers them once more.
    if IS_REGISTERED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the handlers call what may be called there: atomics, pipes, and, in the parent, a lock that
    // is held for moments. Should the system have no room for them, there is nothing better to do than without.
    let _ =
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    IS_REGISTERED.store(true, Ordering::Relaxed);
}

/// Notes a new loan, and returns what [`are_children_gone`] needs to know about it.
pub(crate) fn loan_made() -> u64 {
    LOANS.fetch_add(1, Ordering::Relaxed);
    BEGUN.load(Ordering::Relaxed)
}

/// Notes that a loan of this process is no more.
pub(crate) fn loan_dropped() {
    LOANS.fetch_sub(1, Ordering::Relaxed);
}

/// Whether no child is left that may look at a loan which was made after so many forks.
pub(crate) fn are_children_gone(since: u64) -> bool {
    let begun = BEGUN.load(Ordering::Relaxed);
    if begun == since {
        return true;
    }
    // Somebody is forking just now: ask later.
    if OVER.load(Ordering::Relaxed) != begun {
        return false;
    }
    let mut children = lock(children());
    forget_the_gone(&mut children);
    children.iter().all(|child| child.fork <= since)
}

/// Closes the pipes of children that have ended. Others wait for the next fork.
pub(crate) fn look_after() {
    if !CHILDREN.load(Ordering::Acquire).is_null() {
        forget_the_gone(&mut lock(children()));
    }
}

fn forget_the_gone(children: &mut Vec<Child>) {
    children.retain(|child| child.alive.as_ref().is_none_or(|pipe| !is_closed(pipe)));
}

fn is_closed(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ready = rustix::event::poll(&mut polled, Some(&now));
    ready.is_ok() && polled[0].revents().contains(PollFlags::HUP)
}
