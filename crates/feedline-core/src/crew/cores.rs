//! How many workers a machine is good for, binding them to cores, and who runs first on one.

/// Cores this process may use: the machine's, less what affinity and the cgroup's CPU quota forbid.
///
/// The standard library reads all three (`sched_getaffinity`, cgroup v1 and v2 quotas).
#[must_use]
pub fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Binds the calling thread to the `worker`-th core it may use, going round. Without the right, or on
/// a system without affinity, the thread stays where it is: pinning is a wish, not a need.
#[cfg(target_os = "linux")]
pub(crate) fn pin_to(worker: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if cores.is_empty() {
        return;
    }
    let mut one = CpuSet::new();
    one.set(cores[worker % cores.len()]);
    let _ = sched_setaffinity(None, &one);
}

/// Other systems: nothing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin_to(_worker: usize) {}

/// Lets whoever runs on a core go on there when the calling thread is woken.
///
/// The loop wakes a worker when it gives a batch back. If the kernel puts that worker on the loop's own
/// core, it would run at once, for milliseconds, and leave the loop with cold caches. As a thread of
/// batch work it waits until the loop sleeps or its time is over; its share of the processor is the same.
/// Threads that it starts inherit that. A policy that the user chose is kept.
#[cfg(target_os = "linux")]
pub(crate) fn stand_back() {
    // SAFETY: both calls only concern the calling thread (0). The parameter is plain numbers, for which
    // zero is a value, and outlives the call.
    unsafe {
        if libc::sched_getscheduler(0) == libc::SCHED_OTHER {
            let parameter: libc::sched_param = std::mem::zeroed();
            // A wish as well: where it is forbidden, the thread stays an ordinary one.
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameter);
        }
    }
}

/// Other systems: nothing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn stand_back() {}
