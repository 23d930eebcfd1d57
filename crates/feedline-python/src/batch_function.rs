//! `map_batches`: a Python function on each batch, called by the worker that has put the batch together.
//!
//! What it returns may have other fields, dtypes and shapes. It is copied into memory of the pool, so that
//! batches are handed over, counted and page-locked like all others.

use std::sync::{Arc, OnceLock};

use feedline::{Alter, Array, Assembled, BatchWriter, Cause, DType, Field, Form, SampleKey};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::call::{Callee, Functions};
use crate::epoch::strings;
use crate::errors::Raised;
use crate::function::keep_interrupt;
use crate::output::Output;
use crate::record::{FUNCTION, describe, split};
use crate::state::{CallKey, Making};
use crate::value::{Contiguous, KnownField, as_array, dtype_of};

/// A Python function on whole batches.
pub(crate) struct BatchFunction {
    function: Callee,
    /// Which of the pipeline's functions it is.
    number: u64,
    /// Whether the function takes a dict rather than the fields one by one.
    takes_dict: bool,
    before: Before,
    numpy: Output,
    /// Learned of the first batch.
    made: OnceLock<Returned>,
}

/// What the function gets.
pub(crate) enum Before {
    /// What the dataset declares.
    Declared(Vec<Field>),
    /// What another function has made.
    Made(Arc<BatchFunction>),
}

impl Before {
    /// Whether a field is text (`true`) or bytes; `None` for numbers.
    fn strings(&self, name: &str) -> Option<bool> {
        match self {
            Before::Made(function) => function.strings(name),
            Before::Declared(fields) => {
                match fields.iter().find(|field| field.name() == name)?.form() {
                    Form::Bytes { text } => Some(*text),
                    _ => None,
                }
            }
        }
    }
}

/// What a function returns.
struct Returned {
    /// Whether it answers with a dict.
    named: bool,
    fields: Vec<ReturnedField>,
}

struct ReturnedField {
    name: String,
    kind: Kind,
    /// Those of the first batch, without its first axis; they are for people to read.
    dtype: DType,
    shape: Vec<usize>,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Kind {
    Numbers,
    Text,
    Bytes,
}

impl Kind {
    const NAMES: [(Kind, &'static str); 3] =
        [(Kind::Numbers, "fixed"), (Kind::Text, "text"), (Kind::Bytes, "bytes")];

    /// A list of `str` or of `bytes` is just that, anything else is numbers.
    fn of(value: &Bound<'_, PyAny>) -> Kind {
        let first = value.cast::<PyList>().ok().and_then(|list| list.get_item(0).ok());
        match first {
            Some(first) if first.is_instance_of::<PyString>() => Kind::Text,
            Some(first) if first.is_instance_of::<PyBytes>() => Kind::Bytes,
            _ => Kind::Numbers,
        }
    }

    fn name(self) -> &'static str {
        Kind::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// Name, dtype, shape and rule of a field, as `Source::fields` tells them.
pub(crate) type Described = (String, &'static str, Vec<Option<usize>>, &'static str);

impl BatchFunction {
    /// The function is owned by `functions`. What it returns is learned of the first batch, unless it is
    /// `known`: its fields, and whether they are named.
    pub(crate) fn new(
        py: Python<'_>,
        before: Before,
        function: Py<PyAny>,
        functions: &mut Functions,
        takes_dict: bool,
        known: Option<(Vec<KnownField>, bool)>,
    ) -> PyResult<BatchFunction> {
        let number = functions.count();
        let function = functions.add(py, function)?;
        let made = OnceLock::new();
        if let Some((fields, named)) = known {
            let fields = fields.into_iter().map(ReturnedField::known).collect::<PyResult<_>>()?;
            made.get_or_init(|| Returned { named, fields });
        }
        let numpy = Output::named(py, "numpy")?;
        Ok(BatchFunction { function, number, takes_dict, before, numpy, made })
    }

    /// Its fields, and whether they are named; `None` before the first batch.
    pub(crate) fn fields(&self) -> Option<(Vec<Described>, bool)> {
        let Returned { named, fields } = self.made.get()?;
        let describe = |field: &ReturnedField| {
            let shape = field.shape.iter().copied().map(Some).collect();
            (field.name.clone(), field.dtype.name(), shape, field.kind.name())
        };
        Some((fields.iter().map(describe).collect(), *named))
    }

    /// Whether a field is text (`true`) or bytes; `None` for numbers.
    pub(crate) fn strings(&self, name: &str) -> Option<bool> {
        let field = self.made.get()?.fields.iter().find(|field| field.name == name)?;
        (field.kind != Kind::Numbers).then_some(field.kind == Kind::Text)
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        arrays: Vec<Array>,
        key: SampleKey,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _making = Making::begin(CallKey { sample: key, function: self.number });
        let mut arrays = arrays.into_iter();
        let (mut names, mut values) = (Vec::new(), Vec::new());
        while let Some(array) = arrays.next() {
            names.push(array.name().to_string());
            values.push(match self.before.strings(array.name()) {
                None => self.numpy.fresh(py, array)?,
                Some(text) => strings(py, &array, arrays.next().as_ref(), text)?.into_any(),
            });
        }
        if !self.takes_dict {
            return self.function.call(py, &PyTuple::new(py, values)?, None);
        }
        let batch = PyDict::new(py);
        for (name, value) in names.iter().zip(values) {
            batch.set_item(name, value)?;
        }
        self.function.call(py, &PyTuple::new(py, [batch])?, None)
    }

    fn write(&self, result: &Bound<'_, PyAny>, out: &mut BatchWriter<'_>) -> PyResult<()> {
        let (named, values) = split(FUNCTION, result)?;
        let values: Vec<(String, Bound<'_, PyAny>)> = values
            .into_iter()
            .enumerate()
            .map(|(i, (name, value))| (name.unwrap_or_else(|| i.to_string()), value))
            .collect();
        let made = match self.made.get() {
            Some(made) => made,
            None => {
                let fields = values.iter().map(|(name, value)| ReturnedField::learned(name, value));
                let fields = fields.collect::<PyResult<_>>()?;
                self.made.get_or_init(|| Returned { named, fields })
            }
        };
        let value_of = |name: &str| {
            let found = values.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value)
        };
        let found: Option<Vec<_>> = made.fields.iter().map(|field| value_of(&field.name)).collect();
        let same = named == made.named && values.len() == made.fields.len();
        let Some(found) = found.filter(|_| same) else {
            let now = values.iter().map(|(name, _)| named.then_some(&**name));
            let first = made.fields.iter().map(|field| made.named.then_some(&*field.name));
            return Err(PyValueError::new_err(format!(
                "the function returned {}, but {} for the first batch; return the same fields each time",
                describe(now),
                describe(first),
            )));
        };
        made.fields.iter().zip(found).try_for_each(|(field, value)| field.write(value, out))
    }
}

impl Alter for BatchFunction {
    fn alter(&self, batch: &mut Assembled<'_>) -> Result<(), Cause> {
        let key = batch.key();
        batch.remake(|arrays, out| {
            let called = Python::try_attach(|py| {
                let done = self.call(py, arrays, key).and_then(|result| self.write(&result, out));
                done.inspect_err(|error| keep_interrupt(py, error))
            });
            match called {
                Some(done) => Ok(done.map_err(Raised)?),
                None => Err("the interpreter is shutting down".into()),
            }
        })
    }

    /// A batch without samples has the fields of all others.
    fn takes_empty(&self) -> bool {
        true
    }
}

impl ReturnedField {
    fn learned(name: &str, value: &Bound<'_, PyAny>) -> PyResult<ReturnedField> {
        let kind = Kind::of(value);
        let name = name.to_string();
        if kind != Kind::Numbers {
            return Ok(ReturnedField { name, kind, dtype: DType::U8, shape: Vec::new() });
        }
        let array = numbers(&name, value)?;
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        let shape = shape.get(1..).unwrap_or_default().to_vec();
        Ok(ReturnedField { name, kind, dtype: dtype_of(&array)?, shape })
    }

    fn known((name, dtype, shape, rule): KnownField) -> PyResult<ReturnedField> {
        let refuse = || PyValueError::new_err(format!("field {name:?} cannot be {dtype} {rule}"));
        let kind = Kind::NAMES.iter().find(|(_, known)| *known == rule).map(|(kind, _)| *kind);
        let (kind, dtype) = kind.zip(DType::from_name(&dtype)).ok_or_else(refuse)?;
        let shape = shape.into_iter().flatten().collect();
        Ok(ReturnedField { name, kind, dtype, shape })
    }

    fn write(&self, value: &Bound<'_, PyAny>, out: &mut BatchWriter<'_>) -> PyResult<()> {
        let refuse = |error: feedline::Error| PyValueError::new_err(error.to_string());
        let py = value.py();
        if self.kind == Kind::Numbers {
            let array = numbers(&self.name, value)?;
            let shape: Vec<usize> = array.getattr("shape")?.extract()?;
            let elements = Contiguous::of(&array)?;
            let bytes = elements.bytes();
            let room = out.array_bytes(&self.name, dtype_of(&array)?, &shape).map_err(refuse)?;
            if room.len() != bytes.len() {
                return Err(PyValueError::new_err(format!(
                    "field {:?} changed meanwhile",
                    self.name
                )));
            }
            py.detach(|| room.copy_from_slice(bytes));
            return Ok(());
        }
        let list = value.cast::<PyList>().map_err(|_| self.wrong(value))?;
        let mut packed = Vec::new();
        let mut offsets = vec![0_i64];
        for entry in list {
            match self.kind {
                Kind::Text => {
                    let text = entry.cast::<PyString>().map_err(|_| self.wrong(&entry))?;
                    packed.extend_from_slice(text.to_str()?.as_bytes());
                }
                _ => {
                    let bytes = entry.cast::<PyBytes>().map_err(|_| self.wrong(&entry))?;
                    packed.extend_from_slice(bytes.as_bytes());
                }
            }
            offsets.push(packed.len() as i64);
        }
        out.array(&self.name, &[packed.len()]).map_err(refuse)?.copy_from_slice(&packed);
        let name = format!("{}_offsets", self.name);
        out.array(&name, &[offsets.len()]).map_err(refuse)?.copy_from_slice(&offsets);
        Ok(())
    }

    fn wrong(&self, value: &Bound<'_, PyAny>) -> PyErr {
        let wanted = if self.kind == Kind::Text { "str" } else { "bytes" };
        PyTypeError::new_err(format!(
            "field {:?} is a list of {wanted} in the first batch, but has {} here; return the same type \
             each time",
            self.name,
            value.get_type()
        ))
    }
}

/// A returned value as an array of numbers.
fn numbers<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let first = value.cast::<PyList>().ok().and_then(|list| list.get_item(0).ok());
    if first.is_some_and(|first| first.hasattr("shape").unwrap_or(false)) {
        return Err(PyTypeError::new_err(format!(
            "field {name:?} is a list of arrays; return a tuple or a dict of arrays, or numpy.stack(...) \
             of them"
        )));
    }
    as_array(value)
}
