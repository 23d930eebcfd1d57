//! The first hub of a process, made while another thread forks. Nothing else in this program makes one.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering};

use feedline_ipc::Hub;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};

const TRIALS: usize = 2000;

/// Forks, and calls `child` in the child, which then ends; returns how it ended.
fn in_a_child(child: impl FnOnce()) -> WaitStatus {
    // SAFETY: the child uses what the C library allows after a fork, and leaves without unwinding.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => waitpid(child, None).expect("wait"),
        ForkResult::Child => {
            alarm::set(60); // a child that hangs is ended by it
            child();
            // SAFETY: leaves without running anything of the parent's.
            unsafe { nix::libc::_exit(0) }
        }
    }
}

#[test]
fn a_child_that_was_forked_meanwhile_makes_its_own() {
    for trial in 0..TRIALS {
        let ended = in_a_child(|| {
            static IS_TIME: AtomicBool = AtomicBool::new(false);
            let first = std::thread::spawn(|| {
                while !IS_TIME.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                drop(Hub::new(1));
            });
            IS_TIME.store(true, Ordering::Relaxed);
            // Between nothing and some microseconds later.
            (0..trial % 100 * 20).for_each(|_| std::hint::spin_loop());
            let ended = in_a_child(|| drop(Hub::new(1)));
            assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
            first.join().expect("it ends");
        });
        assert!(matches!(ended, WaitStatus::Exited(_, 0)), "trial {trial}: {ended:?}");
    }
}
