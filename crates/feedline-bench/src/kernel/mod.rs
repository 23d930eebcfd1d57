//! What the operating system tells about processes and the machine, as plain readings.
//!
//! Every function answers `None` where a system does not tell: a missing figure is shown as missing,
//! never as zero.

use std::time::Duration;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(not(target_os = "linux"))]
mod silent;
#[cfg(not(target_os = "linux"))]
pub(crate) use silent::*;

/// A process for as long as it lives. Numbers are reused, a number with its start is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessId {
    pub(crate) number: i32,
    /// Start, in the kernel's ticks since boot.
    pub(crate) start: u64,
}

/// What one process has used since it started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProcessReading {
    pub(crate) id: ProcessId,
    pub(crate) parent: i32,
    /// CPU time of all its threads, ended ones included.
    pub(crate) own_cpu: Duration,
    /// CPU time of children it has waited for, and of theirs.
    pub(crate) reaped_cpu: Duration,
    /// Storage traffic, with that of children it has waited for.
    pub(crate) io: Option<IoReading>,
}

/// Bytes that went to and came from storage (not the page cache).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IoReading {
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

/// How often the threads of this process, and children it has waited for, left the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SwitchReading {
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

/// CPU time of the whole machine since boot, summed over its cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MachineReading {
    /// User, nice, system and interrupt time.
    pub(crate) busy: Duration,
    /// Time in which a hypervisor ran somebody else.
    pub(crate) steal: Duration,
}
