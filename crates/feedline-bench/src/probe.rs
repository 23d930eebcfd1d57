//! The instruments a contest reads: a clock and the use of resources.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A clock and a meter. [`SystemProbe`](crate::SystemProbe) is the real one,
/// [`VirtualProbe`](crate::VirtualProbe) makes tests exact and instant.
pub trait Probe: Send {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;

    /// Starts to meter. A second call starts anew.
    fn begin(&mut self);

    /// Stops and tells what was used since [`begin`](Self::begin).
    fn end(&mut self) -> Usage;
}

/// What the whole process tree used during a run, and what went on around it. `None` means that the
/// system does not tell (or the run was too short to tell), never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// CPU seconds, user and system, of this process and its descendants, without the monitor's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// CPU seconds of the thread that ran the side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_cpu_s: Option<f64>,
    /// CPU seconds that sampling cost; they are not in `cpu_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor_cpu_s: Option<f64>,
    /// Proportional set size of the tree when the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_start_bytes: Option<u64>,
    /// Largest proportional set size that a sample saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_peak_bytes: Option<u64>,
    /// Mean proportional set size over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_mean_bytes: Option<u64>,
    /// Number of memory samples behind these three.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_samples: Option<u64>,
    /// Largest number of processes that a sample saw, this one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes_peak: Option<u64>,
    /// Times a thread of this process, or of a child it waited for, gave the CPU away to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Times such a thread was moved off the CPU for another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// Bytes read from storage (not from the page cache) by the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_read_bytes: Option<u64>,
    /// Bytes sent to storage by the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_written_bytes: Option<u64>,
    /// The share of time that GPUs were busy, from 0 to 1: mean over devices and samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_busy: Option<f64>,
    /// Most bytes of GPU memory in use that a sample saw, over all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory_peak_bytes: Option<u64>,
    /// Load by everybody else on the machine, in cores: (busy time of all cores - CPU time of the
    /// tree) / elapsed time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_cores: Option<f64>,
    /// Time a hypervisor took away, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steal_cores: Option<f64>,
}
