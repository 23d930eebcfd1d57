//! The functions of `shim.c`, which tells what they promise.

use std::ffi::{c_char, c_int, c_long, c_void};

// Brings the library itself into the link.
use mozjpeg_sys as _;

/// A decoder of the library, only ever behind a pointer.
#[repr(C)]
pub(super) struct Jpeg {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Facts {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) components: u32,
    pub(super) precision: u32,
    pub(super) four_channels: u32,
    pub(super) gray: u32,
    pub(super) multiple_scans: u32,
    pub(super) position: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct DecodePlan {
    pub(super) output: u32,
    pub(super) eighths: u32,
    pub(super) x: u32,
    pub(super) width: u32,
    pub(super) full_width: u32,
    pub(super) full_height: u32,
    pub(super) row_alignment: u32,
}

#[repr(C)]
pub(super) struct EntropyHooks {
    pub(super) state: *mut c_void,
    pub(super) begin: unsafe extern "C" fn(*mut c_void, *const super::entropy::Scan) -> c_int,
    pub(super) mcu: unsafe extern "C" fn(*mut c_void, *const *mut [i16; 64]) -> c_int,
}

// SAFETY: the signatures are those of the C file that the build script compiles beside this one.
unsafe extern "C" {
    pub(super) fn feedline_jpeg_new() -> *mut Jpeg;
    pub(super) fn feedline_jpeg_free(jpeg: *mut Jpeg);
    pub(super) fn feedline_jpeg_message(jpeg: *const Jpeg) -> *const c_char;
    pub(super) fn feedline_jpeg_entropy(jpeg: *mut Jpeg, entropy: *const EntropyHooks);
    pub(super) fn feedline_jpeg_open(
        jpeg: *mut Jpeg,
        bytes: *const u8,
        length: usize,
        memory: c_long,
        facts: *mut Facts,
    ) -> c_int;
    pub(super) fn feedline_jpeg_start(jpeg: *mut Jpeg, plan: *mut DecodePlan) -> c_int;
    pub(super) fn feedline_jpeg_skip(jpeg: *mut Jpeg, rows: u32) -> c_int;
    pub(super) fn feedline_jpeg_read(
        jpeg: *mut Jpeg,
        into: *mut u8,
        stride: usize,
        rows: u32,
    ) -> c_int;
    pub(super) fn feedline_jpeg_simd() -> c_int;
}
