//! Samples of a Python iterator, which a function begins anew for each pass.
//!
//! The iterator is asked for one sample at a time, with the GIL. A sample's values are copied to bytes right then, so that
//! all that is done to them later needs no GIL; which is also what a state, a shuffle buffer and the byte budget count.
//!
//! Iterators are owned by the function that made them (see [`call`](crate::call)): they often lead back to the loader.

use std::sync::Arc;

use feedline::sources::{Encoded, Reading, snapshot};
use feedline::{
    Cause, Dataset, Field, Form, Iterable, Pass, Sample, SampleIndex, SampleKey, Samples, Scratch,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::call::{Callee, Functions, call};
use crate::errors::Raised;
use crate::function::keep_interrupt;
use crate::record::Record;
use crate::state::{CallKey, Making};

/// Who gives the samples, for messages.
pub(crate) const GIVES: &str = "the iterator gave";

/// Samples of Python iterators.
#[derive(Clone)]
pub(crate) struct PyIterable(Arc<IterableInner>);

struct IterableInner {
    factory: Callee,
    /// Which of the pipeline's functions it is.
    number: u64,
    /// What of a pass the function takes, by keyword.
    keywords: Vec<String>,
    /// Whether it gives each rank samples of its own.
    shares: bool,
    record: Record,
    names: Vec<String>,
    /// The sample that the fields were learned of, as bytes.
    example: Vec<u8>,
}

impl PyIterable {
    /// Learns the fields of `example`, or of the first sample. The factory is owned by `functions`.
    pub(crate) fn infer(
        py: Python<'_>,
        factory: Py<PyAny>,
        functions: &mut Functions,
        keywords: Vec<String>,
        example: Option<Bound<'_, PyAny>>,
        ragged: &Bound<'_, PyDict>,
    ) -> PyResult<PyIterable> {
        let number = functions.count();
        let factory = functions.add(py, factory)?;
        let example = match example {
            Some(example) => example,
            None => {
                let _making = making([0, 0], 0, number);
                let iterator = begin(py, &factory, &keywords, [0, 0, 0, 1])?;
                next(&iterator)?.ok_or_else(|| {
                    PyValueError::new_err(
                        "the iterator gave no sample, so nobody knows what one consists of; pass example=...",
                    )
                })?
            }
        };
        let record = Record::of(GIVES, &example, ragged)?;
        let mut scratch = scratch_of(&record)?;
        let mut bytes = Vec::new();
        write(&record, &mut scratch, example, &mut bytes)?;
        Ok(PyIterable::new((factory, number), keywords, record, bytes))
    }

    /// Of which the fields are known, whether they are named, and an example.
    pub(crate) fn known(
        py: Python<'_>,
        factory: Py<PyAny>,
        functions: &mut Functions,
        keywords: Vec<String>,
        (fields, named): (Vec<Field>, bool),
        example: Vec<u8>,
    ) -> PyResult<PyIterable> {
        let number = functions.count();
        let factory = functions.add(py, factory)?;
        let record = Record::known(GIVES, fields, named)?;
        Ok(PyIterable::new((factory, number), keywords, record, example))
    }

    fn new(
        (factory, number): (Callee, u64),
        keywords: Vec<String>,
        record: Record,
        example: Vec<u8>,
    ) -> PyIterable {
        let names = record.fields.iter().map(|field| field.name().to_string()).collect();
        let shares = keywords.iter().any(|name| name == "rank");
        PyIterable(Arc::new(IterableInner {
            factory,
            number,
            keywords,
            shares,
            record,
            names,
            example,
        }))
    }

    pub(crate) fn is_named(&self) -> bool {
        self.0.record.named
    }

    /// Whether a field is bytes, such as those of encoded images.
    pub(crate) fn has_bytes(&self) -> bool {
        self.0.record.fields.iter().any(|field| *field.form() == Form::Bytes { text: false })
    }

    /// The sample that the fields were learned of, as bytes.
    pub(crate) fn example(&self) -> &[u8] {
        &self.0.example
    }
}

fn scratch_of(record: &Record) -> PyResult<Scratch> {
    Scratch::new(record.fields.clone()).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Appends a sample to `raw`.
fn write(
    record: &Record,
    scratch: &mut Scratch,
    given: Bound<'_, PyAny>,
    raw: &mut Vec<u8>,
) -> PyResult<()> {
    let mut written = Ok(());
    // Nothing depends on which sample it is: its values are given.
    let key = SampleKey::new(0, 0, SampleIndex(0));
    let view = scratch.write(key, |sample| {
        written = record.write(given, sample);
        Ok(())
    });
    written?;
    snapshot::write(&view.map_err(|e| PyValueError::new_err(e.to_string()))?, raw);
    scratch.shrink();
    Ok(())
}

/// While it lives, this thread is making the sample with this number.
fn making([seed, epoch]: [u64; 2], at: u64, function: u64) -> Making {
    let sample = SampleKey::new(seed, epoch, SampleIndex(at));
    Making::begin(CallKey { sample, function })
}

/// Calls the factory with what it takes of a pass (seed, epoch, rank, world size) and returns the iterator.
fn begin<'py>(
    py: Python<'py>,
    factory: &Callee,
    keywords: &[String],
    [seed, epoch, rank, world]: [u64; 4],
) -> PyResult<Bound<'py, PyAny>> {
    let given = PyDict::new(py);
    for name in keywords {
        let value = match &**name {
            "seed" => seed,
            "epoch" => epoch,
            "rank" => rank,
            _ => world,
        };
        given.set_item(name, value)?;
    }
    let samples = factory.call(py, &PyTuple::empty(py), Some(&given))?;
    if samples.getattr_opt(intern!(py, "__iter__"))?.is_none() {
        return Err(PyTypeError::new_err(format!(
            "the factory returned {}, which cannot be iterated over; return an iterator of samples",
            samples.get_type()
        )));
    }
    call(&py.import("builtins")?.getattr("iter")?, &PyTuple::new(py, [samples])?, None)
}

/// The next sample; `None` if there is none any more.
fn next<'py>(iterator: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = iterator.py();
    // An object that nobody else has says that there is none; and the call is one that may be unwound.
    let end = PyDict::new(py).into_any();
    let arguments = PyTuple::new(py, [iterator, &end])?;
    let given = call(&py.import("builtins")?.getattr("next")?, &arguments, None)?;
    Ok(Some(given).filter(|given| !given.is(&end)))
}

impl Dataset for PyIterable {
    fn len(&self) -> u64 {
        0
    }

    fn fields(&self) -> Vec<Field> {
        self.0.record.fields.clone()
    }

    /// The example, for those who learn by it; other samples only come in turn.
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        if index.0 > 0 {
            return Err("samples of an iterator come one after the other".into());
        }
        raw.extend_from_slice(&self.0.example);
        Ok(())
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        snapshot::read(&self.0.record.fields, raw, sample)
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        Some(self)
    }
}

impl Encoded for PyIterable {
    fn len(&self) -> u64 {
        0
    }

    fn parts(&self) -> &[String] {
        &self.0.names
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        Dataset::load(self, index, raw)
    }

    fn part<'a>(
        &'a self,
        _index: SampleIndex,
        raw: &'a [u8],
        part: usize,
    ) -> Result<&'a [u8], Cause> {
        snapshot::part(&self.0.record.fields, raw, part)
    }

    fn origin(&self, _index: SampleIndex) -> Option<String> {
        None
    }

    fn iterable(&self) -> Option<&dyn Iterable> {
        Some(self)
    }

    fn reading(&self, part: usize) -> Option<Reading> {
        let field = self.0.record.fields.get(part)?;
        Some(match field.form() {
            Form::Bytes { text: true } => Reading::Text,
            Form::Fixed { shape } => {
                Reading::Elements { dtype: field.dtype(), shape: shape.to_vec() }
            }
            _ => Reading::Bytes,
        })
    }
}

impl Iterable for PyIterable {
    fn iterate(&self, pass: Pass) -> Result<Box<dyn Samples>, Cause> {
        attached(|py| {
            let scratch = scratch_of(&self.0.record)?;
            let _making = making([pass.seed, pass.epoch], 0, self.0.number);
            let IterableInner { factory, keywords, .. } = &*self.0;
            let figures = [pass.seed, pass.epoch, pass.rank, pass.world];
            let iterator = begin(py, factory, keywords, figures)?;
            let has = |name| iterator.getattr_opt(name).map(|found| found.is_some());
            let tells = has(intern!(py, "state_dict"))? && has(intern!(py, "load_state_dict"))?;
            let number = factory.keep(iterator)?;
            let (of, factory) = (self.clone(), factory.clone_ref(py));
            let over = false;
            Ok(Box::new(PySamples { of, factory, number, tells, pass, at: 0, over, scratch }) as _)
        })
    }

    fn shares(&self) -> bool {
        self.0.shares
    }
}

/// One pass.
struct PySamples {
    of: PyIterable,
    factory: Callee,
    /// Under which the factory keeps the iterator.
    number: u64,
    /// Whether the iterator can tell where it is.
    tells: bool,
    pass: Pass,
    /// How many samples came before.
    at: u64,
    /// Whether the iterator raised an exception, after which it is not asked again.
    over: bool,
    scratch: Scratch,
}

impl Samples for PySamples {
    fn next(&mut self, raw: &mut Vec<u8>) -> Result<bool, Cause> {
        if self.over {
            return Ok(false);
        }
        let at = self.at;
        self.at += 1;
        self.over = true;
        attached(|py| {
            let IterableInner { number, record, .. } = &*self.of.0;
            let _making = making([self.pass.seed, self.pass.epoch], at, *number);
            let Some(given) = next(&self.factory.kept(py, self.number)?)? else { return Ok(false) };
            // What cannot be a sample is an error of that one alone.
            self.over = false;
            write(record, &mut self.scratch, given, raw)?;
            Ok(true)
        })
    }

    fn state(&mut self) -> Result<Option<String>, Cause> {
        if !self.tells {
            return Ok(None);
        }
        attached(|py| {
            let iterator = self.factory.kept(py, self.number)?;
            let taken = iterator.getattr(intern!(py, "state_dict"))?;
            let state = call(&taken, &PyTuple::empty(py), None)?;
            let dumps = py.import("json")?.getattr("dumps")?;
            let text = call(&dumps, &PyTuple::new(py, [state])?, None).map_err(|error| {
                let told = PyTypeError::new_err(
                    "the iterator's state_dict() must be plain data (numbers, text, lists and dicts of them), \
                     as it becomes a part of the loader's state",
                );
                told.set_cause(py, Some(error));
                told
            })?;
            Ok(Some(text.extract()?))
        })
    }

    fn restore(&mut self, state: &str, samples: u64) -> Result<bool, Cause> {
        if !self.tells {
            return Ok(false);
        }
        attached(|py| {
            let iterator = self.factory.kept(py, self.number)?;
            let loads = py.import("json")?.getattr("loads")?;
            let state = call(&loads, &PyTuple::new(py, [state])?, None)?;
            let load = iterator.getattr(intern!(py, "load_state_dict"))?;
            call(&load, &PyTuple::new(py, [state])?, None)?;
            Ok(())
        })?;
        self.at = samples;
        Ok(true)
    }
}

impl Drop for PySamples {
    fn drop(&mut self) {
        Python::try_attach(|py| self.factory.give_up(py, self.number));
    }
}

/// Runs Python code; Ctrl-C in it is taken note of.
fn attached<T>(run: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, Cause> {
    let ran = Python::try_attach(|py| run(py).inspect_err(|error| keep_interrupt(py, error)));
    match ran {
        Some(result) => Ok(result.map_err(Raised)?),
        None => Err("the interpreter is shutting down".into()),
    }
}
