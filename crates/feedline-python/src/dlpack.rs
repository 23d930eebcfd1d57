//! DLPack: the exchange format that array libraries agree on (dmlc/dlpack, versions 0.8 and 1.0).
//!
//! A capsule owns a share in the array, and with it in the pool block. Whoever consumes the
//! capsule renames it and calls the deleter when its last view dies; a capsule that nobody consumed
//! calls it itself. Either way it runs once.

use std::ffi::{CStr, c_void};

use feedline::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::hold::{Hold, Spot};

/// `(kDLCPU, 0)`.
pub(crate) const HOST: (i32, i32) = (1, 0);

#[repr(C)]
struct DlDevice {
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
    device: DlDevice,
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

/// Either version of a managed tensor.
trait ManagedTensor: Sized {
    const NAME: &CStr;
    /// Frees the tensor unless its capsule was consumed.
    const DESTROY: unsafe extern "C" fn(*mut ffi::PyObject);

    fn around(tensor: Tensor) -> Self;
    fn tensor(&mut self) -> &mut Tensor;
}

impl ManagedTensor for Managed {
    const NAME: &CStr = c"dltensor";
    const DESTROY: unsafe extern "C" fn(*mut ffi::PyObject) = destroy::<Managed>;

    fn around(tensor: Tensor) -> Managed {
        Managed { tensor, context: std::ptr::null_mut(), deleter: Some(delete) }
    }

    fn tensor(&mut self) -> &mut Tensor {
        &mut self.tensor
    }
}

impl ManagedTensor for ManagedVersioned {
    const NAME: &CStr = c"dltensor_versioned";
    const DESTROY: unsafe extern "C" fn(*mut ffi::PyObject) = destroy::<ManagedVersioned>;

    fn around(tensor: Tensor) -> ManagedVersioned {
        ManagedVersioned {
            major: 1,
            minor: 0,
            context: std::ptr::null_mut(),
            deleter: Some(delete),
            flags: 0,
            tensor,
        }
    }

    fn tensor(&mut self) -> &mut Tensor {
        &mut self.tensor
    }
}

/// A managed tensor of either version and what it keeps alive. The tensor comes first, so that a pointer
/// to it is a pointer to all; its numbers are in the same piece of memory, because it is freed on the
/// training loop's thread, whose caches are cold after a step.
#[repr(C)]
struct Owned<M> {
    managed: M,
    hold: Hold,
    /// The shape, then the strides.
    numbers: SmallVec<[i64; 12]>,
}

impl<M: ManagedTensor> Owned<M> {
    /// Makes one that belongs to whoever gets the pointer.
    fn leak(spot: &Spot, hold: Hold, dtype: DataType) -> *mut c_void {
        let ndim = spot.shape.len();
        let mut numbers: SmallVec<[i64; 12]> = SmallVec::from_elem(1, 2 * ndim);
        for (number, axis) in numbers.iter_mut().zip(&spot.shape) {
            *number = *axis as i64;
        }
        for axis in (1..ndim).rev() {
            numbers[ndim + axis - 1] = numbers[ndim + axis] * numbers[axis].max(1);
        }
        let tensor = Tensor {
            data: spot.address.cast(),
            device: DlDevice { kind: HOST.0, id: HOST.1 },
            ndim: ndim as i32,
            dtype,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let owned = Box::into_raw(Box::new(Owned { managed: M::around(tensor), hold, numbers }));
        // SAFETY: it was just made and nobody else knows of it. The numbers are in the box or in the
        // heap and stay where they are: nothing resizes them before the box is freed.
        unsafe {
            let first = (*owned).numbers.as_mut_ptr();
            let tensor = (*owned).managed.tensor();
            tensor.shape = first;
            tensor.strides = first.wrapping_add(ndim);
        }
        owned.cast()
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

/// A capsule that looks at `spot` and keeps `hold`.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    spot: &Spot,
    hold: Hold,
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = spot.dtype;
    let dtype = data_type(dtype)
        .ok_or_else(|| PyBufferError::new_err(format!("DLPack has no dtype for {dtype}")))?;
    let pointer = match versioned {
        true => Owned::<ManagedVersioned>::leak(spot, hold, dtype),
        false => Owned::<Managed>::leak(spot, hold, dtype),
    };
    let (name, destroy) = match versioned {
        true => (ManagedVersioned::NAME, ManagedVersioned::DESTROY),
        false => (Managed::NAME, Managed::DESTROY),
    };
    // SAFETY: the GIL is held; the pointer is not null; name and destructor are static and of the
    // version that the pointer has.
    unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destroy)))
    }
}

unsafe extern "C" fn delete<M>(managed: *mut M) {
    // SAFETY: it is the first field of an `Owned` that came from `Box::into_raw` in `Owned::leak`, and
    // the protocol calls the deleter once.
    unsafe { drop(Box::from_raw(managed.cast::<Owned<M>>())) }
}

unsafe extern "C" fn destroy<M: ManagedTensor>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule and the GIL. A consumed capsule has another name, and
    // its pointer is the consumer's; one that still has our name owns what `Owned::leak` made.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast::<M>());
        }
    }
}
