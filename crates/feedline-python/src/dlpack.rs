//! DLPack: the exchange format that array libraries agree on (dmlc/dlpack, versions 0.8 and 1.0).
//!
//! A capsule owns one reference to the array, and with it to the pool block. Whoever consumes the
//! capsule renames it and calls the deleter when its last view dies; a capsule that nobody consumed
//! calls it itself. Either way it runs once.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use feedline::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// `(kDLCPU, 0)`.
pub(crate) const HOST: (i32, i32) = (1, 0);

const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// A managed tensor of either version and what it keeps alive, in one piece of memory: this runs for
/// each array of each batch, on the training loop's thread. The tensor comes first, so that a pointer
/// to it is a pointer to all.
#[repr(C)]
struct Owned<M> {
    managed: M,
    _array: Arc<feedline::Array>,
    /// The shape, then the strides.
    numbers: Vec<i64>,
}

impl<M> Owned<M> {
    /// Makes one that belongs to whoever gets the pointer.
    fn leak(
        array: &Arc<feedline::Array>,
        managed: impl FnOnce(Tensor) -> M,
        dtype: DataType,
    ) -> *mut c_void {
        let shape = array.shape();
        let ndim = shape.len();
        let mut numbers = vec![1i64; 2 * ndim];
        for (number, axis) in numbers.iter_mut().zip(shape) {
            *number = *axis as i64;
        }
        for axis in (1..ndim).rev() {
            numbers[ndim + axis - 1] = numbers[ndim + axis] * numbers[axis].max(1);
        }
        let first = numbers.as_mut_ptr();
        let tensor = Tensor {
            data: array.address().cast(),
            device: Device { kind: HOST.0, id: HOST.1 },
            ndim: ndim as i32,
            dtype,
            // Into the heap, where the numbers of a vector that nobody resizes stay.
            shape: first,
            strides: first.wrapping_add(ndim),
            byte_offset: 0,
        };
        let owned = Owned { managed: managed(tensor), _array: Arc::clone(array), numbers };
        Box::into_raw(Box::new(owned)).cast()
    }
}

fn data_type(dtype: DType) -> Option<DataType> {
    // Codes: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool.
    let code = match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::Bf16 => 4,
        DType::C64 | DType::C128 => 5,
        DType::Bool => 6,
        _ => return None,
    };
    Some(DataType { code, bits: 8 * dtype.size() as u8, lanes: 1 })
}

/// A capsule of the array.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    array: &Arc<feedline::Array>,
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = data_type(array.dtype()).ok_or_else(|| {
        PyBufferError::new_err(format!("DLPack has no dtype for {}", array.dtype()))
    })?;
    let (pointer, name, destructor): (_, _, unsafe extern "C" fn(*mut ffi::PyObject)) = if versioned
    {
        let managed = |tensor| ManagedVersioned {
            major: 1,
            minor: 0,
            context: std::ptr::null_mut(),
            deleter: Some(delete_versioned),
            flags: 0,
            tensor,
        };
        (Owned::leak(array, managed, dtype), NAME_VERSIONED, destroy_versioned)
    } else {
        let managed =
            |tensor| Managed { tensor, context: std::ptr::null_mut(), deleter: Some(delete) };
        (Owned::leak(array, managed, dtype), NAME, destroy)
    };
    // SAFETY: the GIL is held; the pointer is not null; name and destructor are static.
    unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor)),
        )
    }
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: it is the first field of an `Owned` that came from `Box::into_raw` in `Owned::leak`, and
    // the protocol calls the deleter once.
    unsafe { drop(Box::from_raw(managed.cast::<Owned<Managed>>())) }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete`.
    unsafe { drop(Box::from_raw(managed.cast::<Owned<ManagedVersioned>>())) }
}

unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule and the GIL. A consumed capsule has another name, and
    // its pointer is the consumer's; one that still has our name owns a `Managed` made above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `destroy`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr()).cast());
        }
    }
}
