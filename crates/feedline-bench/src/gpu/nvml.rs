//! The few functions of NVIDIA's management library that a report needs, found at run time.
//!
//! The types are those of `nvml.h`, and so are the names: where the header redirects a function to a later
//! version (`#define nvmlInit nvmlInit_v2`), the later name is looked up.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

use super::NoGpu;

/// `nvmlReturn_t`; 0 is success.
type NvmlReturn = c_int;
/// `nvmlDevice_t`.
type DevicePtr = *mut c_void;

const SUCCESS: NvmlReturn = 0;
/// `NVML_DEVICE_NAME_V2_BUFFER_SIZE`.
const NAME_ROOM: usize = 96;

/// `nvmlUtilization_t`: percent of the time since the driver's last sample.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlMemory_t`, in bytes.
#[repr(C)]
#[derive(Default)]
struct MemoryInfo {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// The library. It is never unloaded, so its functions and handles stay valid for the life of the process.
#[derive(Debug)]
pub(super) struct Nvml {
    device_count: unsafe extern "C" fn(*mut c_uint) -> NvmlReturn,
    device_by_index: unsafe extern "C" fn(c_uint, *mut DevicePtr) -> NvmlReturn,
    device_name: unsafe extern "C" fn(DevicePtr, *mut c_char, c_uint) -> NvmlReturn,
    utilization: unsafe extern "C" fn(DevicePtr, *mut Utilization) -> NvmlReturn,
    memory_info: unsafe extern "C" fn(DevicePtr, *mut MemoryInfo) -> NvmlReturn,
}

/// A handle to a device, valid while the library is initialised: for ever, here.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuHandle(DevicePtr);

// SAFETY: the library's documentation says that it is thread-safe; a handle is never written to.
unsafe impl Send for GpuHandle {}
// SAFETY: as above.
unsafe impl Sync for GpuHandle {}

impl Nvml {
    /// Loads the library and initialises it.
    pub(super) fn load(library: &OsStr) -> Result<Self, NoGpu> {
        let name = library.to_string_lossy().into_owned();
        // SAFETY: loading runs the library's initialisers. The default name is NVIDIA's own library; another
        // one is the choice of whoever set it, as with LD_LIBRARY_PATH.
        let loaded = unsafe { Library::new(library) }
            .map_err(|error| NoGpu::NotFound { library: name.clone(), why: error.to_string() })?;
        let missing = |symbol| NoGpu::Symbol { library: name.clone(), symbol };
        macro_rules! function {
            ($symbol:literal) => {
                // SAFETY: what receives it has the type that nvml.h declares for this name, and the library is
                // never unloaded.
                *unsafe { loaded.get($symbol) }.map_err(|_| missing($symbol))?
            };
        }
        let init: unsafe extern "C" fn() -> NvmlReturn = function!("nvmlInit_v2");
        let explain: unsafe extern "C" fn(NvmlReturn) -> *const c_char =
            function!("nvmlErrorString");
        let nvml = Self {
            device_count: function!("nvmlDeviceGetCount_v2"),
            device_by_index: function!("nvmlDeviceGetHandleByIndex_v2"),
            device_name: function!("nvmlDeviceGetName"),
            utilization: function!("nvmlDeviceGetUtilizationRates"),
            memory_info: function!("nvmlDeviceGetMemoryInfo"),
        };
        std::mem::forget(loaded);
        // SAFETY: it may be called any number of times, from any thread.
        let code = unsafe { init() };
        if code != SUCCESS {
            // SAFETY: any code may be asked about; the text is the library's own and lasts.
            let text = unsafe { explain(code) };
            let why = match text.is_null() {
                true => format!("error {code}"),
                // SAFETY: not null, and so a text that ends with a zero byte.
                false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            };
            return Err(NoGpu::Init { library: name, why });
        }
        Ok(nvml)
    }

    /// All devices that answer.
    pub(super) fn devices(&self) -> Vec<GpuHandle> {
        let mut count = 0;
        // SAFETY: the library is initialised and writes one number.
        if unsafe { (self.device_count)(&mut count) } != SUCCESS {
            return Vec::new();
        }
        let device = |index| {
            let mut device = std::ptr::null_mut();
            // SAFETY: the library checks the index and writes one handle.
            let code = unsafe { (self.device_by_index)(index, &mut device) };
            (code == SUCCESS).then_some(GpuHandle(device))
        };
        (0..count).filter_map(device).collect()
    }

    pub(super) fn name(&self, device: GpuHandle) -> Option<String> {
        let mut text = [0 as c_char; NAME_ROOM];
        // SAFETY: the handle came from the library, which writes at most so many bytes. The last byte of the
        // buffer stays zero, so the text ends within it.
        let code =
            unsafe { (self.device_name)(device.0, text.as_mut_ptr(), NAME_ROOM as c_uint - 1) };
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        (code == SUCCESS).then(|| text.to_string_lossy().into_owned())
    }

    /// The share of time that the device was busy, from 0 to 1, as the driver counted it last.
    pub(super) fn busy(&self, device: GpuHandle) -> Option<f64> {
        let mut rates = Utilization::default();
        // SAFETY: the handle came from the library, which writes one struct of that shape.
        let code = unsafe { (self.utilization)(device.0, &mut rates) };
        (code == SUCCESS).then(|| f64::from(rates.gpu.min(100)) / 100.0)
    }

    /// Bytes in use, and bytes there are.
    pub(super) fn memory(&self, device: GpuHandle) -> Option<(u64, u64)> {
        let mut memory = MemoryInfo::default();
        // SAFETY: the handle came from the library, which writes one struct of that shape.
        let code = unsafe { (self.memory_info)(device.0, &mut memory) };
        (code == SUCCESS).then_some((memory.used, memory.total))
    }
}
