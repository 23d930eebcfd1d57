//! How many workers a machine is good for, and binding them to cores.

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
