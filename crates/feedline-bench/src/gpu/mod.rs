//! Graphics processors, where there are some: how busy they are and how much of their memory is used.
//!
//! NVIDIA's management library (NVML) is found at run time, as its driver is for page-locked memory:
//! `libnvidia-ml.so.1`, or what the environment variable `FEEDLINE_NVML` names. Without it everything is
//! measured but GPUs, and the record says why. Figures are those of the whole device, whoever uses it: the
//! library tells no more without special rights.

mod nvml;

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use nvml::{GpuHandle, Nvml};

/// Names the library where the system's own search does not find the right one.
const LIBRARY_VARIABLE: &str = "FEEDLINE_NVML";
#[cfg(not(windows))]
const LIBRARY: &str = "libnvidia-ml.so.1";
#[cfg(windows)]
const LIBRARY: &str = "nvml.dll";

/// Why no GPU can be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoGpu {
    /// There is no such library, or it cannot be loaded.
    #[error(
        "none found: cannot load `{library}` ({why}); name it in {LIBRARY_VARIABLE} if it is elsewhere"
    )]
    NotFound {
        /// What was looked for.
        library: String,
        /// What the system's loader says.
        why: String,
    },
    /// The library is something else, or too old.
    #[error("`{library}` has no `{symbol}`, so it is not NVML; update NVIDIA's driver")]
    Symbol {
        /// What was loaded.
        library: String,
        /// What it lacks.
        symbol: &'static str,
    },
    /// The library does not start.
    #[error("`{library}` does not start: {why}; see whether `nvidia-smi` works")]
    Init {
        /// What was loaded.
        library: String,
        /// Its words.
        why: String,
    },
    /// There is nothing to watch.
    #[error("`{library}` sees no device")]
    NoDevice {
        /// What was loaded.
        library: String,
    },
}

/// All GPUs at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuReading {
    /// The share of time that they were busy, from 0 to 1: the mean over all devices.
    pub busy: f64,
    /// Bytes of their memory in use, over all devices.
    pub memory_bytes: u64,
}

/// The GPUs of this machine.
#[derive(Debug)]
pub struct Gpus {
    nvml: Nvml,
    devices: Vec<GpuHandle>,
}

impl Gpus {
    /// Those that NVML finds. Looked for once; the answer stays.
    pub fn find() -> Result<&'static Self, &'static NoGpu> {
        static FOUND: OnceLock<Result<Gpus, NoGpu>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let named = std::env::var_os(LIBRARY_VARIABLE).filter(|it| !it.is_empty());
            Self::open_at(&named.unwrap_or_else(|| OsString::from(LIBRARY)))
        });
        found.as_ref()
    }

    /// Those that a library of the given name or path finds.
    pub fn open_at(library: &OsStr) -> Result<Self, NoGpu> {
        let nvml = Nvml::load(library)?;
        let devices = nvml.devices();
        if devices.is_empty() {
            return Err(NoGpu::NoDevice { library: library.to_string_lossy().into_owned() });
        }
        Ok(Self { nvml, devices })
    }

    /// Their names and memory, as people read them.
    pub fn names(&self) -> Vec<String> {
        let name = |device: &GpuHandle| {
            let name = self.nvml.name(*device).unwrap_or_else(|| "unknown GPU".into());
            match self.nvml.memory(*device) {
                Some((_, total)) => format!("{name}, {}", crate::units::bytes(total as f64)),
                None => name,
            }
        };
        self.devices.iter().map(name).collect()
    }

    /// What they do now; `None` if none of them tells.
    pub fn read(&self) -> Option<GpuReading> {
        let busy: Vec<f64> = self.devices.iter().filter_map(|it| self.nvml.busy(*it)).collect();
        let memory = self.devices.iter().filter_map(|it| self.nvml.memory(*it));
        let memory_bytes = memory.fold(None, |sum, (used, _)| Some(sum.unwrap_or(0) + used))?;
        let mean = busy.iter().sum::<f64>() / busy.len() as f64;
        (!busy.is_empty()).then_some(GpuReading { busy: mean, memory_bytes })
    }
}
