//! GPUs, by a double of NVIDIA's management library that is compiled here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use feedline_bench::{GpuReading, Gpus, NoGpu};
use tempfile::TempDir;

/// Compiles the double, with some of its answers changed.
fn double(folder: &TempDir, flags: &[&str]) -> PathBuf {
    let path = folder.path().join("libnvml_double.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml_double/nvml_double.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let run = Command::new(&compiler)
        .args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&path)
        .args(flags)
        .arg(&source)
        .output()
        .unwrap_or_else(|e| panic!("cannot run the C compiler {compiler:?}: {e}; install gcc"));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    path
}

fn refusal(flags: &[&str]) -> NoGpu {
    let folder = TempDir::new().unwrap();
    Gpus::open_at(double(&folder, flags).as_os_str()).expect_err("it must be refused")
}

#[test]
fn all_devices_are_named_and_read() {
    let folder = TempDir::new().unwrap();
    let gpus = Gpus::open_at(double(&folder, &[]).as_os_str()).unwrap();
    assert_eq!(gpus.names(), ["Double A100, 8.00 GiB", "Double B200, 8.00 GiB"]);
    assert_eq!(gpus.read(), Some(GpuReading { busy: 0.4, memory_bytes: 3 << 30 }));
}

#[test]
fn a_device_that_tells_no_utilisation_is_left_out() {
    let folder = TempDir::new().unwrap();
    let gpus = Gpus::open_at(double(&folder, &["-DSILENT=1"]).as_os_str()).unwrap();
    assert_eq!(gpus.read(), Some(GpuReading { busy: 0.6, memory_bytes: 3 << 30 }));
}

#[test]
fn what_cannot_be_used_is_said() {
    let missing = Gpus::open_at(OsStr::new("libno-such-nvml.so")).unwrap_err().to_string();
    assert!(missing.contains("cannot load `libno-such-nvml.so`"), "{missing}");
    assert!(missing.contains("FEEDLINE_NVML"), "{missing}");
    let broken = refusal(&["-DINIT=9"]).to_string();
    assert!(broken.contains("does not start: Driver Not Loaded"), "{broken}");
    assert!(refusal(&["-DDEVICES=0"]).to_string().contains("sees no device"));
    let foreign = refusal(&["-DnvmlDeviceGetMemoryInfo=renamed_away"]).to_string();
    assert!(foreign.contains("has no `nvmlDeviceGetMemoryInfo`"), "{foreign}");
}
