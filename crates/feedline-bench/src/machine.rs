//! The machine a measurement was made on.

use std::thread;

use serde::{Deserialize, Serialize};

use crate::{Gpus, kernel};

/// What a reader needs to know about the machine to place the figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Machine {
    /// Name of the processor.
    pub cpu: Option<String>,
    /// Cores that this process may use: affinity and the cgroup's quota taken into account.
    pub cores: Option<usize>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Graphics processors, with their memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Why no graphics processor is watched, where none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_gpu: Option<String>,
    /// Operating system and architecture.
    pub system: String,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Compiler that built this crate.
    pub rustc: Option<String>,
    /// Version of feedline.
    pub feedline: String,
}

impl Machine {
    /// Describes the machine that this runs on.
    pub fn describe() -> Self {
        let (gpus, no_gpu) = match Gpus::find() {
            Ok(gpus) => (gpus.names(), None),
            Err(why) => (Vec::new(), Some(why.to_string())),
        };
        Self {
            cpu: kernel::cpu_model(),
            cores: thread::available_parallelism().ok().map(usize::from),
            memory_bytes: kernel::memory_bytes(),
            gpus,
            no_gpu,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            kernel: kernel::kernel_version(),
            rustc: option_env!("FEEDLINE_RUSTC_VERSION").map(str::to_owned),
            feedline: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        parts.push(self.cpu.clone().unwrap_or_else(|| "unknown processor".into()));
        if let Some(cores) = self.cores {
            parts.push(format!("{cores} usable core{}", if cores == 1 { "" } else { "s" }));
        }
        if let Some(bytes) = self.memory_bytes {
            parts.push(format!("{:.1} GiB", bytes as f64 / f64::from(1u32 << 30)));
        }
        parts.extend(self.gpus.iter().cloned());
        parts.push(self.system.clone());
        parts.extend(self.kernel.as_ref().map(|release| format!("kernel {release}")));
        parts.extend(self.rustc.as_deref().and_then(|it| it.split(" (").next()).map(str::to_owned));
        parts.push(format!("feedline {}", self.feedline));
        parts.retain(|part| !part.is_empty());
        f.write_str(&parts.join(", "))
    }
}
