//! One field's value, from the engine to a Python function and back.

use std::ffi::c_int;

use feedline::{DType, Field, Form, Ragged, Sample, SampleView, WriteError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString, PyTuple};
use pyo3::{ffi, intern};

use crate::call::call;
use crate::trim;

/// A field that fits the value, under a rule for those whose shape varies.
pub(crate) fn declare(
    name: &str,
    value: &Bound<'_, PyAny>,
    rule: Option<Bound<'_, PyAny>>,
) -> PyResult<Field> {
    let refuse = |why: String| Err(PyValueError::new_err(format!("field {name:?} {why}")));
    let text = value.is_instance_of::<PyString>();
    if text || value.is_instance_of::<PyBytes>() {
        if rule.is_some() {
            return refuse(
                "is text or bytes, which may have any length; take it out of `ragged`".into(),
            );
        }
        return Ok(if text { Field::text(name) } else { Field::bytes(name) });
    }
    let array = as_array(value)?;
    let dtype = dtype_of(&array)?;
    let shape: Vec<usize> = array.getattr(intern!(value.py(), "shape"))?.extract()?;
    let Some(rule) = rule else { return Ok(Field::fixed(name, dtype, shape)) };
    if shape.is_empty() {
        return refuse("is a scalar, whose shape cannot vary; take it out of `ragged`".into());
    }
    let (kind, to, fill): (String, Option<Vec<usize>>, f64) = rule.extract()?;
    let (varying, rule) = match (&*kind, to) {
        ("packed", _) => {
            let fixed = shape[1..].iter().map(|axis| Some(*axis));
            (std::iter::once(None).chain(fixed).collect(), Ragged::Packed)
        }
        (_, Some(to)) if to.len() != shape.len() => {
            let axes = shape.len();
            return refuse(format!(
                "has {axes} axes, but `ragged` pads it to {to:?}; give {axes} lengths"
            ));
        }
        (_, Some(to)) if shape.iter().zip(&to).any(|(axis, to)| axis > to) => {
            return refuse(format!(
                "has shape {shape:?} in the first sample, more than `ragged` pads it to, {to:?}; pad to a \
                 larger shape"
            ));
        }
        (_, Some(to)) => (vec![None; shape.len()], Ragged::PadTo { shape: to, fill }),
        (_, None) => (vec![None; shape.len()], Ragged::PadToLongest { fill }),
    };
    Ok(Field::ragged(name, dtype, varying, rule))
}

/// A field as `Source.fields` tells it: its name, dtype, shape and rule.
pub(crate) type KnownField = (String, String, Vec<Option<usize>>, String);

/// The field that [`declare`] made of a value, by what is known of it. `ragged` are the rules it was made with.
pub(crate) fn declare_known(field: KnownField, ragged: &Bound<'_, PyDict>) -> PyResult<Field> {
    let (name, dtype, shape, rule) = field;
    let refuse = |why: &str| PyValueError::new_err(format!("field {name:?} {why}"));
    let known = DType::from_name(&dtype);
    let dtype = known.ok_or_else(|| refuse(&format!("has the unknown dtype {dtype:?}")))?;
    let rules: Option<(String, Option<Vec<usize>>, f64)> =
        ragged.get_item(&name)?.map(|rule| rule.extract()).transpose()?;
    let rule = match (&*rule, rules) {
        ("text", None) => return Ok(Field::text(&name)),
        ("bytes", None) => return Ok(Field::bytes(&name)),
        ("fixed", None) => {
            let shape: Option<Vec<usize>> = shape.into_iter().collect();
            let shape = shape.ok_or_else(|| refuse("is fixed, and has an axis that varies"))?;
            return Ok(Field::fixed(&name, dtype, shape));
        }
        ("packed", Some(_)) => Ragged::Packed,
        ("padded", Some((_, Some(shape), fill))) => Ragged::PadTo { shape, fill },
        ("longest", Some((_, None, fill))) => Ragged::PadToLongest { fill },
        (rule, _) => return Err(refuse(&format!("is {rule}, which its rule is not"))),
    };
    Ok(Field::ragged(&name, dtype, shape, rule))
}

/// A field's value as a function gets it: an array of its own memory, a scalar, text or bytes.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    view: &SampleView<'_>,
    field: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let declared = &view.fields()[field];
    match declared.form() {
        Form::Bytes { text: true } => {
            let text = String::from_utf8_lossy(view.bytes(field));
            return Ok(PyString::new(py, &text).into_any());
        }
        Form::Bytes { .. } => return Ok(PyBytes::new(py, view.bytes(field)).into_any()),
        _ => {}
    }
    let numpy = Numpy::get(py)?;
    let bytes = PyByteArray::new(py, view.bytes(field));
    let flat = numpy.frombuffer.bind(py).call1((bytes, numpy.dtype(py, declared.dtype())?))?;
    let shape = view.shape(field);
    match shape {
        [] => flat.get_item(0),
        [_] => Ok(flat),
        _ => flat.call_method1(intern!(py, "reshape"), (PyTuple::new(py, shape)?,)),
    }
}

/// Writes a value that a function returned into field `at` of the sample. `named` says how the user
/// refers to fields.
pub(crate) fn write(
    field: &Field,
    named: bool,
    at: usize,
    value: Bound<'_, PyAny>,
    sample: &mut Sample<'_>,
) -> PyResult<()> {
    let refuse = |e: WriteError| PyValueError::new_err(e.to_string());
    if let Form::Bytes { text: true } = field.form() {
        let text = value.cast::<PyString>().map_err(|_| not_a(field, "str", &value))?;
        // Text with lone surrogates is no UTF-8; Python's own error says where.
        return sample.put_bytes(at, text.to_str()?.as_bytes()).map_err(refuse);
    }
    if let Form::Bytes { .. } = field.form() {
        let bytes = value.cast::<PyBytes>().map_err(|_| not_a(field, "bytes", &value))?.as_bytes();
        sample.put_bytes(at, bytes).map_err(refuse)?;
        if is_last_reference(&value) {
            // SAFETY: the bytes lie in the object, whose only reference is dropped next.
            unsafe { trim::discard(bytes.as_ptr_range()) };
        }
        return Ok(());
    }
    let array = as_array(&value)?;
    drop(value);
    let dtype = dtype_of(&array)?;
    if dtype != field.dtype() {
        return Err(PyValueError::new_err(format!(
            "field {:?} is {} in the first sample, but {dtype} here; convert it with .astype({:?})",
            field.name(),
            field.dtype(),
            field.dtype().name(),
        )));
    }
    let shape: Vec<usize> = array.getattr(intern!(array.py(), "shape"))?.extract()?;
    let elements = Contiguous::of(&array)?;
    sample.put_elements(at, &shape, elements.bytes()).map_err(|error| match error {
        WriteError::Shape { .. } => misfit(field, named, &shape),
        other => refuse(other),
    })?;
    let memory = elements.bytes().as_ptr_range();
    drop(elements);
    if is_last_reference(&array) && Numpy::get(array.py())?.owns_memory(&array)? {
        // SAFETY: NumPy allocated it for this array alone, whose only reference is dropped next.
        unsafe { trim::discard(memory) };
    }
    Ok(())
}

/// Whether nobody else refers to an object.
fn is_last_reference(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object, with the GIL held.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) == 1 }
}

/// A shape that does not fit, and the call that makes it fit.
fn misfit(field: &Field, named: bool, shape: &[usize]) -> PyErr {
    let name = field.name();
    let key = if named { format!("{name:?}") } else { name.to_string() };
    PyValueError::new_err(match field.form() {
        Form::Fixed { shape: first } => format!(
            "field {name:?} has shape {first:?} in the first sample, but {shape:?} here; return equal \
             shapes, or say how they share a batch: map(..., ragged={{{key}: \"longest\"}})"
        ),
        Form::Ragged { rule: Ragged::PadTo { shape: to, .. }, .. } => format!(
            "field {name:?} has shape {shape:?} here, which does not fit into {to:?}; pad to a larger \
             shape in `ragged`, or to the longest of each batch: map(..., ragged={{{key}: \"longest\"}})"
        ),
        Form::Ragged { shape: first, rule: Ragged::Packed } => {
            let axes = first[1..].iter().flatten();
            let axes: String = axes.map(|axis| format!(", {axis}")).collect();
            format!(
                "field {name:?} has shape {shape:?} here, but packed values must be [*{axes}] as in the \
                 first sample; return such, or pad: map(..., ragged={{{key}: \"longest\"}})"
            )
        }
        Form::Ragged { shape: first, .. } => format!(
            "field {name:?} has {} axes in the first sample, but shape {shape:?} here; return equally \
             many axes each time",
            first.len()
        ),
        _ => format!("field {name:?} cannot have shape {shape:?}"),
    })
}

fn not_a(field: &Field, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "field {:?} is {wanted} in the first sample, but {} here; return the same type each time",
        field.name(),
        value.get_type()
    ))
}

/// The value as a C-contiguous array in native byte order.
pub(crate) fn as_array<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let numpy = Numpy::get(py)?;
    // Not `ascontiguousarray`: that makes scalars one-dimensional.
    let arguments = PyTuple::new(py, [value])?;
    let array = call(numpy.asarray.bind(py), &arguments, Some(numpy.c_order.bind(py)))?;
    let dtype = array.getattr(intern!(py, "dtype"))?;
    if dtype.getattr(intern!(py, "hasobject"))?.extract()? {
        return Err(PyTypeError::new_err(format!(
            "an array of Python objects cannot be loaded (got {}); return numbers, str or bytes",
            value.get_type()
        )));
    }
    if dtype.getattr(intern!(py, "isnative"))?.extract()? {
        return Ok(array);
    }
    let native = dtype.call_method1(intern!(py, "newbyteorder"), ("=",))?;
    call(&array.getattr(intern!(py, "astype"))?, &PyTuple::new(py, [native])?, None)
}

pub(crate) fn dtype_of(array: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = array.py();
    let name: String =
        array.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "name"))?.extract()?;
    DType::from_name(&name).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "the function returned an array of {name}, which cannot be loaded; convert it to a numeric dtype"
        ))
    })
}

/// NumPy's functions, looked up once.
struct Numpy {
    asarray: Py<PyAny>,
    /// `{"order": "C"}`
    c_order: Py<PyDict>,
    frombuffer: Py<PyAny>,
    /// Tells who allocated an array's memory; not in every NumPy.
    handler_name: Option<Py<PyAny>>,
    dtypes: Vec<(DType, Py<PyAny>)>,
}

impl Numpy {
    fn get(py: Python<'_>) -> PyResult<&Numpy> {
        static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
        NUMPY.get_or_try_init(py, || {
            let numpy = py.import("numpy")?;
            let dtype = numpy.getattr("dtype")?;
            // NumPy knows bfloat16 only where ml_dtypes is; without it there is no array to make of it.
            let _ = py.import("ml_dtypes");
            let dtypes = DType::ALL
                .iter()
                .filter_map(|d| Some((*d, dtype.call1((d.name(),)).ok()?.unbind())));
            let c_order = PyDict::new(py);
            c_order.set_item("order", "C")?;
            let multiarray = py.import("numpy._core.multiarray");
            let handler_name = multiarray.and_then(|it| it.getattr("get_handler_name"));
            Ok(Numpy {
                asarray: numpy.getattr("asarray")?.unbind(),
                c_order: c_order.unbind(),
                frombuffer: numpy.getattr("frombuffer")?.unbind(),
                handler_name: handler_name.ok().map(Bound::unbind),
                dtypes: dtypes.collect(),
            })
        })
    }

    /// Whether an array's memory is its own, and of NumPy's usual allocator.
    fn owns_memory(&self, array: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = array.py();
        let Some(handler_name) = &self.handler_name else { return Ok(false) };
        let is_own = array.getattr(intern!(py, "flags"))?.getattr(intern!(py, "owndata"))?;
        if !is_own.extract()? {
            return Ok(false);
        }
        let name = handler_name.bind(py).call1((array,))?;
        Ok(name.extract::<Option<String>>()?.as_deref() == Some("default_allocator"))
    }

    fn dtype<'py>(&self, py: Python<'py>, dtype: DType) -> PyResult<&Bound<'py, PyAny>> {
        let found = self.dtypes.iter().find(|(known, _)| *known == dtype);
        found.map(|(_, object)| object.bind(py)).ok_or_else(|| {
            PyTypeError::new_err(format!("NumPy has no {dtype}; install ml_dtypes to map over it"))
        })
    }
}

/// A C-contiguous view of an object's bytes.
pub(crate) struct Contiguous(Box<ffi::Py_buffer>);

impl Contiguous {
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Contiguous> {
        let mut view = Box::new(ffi::Py_buffer::new());
        let flags: c_int = ffi::PyBUF_C_CONTIGUOUS;
        // SAFETY: the GIL is held; `view` is ours to fill and boxed, so that it stays where it is.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Contiguous(view))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.0.len <= 0 || self.0.buf.is_null() {
            return &[];
        }
        // SAFETY: the exporter promised `len` contiguous bytes until the view is released.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), self.0.len as usize) }
    }
}

impl Drop for Contiguous {
    fn drop(&mut self) {
        // SAFETY: filled by `PyObject_GetBuffer` and released once; views live only inside the calls
        // above, which hold the GIL.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) }
    }
}
