//! Hands the compiler's version to the crate: it belongs into every record, and only the build knows it.

use std::env;
use std::process::Command;

fn main() {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok());
    if let Some(version) = version {
        println!("cargo::rustc-env=FEEDLINE_RUSTC_VERSION={}", version.trim());
    }
    println!("cargo::rerun-if-changed=build.rs");
}
