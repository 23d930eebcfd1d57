//! For the feature `image`: compiles the C door to libjpeg, and refuses to build a decoder without vector instructions.

#[cfg(feature = "image")]
fn main() {
    jpeg::build();
}

/// What is left makes tensors without a decoder: nothing to compile but Rust.
#[cfg(not(feature = "image"))]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}

#[cfg(feature = "image")]
mod jpeg {
    use std::path::Path;
    use std::process::Command;

    const SHIM: &str = "src/image/jpeg/shim.c";

    pub(super) fn build() {
        println!("cargo:rerun-if-changed={SHIM}");
        println!("cargo:rerun-if-changed=build.rs");

        let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        let needs_nasm = matches!(architecture.as_str(), "x86_64" | "x86");
        if needs_nasm && !Command::new("nasm").arg("-v").output().is_ok_and(|o| o.status.success())
        {
            stop("nasm is missing, and without it the JPEG decoder would be several times slower");
        }

        let include = std::env::var_os("DEP_JPEG_INCLUDE").unwrap_or_default();
        let folders: Vec<_> = std::env::split_paths(&include).collect();
        // mozjpeg-sys builds without SIMD when nasm was missing at that time, and is not rebuilt when it comes.
        let with_simd = |folder: &Path| {
            std::fs::read_to_string(folder.join("jconfig.h"))
                .is_ok_and(|config| config.contains("#define WITH_SIMD 1"))
        };
        if !folders.iter().any(|folder| with_simd(folder)) {
            stop(
                "the JPEG decoder was built without vector instructions; after installing nasm run \
             `cargo clean -p mozjpeg-sys`",
            );
        }
        cc::Build::new()
            .file(SHIM)
            .includes(folders)
            .pic(true)
            .warnings(true)
            .compile("feedline_jpeg");
    }

    /// Ends the build with the reason and the one command that helps.
    fn stop(reason: &str) -> ! {
        #[allow(clippy::print_stderr)] // where cargo shows what a build script says
        {
            eprintln!("\nfeedline-ops: {reason}.\n\n    apt-get install --yes nasm\n");
        }
        std::process::exit(1)
    }
}
