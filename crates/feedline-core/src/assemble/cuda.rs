//! Page-locked blocks by way of NVIDIA's driver, where there is one.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde::Serialize;

use crate::process::Process;
use crate::sync::{Mutex, lock};

use super::block::Memory;
use super::driver::{Context, CuResult, CudaDriver};
use super::pool::PageLock;

/// Names the driver library where the system's own search does not find the right one.
const LIBRARY_VARIABLE: &str = "FEEDLINE_CUDA_DRIVER";
#[cfg(not(windows))]
const LIBRARY: &str = "libcuda.so.1";
#[cfg(windows)]
const LIBRARY: &str = "nvcuda.dll";
/// The limit where the system does not tell how much memory it has.
const LIMIT_WITHOUT_KNOWLEDGE: u64 = 1 << 30;

/// Why no memory can be page-locked here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoDriver {
    /// There is no such library, or it cannot be loaded.
    #[error(
        "no CUDA driver: cannot load `{library}` ({why}); install NVIDIA's driver, or name its library \
         in {LIBRARY_VARIABLE}"
    )]
    NotFound {
        /// What was looked for.
        library: String,
        /// What the system's loader says.
        why: String,
    },
    /// The library is something else, or too old.
    #[error(
        "`{library}` has no `{symbol}`, so it is not a CUDA driver of version 11 or later; update the \
         driver, or name its library in {LIBRARY_VARIABLE}"
    )]
    Symbol {
        /// What was loaded.
        library: String,
        /// What it lacks.
        symbol: &'static str,
    },
    /// The driver does not start.
    #[error(
        "the CUDA driver `{library}` does not start: {why} (cuInit gave {code}); see whether \
         `nvidia-smi` works; a process forked after CUDA was used must be spawned instead"
    )]
    Init {
        /// What was loaded.
        library: String,
        /// The driver's error code.
        code: i32,
        /// The driver's words for it.
        why: String,
    },
    /// The driver has nothing to drive.
    #[error(
        "the CUDA driver `{library}` sees no device; check CUDA_VISIBLE_DEVICES and `nvidia-smi -L`"
    )]
    NoDevice {
        /// What was loaded.
        library: String,
    },
    /// There is no such device.
    #[error("there is no CUDA device {device}; give one below {count}")]
    UnknownDevice {
        /// The ordinal that was asked for.
        device: u32,
        /// How many devices there are.
        count: u32,
    },
    /// The device cannot be used by this process.
    #[error(
        "CUDA device {device} gives no context: {why} ({code}); see in `nvidia-smi` who uses it"
    )]
    Context {
        /// The device's ordinal.
        device: u32,
        /// The driver's error code.
        code: i32,
        /// The driver's words for it.
        why: String,
    },
}

/// What a [`CudaHostMemory`] has page-locked and what it has not.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PinnedBytes {
    /// How many bytes may be page-locked at a time.
    pub limit: u64,
    /// Bytes that are page-locked now.
    pub registered: u64,
    /// The most there have been.
    pub peak: u64,
    /// Blocks page-locked so far.
    pub registered_blocks: u64,
    /// Bytes of blocks that stayed ordinary because of the limit, so far.
    pub refused_by_limit: u64,
    /// Bytes of blocks that stayed ordinary because the driver refused them, so far.
    pub refused_by_driver: u64,
    /// Blocks that stayed ordinary for either reason, so far.
    pub refused_blocks: u64,
    /// Bytes that the driver would not unlock, so far; 0 unless the device failed.
    pub stuck: u64,
}

/// Page-locks memory with the CUDA driver, so that copies to a device run beside its work.
///
/// The driver is found at run time: `libcuda.so.1`, or what the environment variable
/// `FEEDLINE_CUDA_DRIVER` names. Only so many bytes are locked at a time, because locked memory is lost
/// to everything else on the machine; a block beyond the limit, or one that the driver refuses, is
/// used as ordinary memory and counted in [`stats`](CudaHostMemory::stats).
///
/// In a forked child it does nothing, since CUDA does not survive a fork.
///
/// ```no_run
/// # fn builder() -> feedline_core::LoaderBuilder { unimplemented!() }
/// use feedline_core::CudaHostMemory;
///
/// let pinned = CudaHostMemory::open(None)?;
/// let loader = builder().page_lock(pinned.clone()).build()?;
/// loader.epoch().for_each(drop);
/// println!("{} bytes are page-locked", pinned.stats().registered);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CudaHostMemory {
    driver: CudaDriver,
    context: Context,
    limit: u64,
    process: Process,
    locked: Mutex<Locked>,
}

/// What is locked. Bytes are entered before the driver is asked, so that two threads cannot pass the
/// limit together, and the lock is not held while the driver works.
#[derive(Default)]
struct Locked {
    /// Address and length of each locked block.
    blocks: HashMap<usize, u64>,
    bytes: PinnedBytes,
    first_refusal: Option<String>,
}

impl CudaHostMemory {
    /// Finds the driver and readies the device this process already uses, else the first.
    ///
    /// At most `limit` bytes are locked at a time; by default a quarter of the machine's memory.
    pub fn open(limit: Option<u64>) -> Result<Arc<CudaHostMemory>, NoDriver> {
        let named = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty());
        let library = named.unwrap_or_else(|| OsString::from(LIBRARY));
        CudaHostMemory::open_at(library, None, limit)
    }

    /// The same with the driver in a given library, and on a given device.
    pub fn open_at(
        library: impl AsRef<OsStr>,
        device: Option<u32>,
        limit: Option<u64>,
    ) -> Result<Arc<CudaHostMemory>, NoDriver> {
        let library = library.as_ref();
        let driver = CudaDriver::load(library)?;
        let count = driver.devices();
        if count == 0 {
            return Err(NoDriver::NoDevice { library: library.to_string_lossy().into_owned() });
        }
        let device = device.unwrap_or_else(|| driver.device_in_use(count).unwrap_or(0));
        if device >= count {
            return Err(NoDriver::UnknownDevice { device, count });
        }
        let context = driver.retain(device).map_err(|code| {
            let why = driver.explain(code);
            NoDriver::Context { device, code, why }
        })?;
        let limit = limit.unwrap_or_else(quarter_of_memory);
        let locked = Mutex::new(Locked {
            bytes: PinnedBytes { limit, ..PinnedBytes::default() },
            ..Locked::default()
        });
        let process = Process::this();
        Ok(Arc::new(CudaHostMemory { driver, context, limit, process, locked }))
    }

    /// What is locked and what was refused. In a forked child nothing is.
    #[must_use]
    pub fn stats(&self) -> PinnedBytes {
        if self.is_forked() {
            return PinnedBytes { limit: self.limit, ..PinnedBytes::default() };
        }
        lock(&self.locked).bytes
    }

    /// Why the driver first refused a block, in its own words; `None` if it never did.
    #[must_use]
    pub fn first_refusal(&self) -> Option<String> {
        if self.is_forked() {
            return None;
        }
        lock(&self.locked).first_refusal.clone()
    }

    /// Asked before the lock is touched: another thread may have held it during the fork,
    /// and in the child nobody would ever release it.
    fn is_forked(&self) -> bool {
        self.process.is_left()
    }

    fn refused(&self, bytes: u64, code: CuResult) {
        let why = self.driver.explain(code);
        let mut locked = lock(&self.locked);
        locked.bytes.registered -= bytes;
        locked.bytes.refused_by_driver += bytes;
        locked.bytes.refused_blocks += 1;
        locked.first_refusal.get_or_insert_with(|| format!("{why} ({code})"));
    }

    fn unregister(&self, address: *mut u8, bytes: u64) {
        let outcome = self.driver.unregister(&self.context, address);
        let mut locked = lock(&self.locked);
        locked.bytes.registered -= bytes;
        if outcome.is_err() {
            locked.bytes.stuck += bytes;
        }
    }
}

// SAFETY: what is registered is only told to the driver, and unregistered before `unlock` returns.
unsafe impl PageLock for CudaHostMemory {
    fn lock(&self, memory: Memory) {
        if self.is_forked() {
            return;
        }
        let bytes = memory.capacity as u64;
        {
            let mut locked = lock(&self.locked);
            if bytes > self.limit.saturating_sub(locked.bytes.registered) {
                locked.bytes.refused_by_limit += bytes;
                locked.bytes.refused_blocks += 1;
                return;
            }
            locked.bytes.registered += bytes;
        }
        let address = memory.address.as_ptr();
        match self.driver.register(&self.context, address, memory.capacity) {
            Err(code) => self.refused(bytes, code),
            Ok(()) => {
                let mut locked = lock(&self.locked);
                locked.blocks.insert(address as usize, bytes);
                locked.bytes.registered_blocks += 1;
                locked.bytes.peak = locked.bytes.peak.max(locked.bytes.registered);
            }
        }
    }

    fn unlock(&self, memory: Memory) {
        if self.is_forked() {
            return;
        }
        let address = memory.address.as_ptr();
        let locked = lock(&self.locked).blocks.remove(&(address as usize));
        if let Some(bytes) = locked {
            self.unregister(address, bytes);
        }
    }
}

impl Drop for CudaHostMemory {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        // A pool unlocks all it has locked; this is for whoever did not.
        let left = std::mem::take(&mut lock(&self.locked).blocks);
        for (address, bytes) in left {
            self.unregister(address as *mut u8, bytes);
        }
        self.driver.release(&self.context);
    }
}

impl std::fmt::Debug for CudaHostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaHostMemory").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

#[cfg(target_os = "linux")]
fn quarter_of_memory() -> u64 {
    let system = rustix::system::sysinfo();
    let total = system.totalram as u64 * u64::from(system.mem_unit);
    if total == 0 { LIMIT_WITHOUT_KNOWLEDGE } else { total / 4 }
}

#[cfg(not(target_os = "linux"))]
fn quarter_of_memory() -> u64 {
    LIMIT_WITHOUT_KNOWLEDGE
}
