//! Systems that this crate cannot read figures from yet.

use std::time::Duration;

use super::{MachineReading, ProcessId, ProcessReading, SwitchReading};

pub(crate) fn thread_cpu() -> Option<Duration> {
    None
}

pub(crate) fn own_cpu() -> Option<Duration> {
    None
}

pub(crate) fn switches() -> Option<SwitchReading> {
    None
}

pub(crate) fn machine_time() -> Option<MachineReading> {
    None
}

pub(crate) fn tree(_root: u32, _known: &[ProcessId]) -> Option<Vec<ProcessReading>> {
    None
}

pub(crate) fn pss_bytes(_process: i32) -> Option<u64> {
    None
}

pub(crate) fn cpu_model() -> Option<String> {
    None
}

pub(crate) fn memory_bytes() -> Option<u64> {
    None
}

pub(crate) fn available_bytes() -> Option<u64> {
    None
}

pub(crate) fn kernel_version() -> Option<String> {
    None
}
