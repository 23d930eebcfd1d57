//! The few functions of NVIDIA's driver that page-locking needs, found at run time.
//!
//! The types are those of `cuda.h`, and so are the names: where the header redirects a function to
//! a later version (`#define cuMemHostRegister cuMemHostRegister_v2`), the later name is looked up.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use libloading::Library;

use super::cuda::NoDriver;

/// `CUresult`; 0 is success.
pub(crate) type CuResult = i32;
/// `CUdevice`.
type CuDevice = c_int;
/// `CUcontext`.
type ContextPtr = *mut c_void;

const SUCCESS: CuResult = 0;
/// `CUDA_ERROR_NO_DEVICE`: what `cuInit` says on a machine with a driver and nothing to drive.
const NO_DEVICE: CuResult = 100;
/// `CU_MEMHOSTREGISTER_PORTABLE`: page-locked for every context, not only for the calling one.
const PORTABLE: c_uint = 1;

/// The driver library. It is never unloaded: the driver has threads and exit handlers of its own,
/// so the functions stay valid for the life of the process.
#[derive(Copy, Clone)]
pub(crate) struct CudaDriver {
    init: unsafe extern "system" fn(c_uint) -> CuResult,
    get_error_string: unsafe extern "system" fn(CuResult, *mut *const c_char) -> CuResult,
    device_get_count: unsafe extern "system" fn(*mut c_int) -> CuResult,
    device_get: unsafe extern "system" fn(*mut CuDevice, c_int) -> CuResult,
    primary_ctx_get_state: unsafe extern "system" fn(CuDevice, *mut c_uint, *mut c_int) -> CuResult,
    primary_ctx_retain: unsafe extern "system" fn(*mut ContextPtr, CuDevice) -> CuResult,
    primary_ctx_release: unsafe extern "system" fn(CuDevice) -> CuResult,
    ctx_get_current: unsafe extern "system" fn(*mut ContextPtr) -> CuResult,
    ctx_get_device: unsafe extern "system" fn(*mut CuDevice) -> CuResult,
    ctx_push_current: unsafe extern "system" fn(ContextPtr) -> CuResult,
    ctx_pop_current: unsafe extern "system" fn(*mut ContextPtr) -> CuResult,
    mem_host_register: unsafe extern "system" fn(*mut c_void, usize, c_uint) -> CuResult,
    mem_host_unregister: unsafe extern "system" fn(*mut c_void) -> CuResult,
}

/// A retained primary context.
pub(crate) struct Context {
    device: CuDevice,
    context: ContextPtr,
}

// SAFETY: a context is a handle; the driver lets any thread make it current and release it.
unsafe impl Send for Context {}
// SAFETY: as above; the handle is never written to.
unsafe impl Sync for Context {}

impl CudaDriver {
    /// Loads the library and initialises the driver.
    pub(crate) fn load(library: &OsStr) -> Result<CudaDriver, NoDriver> {
        let name = library.to_string_lossy().into_owned();
        // SAFETY: loading runs the library's initialisers. The default name is NVIDIA's own
        // library; another one is the choice of whoever set it, as with LD_LIBRARY_PATH.
        let loaded = unsafe { Library::new(library) }
            .map_err(|e| NoDriver::NotFound { library: name.clone(), why: e.to_string() })?;
        let missing = |symbol| NoDriver::Symbol { library: name.clone(), symbol };
        macro_rules! function {
            ($symbol:literal) => {
                // SAFETY: the field that receives it has the type that cuda.h declares for this name,
                // and the library is never unloaded.
                *unsafe { loaded.get($symbol) }.map_err(|_| missing($symbol))?
            };
        }
        let driver = CudaDriver {
            init: function!("cuInit"),
            get_error_string: function!("cuGetErrorString"),
            device_get_count: function!("cuDeviceGetCount"),
            device_get: function!("cuDeviceGet"),
            primary_ctx_get_state: function!("cuDevicePrimaryCtxGetState"),
            primary_ctx_retain: function!("cuDevicePrimaryCtxRetain"),
            primary_ctx_release: function!("cuDevicePrimaryCtxRelease_v2"),
            ctx_get_current: function!("cuCtxGetCurrent"),
            ctx_get_device: function!("cuCtxGetDevice"),
            ctx_push_current: function!("cuCtxPushCurrent_v2"),
            ctx_pop_current: function!("cuCtxPopCurrent_v2"),
            mem_host_register: function!("cuMemHostRegister_v2"),
            mem_host_unregister: function!("cuMemHostUnregister"),
        };
        std::mem::forget(loaded);
        // SAFETY: cuInit may be called any number of times, from any thread; its flags must be 0.
        match unsafe { (driver.init)(0) } {
            SUCCESS => Ok(driver),
            NO_DEVICE => Err(NoDriver::NoDevice { library: name }),
            code => Err(NoDriver::Init { library: name, code, why: driver.explain(code) }),
        }
    }

    /// How many devices there are.
    pub(crate) fn devices(&self) -> u32 {
        let mut count = 0;
        // SAFETY: the driver is initialised and writes one int.
        let code = unsafe { (self.device_get_count)(&mut count) };
        if code == SUCCESS { u32::try_from(count).unwrap_or(0) } else { 0 }
    }

    /// The device that this process already uses, if any: that of the calling thread's context, or
    /// the first with an active primary context. A context on yet another device would take some
    /// hundred megabytes of its memory for nothing.
    pub(crate) fn device_in_use(&self, count: u32) -> Option<u32> {
        let mut context: ContextPtr = ptr::null_mut();
        let mut device: CuDevice = 0;
        // SAFETY: the driver is initialised and writes one handle, null without a current context.
        let code = unsafe { (self.ctx_get_current)(&mut context) };
        if code == SUCCESS && !context.is_null() {
            // SAFETY: a context is current; the driver writes one int.
            let code = unsafe { (self.ctx_get_device)(&mut device) };
            if code == SUCCESS {
                // A device's handle is its ordinal.
                return u32::try_from(device).ok().filter(|ordinal| *ordinal < count);
            }
        }
        (0..count).find(|ordinal| {
            let (mut flags, mut active) = (0, 0);
            let Ok(device) = self.device(*ordinal) else { return false };
            // SAFETY: the device came from the driver, which writes two ints.
            let code = unsafe { (self.primary_ctx_get_state)(device, &mut flags, &mut active) };
            code == SUCCESS && active != 0
        })
    }

    fn device(&self, ordinal: u32) -> Result<CuDevice, CuResult> {
        let mut device = 0;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the driver is initialised, checks the ordinal and writes one int.
        succeeded(unsafe { (self.device_get)(&mut device, ordinal) })?;
        Ok(device)
    }

    /// Retains the primary context of a device: the one that torch and the CUDA runtime use.
    pub(crate) fn retain(&self, ordinal: u32) -> Result<Context, CuResult> {
        let device = self.device(ordinal)?;
        let mut context = ptr::null_mut();
        // SAFETY: the device came from the driver, which writes one handle.
        succeeded(unsafe { (self.primary_ctx_retain)(&mut context, device) })?;
        Ok(Context { device, context })
    }

    /// Gives up a retained context.
    pub(crate) fn release(&self, context: &Context) {
        // SAFETY: `retain` retained it, and its one owner releases it once. A failure (the driver
        // may be shutting down with the process) leaves nothing to do.
        let _ = unsafe { (self.primary_ctx_release)(context.device) };
    }

    /// Page-locks a range.
    pub(crate) fn register(
        &self,
        context: &Context,
        at: *mut u8,
        bytes: usize,
    ) -> Result<(), CuResult> {
        // SAFETY: the driver checks that the range is mapped and changes no byte of it; that it stays
        // mapped until `unregister` is the promise of `PageLock`'s caller.
        self.within(context, || unsafe { (self.mem_host_register)(at.cast(), bytes, PORTABLE) })
    }

    /// Undoes `register`.
    pub(crate) fn unregister(&self, context: &Context, at: *mut u8) -> Result<(), CuResult> {
        // SAFETY: the driver looks the address up in its own list and refuses what is not in it.
        self.within(context, || unsafe { (self.mem_host_unregister)(at.cast()) })
    }

    /// Calls with the context current, and leaves the thread as it was: a worker has no context,
    /// the training thread may have another one.
    fn within(&self, context: &Context, call: impl FnOnce() -> CuResult) -> Result<(), CuResult> {
        // SAFETY: the context is retained as long as the value lives.
        succeeded(unsafe { (self.ctx_push_current)(context.context) })?;
        let code = call();
        let mut popped = ptr::null_mut();
        // SAFETY: undoes the push above on the same thread; the driver writes one handle.
        let _ = unsafe { (self.ctx_pop_current)(&mut popped) };
        succeeded(code)
    }

    /// The driver's own words for a code.
    pub(crate) fn explain(&self, code: CuResult) -> String {
        let mut text: *const c_char = ptr::null();
        // SAFETY: the driver writes one pointer, to a constant of its own or null.
        let known = unsafe { (self.get_error_string)(code, &mut text) };
        if known != SUCCESS || text.is_null() {
            return "an error the driver has no words for".to_owned();
        }
        // SAFETY: not null, so it is a terminated string in the library, which stays loaded.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

fn succeeded(code: CuResult) -> Result<(), CuResult> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}
