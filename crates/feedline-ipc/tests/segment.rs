//! Segments between processes, and descriptors that must be refused.
#![cfg(target_os = "linux")]

use std::os::fd::OwnedFd;

use feedline_ipc::{Segment, SegmentError};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use rustix::fs::{MemfdFlags, SealFlags};

/// Runs `child` in a forked process and waits for it; it tells of its success.
///
/// Other tests run in other threads, which may hold any lock at this moment, so `child` must neither
/// allocate nor print.
fn in_child(child: impl FnOnce() -> bool) {
    // SAFETY: the child calls `child`, which keeps to the rule above, and leaves at once.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            let code = if child() { 0 } else { 1 };
            // SAFETY: leaves without running anything of the parent's.
            unsafe { nix::libc::_exit(code) }
        }
        ForkResult::Parent { child } => {
            let status = waitpid(child, None).expect("wait");
            assert_eq!(status, WaitStatus::Exited(child, 0));
        }
    }
}

#[test]
fn what_a_forked_child_writes_the_parent_reads() {
    let segment = Segment::create("test", 3 * 4096 + 5).unwrap();
    in_child(|| {
        // SAFETY: the parent waits for this process before it looks.
        let Ok(bytes) = (unsafe { segment.bytes_mut(0..segment.len()) }) else { return false };
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        true
    });
    // SAFETY: the child has ended.
    let bytes = unsafe { segment.bytes(0..segment.len()) }.unwrap();
    assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == i as u8));
}

#[test]
fn a_child_can_map_the_descriptor_itself_and_what_it_wrote_outlives_it() {
    let segment = Segment::create("test", 8192).unwrap();
    let fd = segment.duplicate().unwrap();
    in_child(|| {
        let Ok(own) = Segment::open(fd, 8192) else { return false };
        // SAFETY: the parent waits for this process before it looks.
        let Ok(bytes) = (unsafe { own.bytes_mut(8000..8192) }) else { return false };
        bytes.fill(7);
        own.address() != segment.address()
    });
    // SAFETY: the child has ended.
    let bytes = unsafe { segment.bytes(0..8192) }.unwrap();
    assert!(bytes[..8000].iter().all(|byte| *byte == 0));
    assert!(bytes[8000..].iter().all(|byte| *byte == 7));
}

#[test]
fn a_child_cannot_take_memory_away() {
    let segment = Segment::create("test", 8192).unwrap();
    in_child(|| {
        let shrunk = rustix::fs::ftruncate(&segment, 4096);
        let grown = rustix::fs::ftruncate(&segment, 16_384);
        let sealed = rustix::fs::fcntl_add_seals(&segment, SealFlags::WRITE);
        shrunk.is_err() && grown.is_err() && sealed.is_err()
    });
    // SAFETY: nobody else has the segment.
    unsafe { segment.bytes_mut(8191..8192) }.unwrap()[0] = 1;
}

#[test]
fn memory_outlives_the_segment_it_was_made_as() {
    let first = Segment::create("test", 100).unwrap();
    // SAFETY: nobody else has the segment.
    unsafe { first.bytes_mut(0..3) }.unwrap().copy_from_slice(b"abc");
    let second = Segment::open(first.duplicate().unwrap(), 100).unwrap();
    drop(first);
    // SAFETY: nobody else has the segment.
    assert_eq!(unsafe { second.bytes(0..3) }.unwrap(), b"abc");
}

#[test]
fn another_size_than_expected_is_refused() {
    let segment = Segment::create("test", 8192).unwrap();
    for expected in [0, 1, 8191, 8193, usize::MAX] {
        let refused = Segment::open(segment.duplicate().unwrap(), expected);
        assert!(matches!(refused, Err(SegmentError::OtherSize { actual: 8192, .. })));
    }
}

#[test]
fn memory_that_could_shrink_is_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("test", flags).unwrap();
    rustix::fs::ftruncate(&fd, 4096).unwrap();
    assert!(matches!(Segment::open(fd, 4096), Err(SegmentError::NotSealed)));
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    let refused = Segment::open(OwnedFd::from(file), 4096);
    assert!(matches!(refused, Err(SegmentError::NotShared { .. } | SegmentError::NotSealed)));
}

#[test]
fn impossible_sizes_and_ranges_are_refused() {
    assert!(matches!(Segment::create("test", 0), Err(SegmentError::Size { .. })));
    assert!(matches!(Segment::create("test", usize::MAX), Err(SegmentError::Size { .. })));
    let message = Segment::create("test", isize::MAX as usize).unwrap_err().to_string();
    assert!(message.contains("cannot"), "{message}");
    let segment = Segment::create("test", 100).unwrap();
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let ranges = [0..101, 101..101, 50..49, 0..usize::MAX];
    for range in ranges {
        // SAFETY: nobody else has the segment.
        assert!(matches!(unsafe { segment.bytes(range) }, Err(SegmentError::Range { .. })));
    }
    // SAFETY: nobody else has the segment.
    assert_eq!(unsafe { segment.bytes(100..100) }.unwrap(), b"");
}
