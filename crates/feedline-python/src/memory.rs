//! Memory as a Python object: the buffer protocol over shared memory, and over what others own.

use std::ffi::{c_int, c_void};

use feedline_ipc::{Extent, Loan, Opened};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// Bytes that can be read and written through the buffer protocol.
///
/// They belong to an extent of shared memory, which goes back when the last view of it dies, or to
/// another object, which lives as long.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct SharedBytes {
    address: usize,
    len: isize,
    owner: Owner,
}

enum Owner {
    #[expect(dead_code, reason = "owned, not read")]
    Loan(Loan),
    Extent(Extent),
    #[expect(dead_code, reason = "owned, not read")]
    Opened(Opened),
    #[expect(dead_code, reason = "owned, not read")]
    Object(Py<PyAny>),
}

impl SharedBytes {
    pub(crate) fn lent(loan: Loan) -> SharedBytes {
        let address = loan.pointer().as_ptr() as usize;
        SharedBytes { address, len: loan.len() as isize, owner: Owner::Loan(loan) }
    }

    pub(crate) fn opened(opened: Opened) -> SharedBytes {
        let address = opened.pointer().as_ptr() as usize;
        SharedBytes { address, len: opened.len() as isize, owner: Owner::Opened(opened) }
    }

    /// The extent that they are, if this process made them as one.
    pub(crate) fn extent(&self) -> Option<&Extent> {
        match &self.owner {
            Owner::Extent(extent) => Some(extent),
            _ => None,
        }
    }

    pub(crate) fn own(extent: Extent) -> SharedBytes {
        let address = extent.pointer().as_ptr() as usize;
        SharedBytes { address, len: extent.len() as isize, owner: Owner::Extent(extent) }
    }
}

#[pymethods]
impl SharedBytes {
    fn __len__(&self) -> usize {
        self.len as usize
    }

    fn __repr__(&self) -> String {
        format!("SharedBytes({} bytes)", self.len)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no buffer to fill"));
        }
        let this = slf.get();
        // SAFETY: `view` is not null and, by the protocol, ours to fill; the memory is there as long
        // as the object, which the view keeps alive. Anybody may write to it.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                this.address as *mut c_void,
                this.len,
                0,
                flags,
            )
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}

fn checked(address: usize, len: usize) -> PyResult<isize> {
    let fits = isize::try_from(len).ok().filter(|_| address != 0 || len == 0);
    fits.ok_or_else(|| PyValueError::new_err(format!("no {len} bytes are at address {address}")))
}

/// The `len` bytes at an address, which belong to `owner`. Whoever calls knows that they are there.
#[pyfunction]
pub(crate) fn memory_at(address: usize, len: usize, owner: Py<PyAny>) -> PyResult<SharedBytes> {
    Ok(SharedBytes { address, len: checked(address, len)?, owner: Owner::Object(owner) })
}

/// A copy of the `len` bytes at an address. Whoever calls knows that they are there.
#[pyfunction]
pub(crate) fn bytes_at(
    py: Python<'_>,
    address: usize,
    len: usize,
) -> PyResult<Bound<'_, PyByteArray>> {
    checked(address, len)?;
    PyByteArray::new_with(py, len, |to| {
        if len > 0 {
            // SAFETY: as the caller knows; the new object is elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(address as *const u8, to.as_mut_ptr(), len) };
        }
        Ok(())
    })
}
