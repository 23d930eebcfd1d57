//! `map`: a Python function on each sample. The GIL is held for the function and nothing else.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use feedline::{
    Cause, DType, Dataset, Field, Form, Ragged, Sample, SampleIndex, SampleView, Scratch, Stage,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString, PyTuple};
use pyo3::{ffi, intern};

use crate::errors::Raised;

/// A dataset whose samples are another's after a Python function.
pub(crate) struct PyMap {
    inner: Arc<dyn Dataset>,
    function: Py<PyAny>,
    /// Whether the function takes a dict rather than the fields one by one.
    takes_dict: bool,
    fields: Vec<Field>,
    /// Places for the inner sample, one per worker that is in the function.
    scratches: Mutex<Vec<Scratch>>,
}

/// What the function's first answer says about all of them.
pub(crate) struct Inferred {
    pub(crate) map: PyMap,
    /// Whether it answers with a dict.
    pub(crate) named: bool,
}

impl PyMap {
    /// Calls the function on the first sample to learn what it makes. `ragged` are rules by field.
    pub(crate) fn infer(
        py: Python<'_>,
        inner: Arc<dyn Dataset>,
        function: Py<PyAny>,
        takes_dict: bool,
        ragged: &Bound<'_, PyDict>,
    ) -> PyResult<Inferred> {
        let mut map =
            PyMap { inner, function, takes_dict, fields: Vec::new(), scratches: Mutex::default() };
        if map.inner.is_empty() {
            return Err(PyValueError::new_err(
                "map needs at least one sample to learn what the function makes",
            ));
        }
        let result = map.first_result(py)?;
        let (named, values) = split(&result)?;
        for (i, (name, value)) in values.iter().enumerate() {
            let name = name.clone().unwrap_or_else(|| i.to_string());
            map.fields.push(declare(&name, value, ragged.get_item(&name)?)?);
        }
        Ok(Inferred { map, named })
    }

    fn first_result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut scratch =
            Scratch::new(self.inner.fields()).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let first = SampleIndex(0);
        let inner = Arc::clone(&self.inner);
        let view = py.detach(|| scratch.read(&*inner, first, (0, 0, first)).map(|_| ()));
        view.map_err(|cause| raise(py, cause))?;
        self.call(py, &scratch.view())
    }

    fn call<'py>(&self, py: Python<'py>, view: &SampleView<'_>) -> PyResult<Bound<'py, PyAny>> {
        let fields = view.fields();
        let function = self.function.bind(py);
        if self.takes_dict {
            let sample = PyDict::new(py);
            for (i, field) in fields.iter().enumerate() {
                sample.set_item(field.name(), to_python(py, view, i)?)?;
            }
            return function.call1((sample,));
        }
        let values: Vec<_> =
            (0..fields.len()).map(|i| to_python(py, view, i)).collect::<PyResult<_>>()?;
        function.call1(PyTuple::new(py, values)?)
    }

    fn write(&self, result: &Bound<'_, PyAny>, sample: &mut Sample<'_>) -> PyResult<()> {
        let (_, values) = split(result)?;
        if values.len() != self.fields.len() {
            return Err(PyValueError::new_err(format!(
                "the function made {} fields, but {} for the first sample; make the same ones each time",
                values.len(),
                self.fields.len()
            )));
        }
        for (i, (name, value)) in values.iter().enumerate() {
            let at = match name {
                None => i,
                Some(name) => self.fields.iter().position(|f| f.name() == name).ok_or_else(|| {
                    PyValueError::new_err(format!(
                        "the function made a field {name:?} that it did not make for the first sample"
                    ))
                })?,
            };
            write_field(&self.fields[at], at, value, sample)?;
        }
        Ok(())
    }
}

impl Dataset for PyMap {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.inner.load(index, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let spare = self.scratches.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut scratch = match spare {
            Some(scratch) => scratch,
            None => Scratch::new(self.inner.fields())?,
        };
        let view = scratch.build(&*self.inner, sample.index(), raw, sample.identity())?;
        sample.begin(Stage::Transform);
        let called = Python::try_attach(|py| {
            let result = self.call(py, &view)?;
            self.write(&result, sample)
        });
        self.scratches.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        match called {
            Some(done) => Ok(done.map_err(Raised)?),
            None => Err("the interpreter is shutting down".into()),
        }
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.inner.cost_hint(index)
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.inner.origin(index)
    }
}

/// The fields of a function's answer: of a dict by name, of a tuple or list by place, else the one.
type Answer<'py> = (bool, Vec<(Option<String>, Bound<'py, PyAny>)>);

fn split<'py>(result: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
    if let Ok(dict) = result.cast::<PyDict>() {
        let mut values = Vec::with_capacity(dict.len());
        for (name, value) in dict {
            values.push((Some(name.extract()?), value));
        }
        return Ok((true, values));
    }
    if result.is_none() {
        return Err(PyTypeError::new_err(
            "the function returned None; return an array, a tuple of arrays or a dict of arrays",
        ));
    }
    if let Ok(tuple) = result.cast::<PyTuple>() {
        return Ok((false, tuple.iter().map(|value| (None, value)).collect()));
    }
    Ok((false, vec![(None, result.clone())]))
}

/// A field that fits the value.
fn declare(
    name: &str,
    value: &Bound<'_, PyAny>,
    rule: Option<Bound<'_, PyAny>>,
) -> PyResult<Field> {
    if value.is_instance_of::<PyString>() {
        return Ok(Field::text(name));
    }
    if value.is_instance_of::<PyBytes>() {
        return Ok(Field::bytes(name));
    }
    let array = as_array(value)?;
    let dtype = dtype_of(&array)?;
    let shape: Vec<usize> = array.getattr(intern!(value.py(), "shape"))?.extract()?;
    let Some(rule) = rule else { return Ok(Field::fixed(name, dtype, shape)) };
    let (kind, to, fill): (String, Option<Vec<usize>>, f64) = rule.extract()?;
    let (varying, rule) = match (&*kind, to) {
        ("packed", _) => {
            let mut varying: Vec<Option<usize>> = shape.iter().map(|axis| Some(*axis)).collect();
            if let Some(first) = varying.first_mut() {
                *first = None;
            }
            (varying, Ragged::Packed)
        }
        (_, Some(to)) => (vec![None; shape.len()], Ragged::PadTo { shape: to, fill }),
        (_, None) => (vec![None; shape.len()], Ragged::PadToLongest { fill }),
    };
    Ok(Field::ragged(name, dtype, varying, rule))
}

/// A field's value as the function gets it: an array of its own memory, a scalar, text or bytes.
fn to_python<'py>(
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

fn write_field(
    field: &Field,
    at: usize,
    value: &Bound<'_, PyAny>,
    sample: &mut Sample<'_>,
) -> PyResult<()> {
    let py = value.py();
    let refuse = |e: feedline::WriteError| PyValueError::new_err(e.to_string());
    if let Form::Bytes { text } = field.form() {
        if *text {
            let text: &str = value.extract().map_err(|_| not_a(field, "str", value))?;
            return sample.put_bytes(at, text.as_bytes()).map_err(refuse);
        }
        let bytes: &[u8] = value.extract().map_err(|_| not_a(field, "bytes", value))?;
        return sample.put_bytes(at, bytes).map_err(refuse);
    }
    let array = as_array(value)?;
    let dtype = dtype_of(&array)?;
    if dtype != field.dtype() {
        return Err(PyValueError::new_err(format!(
            "field {:?} is {}, but this sample's is {dtype}; convert it with .astype({:?})",
            field.name(),
            field.dtype(),
            field.dtype().name(),
        )));
    }
    let shape: Vec<usize> = array.getattr(intern!(py, "shape"))?.extract()?;
    let elements = Contiguous::of(&array)?;
    sample.put_elements(at, &shape, elements.bytes()).map_err(|e| {
        let hint = match field.form() {
            Form::Fixed { .. } => "; declare it with map(..., ragged={...})",
            _ => "",
        };
        PyValueError::new_err(format!("{e}{hint}"))
    })
}

fn not_a(field: &Field, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "field {:?} was {wanted} for the first sample, but is {} now",
        field.name(),
        value.get_type()
    ))
}

/// The value as a C-contiguous array in native byte order.
fn as_array<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let numpy = Numpy::get(py)?;
    // Not `ascontiguousarray`: that makes scalars one-dimensional.
    let array = numpy.asarray.bind(py).call((value,), Some(numpy.c_order.bind(py)))?;
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
    array.call_method1(intern!(py, "astype"), (native,))
}

fn dtype_of(array: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = array.py();
    let name: String =
        array.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "name"))?.extract()?;
    DType::from_name(&name).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "dtype {name} cannot be loaded; convert it to a numeric dtype"
        ))
    })
}

/// NumPy's functions, looked up once.
struct Numpy {
    asarray: Py<PyAny>,
    /// `{"order": "C"}`
    c_order: Py<PyDict>,
    frombuffer: Py<PyAny>,
    dtypes: Vec<(DType, Py<PyAny>)>,
}

impl Numpy {
    fn get(py: Python<'_>) -> PyResult<&Numpy> {
        static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
        NUMPY.get_or_try_init(py, || {
            let numpy = py.import("numpy")?;
            let dtype = numpy.getattr("dtype")?;
            // bfloat16 is known only where ml_dtypes is; without it there is no array to make of it.
            let dtypes = DType::ALL
                .iter()
                .filter_map(|d| Some((*d, dtype.call1((d.name(),)).ok()?.unbind())));
            let c_order = PyDict::new(py);
            c_order.set_item("order", "C")?;
            Ok(Numpy {
                asarray: numpy.getattr("asarray")?.unbind(),
                c_order: c_order.unbind(),
                frombuffer: numpy.getattr("frombuffer")?.unbind(),
                dtypes: dtypes.collect(),
            })
        })
    }

    fn dtype<'py>(&self, py: Python<'py>, dtype: DType) -> PyResult<&Bound<'py, PyAny>> {
        let found = self.dtypes.iter().find(|(known, _)| *known == dtype);
        found.map(|(_, object)| object.bind(py)).ok_or_else(|| {
            PyTypeError::new_err(format!("NumPy has no {dtype}; install ml_dtypes to map over it"))
        })
    }
}

/// A C-contiguous view of an object's bytes.
struct Contiguous(Box<ffi::Py_buffer>);

impl Contiguous {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Contiguous> {
        let mut view = Box::new(ffi::Py_buffer::new());
        let flags: c_int = ffi::PyBUF_C_CONTIGUOUS;
        // SAFETY: the GIL is held; `view` is ours to fill and boxed, so that it stays where it is.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Contiguous(view))
    }

    fn bytes(&self) -> &[u8] {
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

fn raise(py: Python<'_>, cause: Cause) -> PyErr {
    match cause.downcast::<Raised>() {
        Ok(raised) => raised.0.clone_ref(py),
        Err(cause) => PyValueError::new_err(format!("the first sample cannot be made: {cause}")),
    }
}
