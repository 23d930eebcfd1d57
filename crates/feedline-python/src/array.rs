//! One array of a batch as a Python object: the buffer protocol and DLPack over a pool block.

use std::ffi::{CStr, c_int, c_long, c_void};

use feedline::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dlpack;
use crate::hold::{Hold, Spot};

/// An array that views a block of the loader's pool.
///
/// Anything that speaks DLPack or the buffer protocol takes it without a copy: `numpy.asarray(a)`,
/// `torch.from_dlpack(a)`, `jax.dlpack.from_dlpack(a)`. The memory returns to the pool when the last
/// view of it dies.
#[pyclass(frozen, module = "feedline")]
pub struct Array {
    spot: Spot,
    hold: Hold,
    shape: Vec<isize>,
    strides: Vec<isize>,
}

impl Array {
    pub(crate) fn new(spot: Spot, hold: Hold) -> Array {
        let shape: Vec<isize> = spot.shape.iter().map(|axis| *axis as isize).collect();
        let mut strides = vec![0; shape.len()];
        let mut stride = spot.dtype.size() as isize;
        for (out, axis) in strides.iter_mut().zip(&shape).rev() {
            *out = stride;
            stride *= (*axis).max(1);
        }
        Array { spot, hold, shape, strides }
    }

    fn byte_len(&self) -> usize {
        self.spot.shape.iter().product::<usize>() * self.spot.dtype.size()
    }
}

/// A shape as Python has it: a tuple.
struct ShapeTuple(Vec<usize>);

impl<'py> IntoPyObject<'py> for ShapeTuple {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    #[cfg(feature = "stubs")]
    const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_subscript!(
        pyo3::type_hint_identifier!("builtins", "tuple"),
        pyo3::type_hint_identifier!("builtins", "int"),
        pyo3::inspect::PyStaticExpr::Constant { value: pyo3::inspect::PyStaticConstant::Ellipsis }
    );

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0)
    }
}

/// The `struct` format of a dtype. bfloat16 has none; its bits are shown as unsigned 16-bit integers.
fn format(dtype: DType) -> &'static CStr {
    match dtype {
        DType::Bool => c"?",
        DType::U8 => c"B",
        DType::I8 => c"b",
        DType::U16 | DType::Bf16 => c"H",
        DType::I16 => c"h",
        DType::U32 => c"I",
        DType::I32 => c"i",
        // NumPy's own int64 is C's long where that has 64 bits; long long would be another type to it.
        DType::U64 if size_of::<c_long>() == 8 => c"L",
        DType::I64 if size_of::<c_long>() == 8 => c"l",
        DType::U64 => c"Q",
        DType::I64 => c"q",
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::C64 => c"Zf",
        DType::C128 => c"Zd",
        _ => c"B",
    }
}

#[pymethods]
impl Array {
    /// The shape.
    #[getter]
    fn shape(&self) -> ShapeTuple {
        ShapeTuple(self.spot.shape.to_vec())
    }

    /// The dtype's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.spot.dtype.name()
    }

    /// The field's name.
    #[getter]
    fn name(&self) -> String {
        self.hold.name()
    }

    /// The size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.byte_len()
    }

    fn __repr__(&self) -> String {
        let (name, Spot { shape, dtype, .. }) = (self.name(), &self.spot);
        format!("Array({name}, shape={:?}, dtype={dtype})", &shape[..])
    }

    fn __len__(&self) -> usize {
        self.spot.shape.first().copied().unwrap_or(0)
    }

    /// A DLPack capsule of the array.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some_and(|stream| !stream.is_none()) {
            return Err(PyBufferError::new_err("host memory has no stream; pass stream=None"));
        }
        if dl_device.is_some_and(|device| device != dlpack::HOST) {
            return Err(PyBufferError::new_err(
                "the array is in host memory; copy it to the device",
            ));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err(
                "feedline hands arrays over without a copy; copy the result",
            ));
        }
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        dlpack::capsule(py, &self.spot, self.hold.clone(), versioned)
    }

    /// Host memory.
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::HOST
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
        let asked = |flag: c_int| flags & flag == flag;
        let wide = this.shape.iter().filter(|axis| **axis != 1).count();
        if asked(ffi::PyBUF_F_CONTIGUOUS) && wide > 1 && !this.shape.contains(&0) {
            return Err(PyBufferError::new_err("the array is in C order; ask for that"));
        }
        // SAFETY: `view` is not null and, by the protocol, ours to fill. Shape and strides live in the
        // object, which the view keeps alive through `obj`, and with it the share in the block.
        unsafe {
            (*view).buf = this.spot.address.cast::<c_void>();
            (*view).len = this.byte_len() as isize;
            (*view).itemsize = this.spot.dtype.size() as isize;
            (*view).readonly = 0;
            (*view).format = match asked(ffi::PyBUF_FORMAT) {
                true => format(this.spot.dtype).as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).ndim = this.shape.len() as c_int;
            (*view).shape = match asked(ffi::PyBUF_ND) {
                true => this.shape.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).strides = match asked(ffi::PyBUF_STRIDES) {
                true => this.strides.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}
