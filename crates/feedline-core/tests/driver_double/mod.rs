//! Compiles `cuda_double.c` and talks to it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use feedline_core::CudaHostMemory;
use libloading::Library;
use tempfile::TempDir;

/// Mirrors `struct settings`.
#[repr(C)]
pub(crate) struct Settings {
    pub init_result: i32,
    pub devices: i32,
    pub retain_result: i32,
    pub unregister_result: i32,
    pub active_device: i32,
    pub fail_every: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            init_result: 0,
            devices: 1,
            retain_result: 0,
            unregister_result: 0,
            active_device: -1,
            fail_every: 0,
        }
    }
}

/// Mirrors `struct counts`.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Counts {
    pub calls: u64,
    pub registered: u64,
    pub unregistered: u64,
    pub injected_failures: u64,
    pub overlaps: u64,
    pub unknown: u64,
    pub without_context: u64,
    pub wrong_flags: u64,
    pub live_blocks: u64,
    pub live_bytes: u64,
    pub peak_bytes: u64,
    pub pushed: u64,
    pub popped: u64,
    pub retained: [u64; 8],
    pub released: [u64; 8],
}

/// One copy of the library with state of its own. Each test builds one: the compiler takes some
/// hundredths of a second.
pub(crate) struct Double {
    library: Library,
    path: PathBuf,
    _folder: TempDir,
}

impl Double {
    pub(crate) fn new(settings: Settings) -> Double {
        let double = Double::compile(&[]);
        double.set(settings);
        double
    }

    /// The same without one of its functions, as in an old or foreign library.
    pub(crate) fn without(function: &str) -> Double {
        Double::compile(&[&format!("-D{function}=renamed_away")])
    }

    fn compile(flags: &[&str]) -> Double {
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().join("libcuda_double.so");
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver_double/cuda_double.c");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let run = Command::new(&compiler)
            .args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread", "-o"])
            .arg(&path)
            .args(flags)
            .arg(&source)
            .output()
            .unwrap_or_else(|e| panic!("cannot run the C compiler {compiler:?}: {e}; install gcc"));
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        // SAFETY: the library was compiled from our own source and has no initialisers.
        let library = unsafe { Library::new(&path) }.expect("a library that was just built");
        Double { library, path, _folder: folder }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn open(&self, limit: u64) -> Arc<CudaHostMemory> {
        CudaHostMemory::open_at(self.path(), None, Some(limit)).expect("the double is a driver")
    }

    pub(crate) fn set(&self, settings: Settings) {
        // SAFETY: the signature of `double_set` in the source; `Settings` mirrors its struct.
        unsafe {
            let set = self.library.get::<unsafe extern "C" fn(*const Settings)>("double_set");
            set.expect("the double exports it")(&settings);
        }
    }

    /// Makes a device's primary context the calling thread's, as a training framework does.
    pub(crate) fn make_current(&self, device: i32) {
        type Handle = *mut std::ffi::c_void;
        type Retain = unsafe extern "C" fn(*mut Handle, i32) -> i32;
        type Push = unsafe extern "C" fn(Handle) -> i32;
        let mut context = std::ptr::null_mut();
        // SAFETY: the signatures in the source; the driver writes the handle that is pushed.
        unsafe {
            let retain = self.library.get::<Retain>("cuDevicePrimaryCtxRetain").expect("exported");
            let push = self.library.get::<Push>("cuCtxPushCurrent_v2").expect("exported");
            assert_eq!(retain(&mut context, device), 0);
            assert_eq!(push(context), 0);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        // SAFETY: the signature of `double_read` in the source; `Counts` mirrors its struct.
        unsafe {
            let read = self.library.get::<unsafe extern "C" fn(*mut Counts)>("double_read");
            read.expect("the double exports it")(&mut counts);
        }
        counts
    }

    /// Checks what must hold at the end: everything in pairs, nothing the driver objected to.
    pub(crate) fn check_all_given_back(&self) -> Counts {
        let counts = self.counts();
        assert_eq!(counts.registered, counts.unregistered, "{counts:?}");
        assert_eq!((counts.live_blocks, counts.live_bytes), (0, 0), "{counts:?}");
        assert_eq!((counts.overlaps, counts.unknown), (0, 0), "{counts:?}");
        assert_eq!((counts.without_context, counts.wrong_flags), (0, 0), "{counts:?}");
        assert_eq!(counts.pushed, counts.popped, "{counts:?}");
        assert_eq!(counts.retained, counts.released, "{counts:?}");
        counts
    }
}
