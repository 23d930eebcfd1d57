//! One array of a batch as a Python object: the buffer protocol and DLPack over a pool block.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::Arc;

use feedline::DType;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dlpack::{self, Kept};
use crate::one_argument::OneArgument;

/// An array that views a block of the loader's pool.
///
/// Anything that speaks DLPack or the buffer protocol takes it without a copy: `numpy.asarray(a)`,
/// `torch.from_dlpack(a)`, `jax.dlpack.from_dlpack(a)`. The memory returns to the pool when the last
/// view of it dies.
#[pyclass(frozen, module = "feedline")]
pub struct Array {
    array: Arc<feedline::Array>,
    shape: Vec<isize>,
    strides: Vec<isize>,
}

impl Array {
    pub(crate) fn new(array: feedline::Array) -> Array {
        let shape: Vec<isize> = array.shape().iter().map(|axis| *axis as isize).collect();
        let mut strides = vec![0; shape.len()];
        let mut stride = array.dtype().size() as isize;
        for (out, axis) in strides.iter_mut().zip(&shape).rev() {
            *out = stride;
            stride *= (*axis).max(1);
        }
        Array { array: Arc::new(array), shape, strides }
    }
}

/// A shape as Python has it: a tuple.
struct Shape(Vec<usize>);

impl<'py> IntoPyObject<'py> for Shape {
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
    fn shape(&self) -> Shape {
        Shape(self.array.shape().to_vec())
    }

    /// The dtype's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.array.dtype().name()
    }

    /// The field's name.
    #[getter]
    fn name(&self) -> &str {
        self.array.name()
    }

    /// The size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.array.byte_len()
    }

    fn __repr__(&self) -> String {
        let array = &self.array;
        format!("Array({}, shape={:?}, dtype={})", array.name(), array.shape(), array.dtype())
    }

    fn __len__(&self) -> usize {
        self.array.shape().first().copied().unwrap_or(0)
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
        dlpack::capsule(py, Kept::Shared(Arc::clone(&self.array)), versioned)
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
        // object, which the view keeps alive through `obj`; the block lives in the array.
        unsafe {
            (*view).buf = this.array.address().cast::<c_void>();
            (*view).len = this.array.byte_len() as isize;
            (*view).itemsize = this.array.dtype().size() as isize;
            (*view).readonly = 0;
            (*view).format = match asked(ffi::PyBUF_FORMAT) {
                true => format(this.array.dtype()).as_ptr().cast_mut(),
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

/// How batches are handed over.
pub(crate) enum Output {
    /// NumPy arrays, by the buffer protocol.
    Numpy {
        asarray: Py<PyAny>,
        /// The dtype to show bfloat16 as, where there is one.
        bfloat16: Option<Py<PyAny>>,
    },
    /// torch tensors, by DLPack: a capsule goes straight to torch, which costs the main thread less
    /// than the way over an object and a NumPy array.
    Torch { from_dlpack: OneArgument },
    /// [`Array`]s, for anything that speaks DLPack.
    Dlpack,
}

impl Output {
    pub(crate) fn named(py: Python<'_>, name: &str) -> PyResult<Output> {
        match name {
            "numpy" => {
                let asarray = py.import("numpy")?.getattr("asarray")?.unbind();
                let bfloat16 = py.import("ml_dtypes").and_then(|m| m.getattr("bfloat16"));
                Ok(Output::Numpy { asarray, bfloat16: bfloat16.ok().map(Bound::unbind) })
            }
            "torch" => {
                let torch = py.import("torch")?;
                // What `torch.from_dlpack` calls for a capsule, without the Python around it; that is
                // a tenth of what a batch costs the main thread. The public function where it is not.
                let bare = torch.getattr("_C").and_then(|c| c.getattr("_from_dlpack"));
                let from_dlpack = bare.or_else(|_| torch.getattr("from_dlpack"))?;
                Ok(Output::Torch { from_dlpack: OneArgument::new(from_dlpack) })
            }
            "dlpack" => Ok(Output::Dlpack),
            other => Err(PyValueError::new_err(format!(
                "output must be \"torch\", \"numpy\" or \"dlpack\", got {other:?}"
            ))),
        }
    }

    /// The array as the user wants it: a view, never a copy.
    pub(crate) fn view<'py>(
        &self,
        py: Python<'py>,
        array: feedline::Array,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dtype = array.dtype();
        match self {
            Output::Dlpack => Ok(Bound::new(py, Array::new(array))?.into_any()),
            Output::Torch { from_dlpack } => {
                from_dlpack.call(dlpack::capsule(py, Kept::Own(array), false)?)
            }
            Output::Numpy { asarray, bfloat16 } => {
                let view = asarray.bind(py).call1((Bound::new(py, Array::new(array))?,))?;
                match (bfloat16, dtype) {
                    (Some(bfloat16), DType::Bf16) => view.call_method1("view", (bfloat16,)),
                    _ => Ok(view),
                }
            }
        }
    }
}
