//! A sample as Python code gives it: which fields it has, and how they are written.

use feedline::{Field, Sample, Scratch};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::value;

/// How it is said that a function returned something.
pub(crate) const FUNCTION: &str = "the function returned";

/// The fields of the samples that a function returns, or an iterator gives.
pub(crate) struct Record {
    /// Who gives them, and how that is said: `the function returned`.
    gives: &'static str,
    pub(crate) fields: Vec<Field>,
    /// Whether a sample is a dict.
    pub(crate) named: bool,
}

impl Record {
    /// What is known of a sample. `ragged` are rules by field.
    pub(crate) fn of(
        gives: &'static str,
        sample: &Bound<'_, PyAny>,
        ragged: &Bound<'_, PyDict>,
    ) -> PyResult<Record> {
        let (named, values) = split(gives, sample)?;
        let mut fields = Vec::with_capacity(values.len());
        for (i, (name, value)) in values.iter().enumerate() {
            let name = name.clone().unwrap_or_else(|| i.to_string());
            fields.push(value::declare(&name, value, ragged.get_item(&name)?)?);
        }
        Record::known(gives, fields, named)
    }

    /// Before any sample is known.
    pub(crate) fn unknown(gives: &'static str) -> Record {
        Record { gives, fields: Vec::new(), named: false }
    }

    /// Of fields that are known.
    pub(crate) fn known(gives: &'static str, fields: Vec<Field>, named: bool) -> PyResult<Record> {
        // What no batch can be made of is refused here, not when the loader is built.
        Scratch::new(fields.clone()).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Record { gives, fields, named })
    }

    /// Writes all fields of a sample, which is gone afterwards.
    pub(crate) fn write(&self, given: Bound<'_, PyAny>, sample: &mut Sample<'_>) -> PyResult<()> {
        let (named, values) = split(self.gives, &given)?;
        drop(given);
        let known = |name: &String| self.fields.iter().position(|field| field.name() == name);
        let places: Option<Vec<usize>> = values
            .iter()
            .enumerate()
            .map(|(i, (name, _))| name.as_ref().map_or(Some(i), known))
            .collect();
        let same = named == self.named && values.len() == self.fields.len();
        let Some(places) = places.filter(|_| same) else {
            let now = values.iter().map(|(name, _)| name.as_deref());
            let first = self.fields.iter().map(|field| self.named.then(|| field.name()));
            return Err(PyValueError::new_err(format!(
                "{} {}, but {} for the first sample; return the same fields each time",
                self.gives,
                describe(now),
                describe(first),
            )));
        };
        for (at, (_, value)) in places.into_iter().zip(values) {
            value::write(&self.fields[at], self.named, at, value, sample)?;
        }
        Ok(())
    }
}

/// A sample in words: `a dict of x, y`, or `a tuple of 2`.
pub(crate) fn describe<'a>(names: impl ExactSizeIterator<Item = Option<&'a str>>) -> String {
    let count = names.len();
    let names: Vec<&str> = names.flatten().collect();
    match (names.is_empty(), count) {
        (false, _) => format!("a dict of {}", names.join(", ")),
        (true, 1) => "one value".into(),
        (true, _) => format!("a tuple of {count}"),
    }
}

/// The fields of a sample: of a dict by name, of a tuple by place, else the one.
pub(crate) type Values<'py> = (bool, Vec<(Option<String>, Bound<'py, PyAny>)>);

pub(crate) fn split<'py>(gives: &str, given: &Bound<'py, PyAny>) -> PyResult<Values<'py>> {
    const ADVICE: &str = "return an array, a tuple of arrays or a dict of arrays";
    let wrong = |what: &str| PyTypeError::new_err(format!("{gives} {what}; {ADVICE}"));
    if given.is_none() {
        return Err(wrong("None"));
    }
    if let Ok(dict) = given.cast::<PyDict>() {
        let mut values = Vec::with_capacity(dict.len());
        for (name, value) in dict {
            let Ok(text) = name.extract::<String>() else {
                let repr = name.repr()?;
                return Err(PyTypeError::new_err(format!(
                    "{gives} a dict with the key {repr}; names of fields are str"
                )));
            };
            values.push((Some(text), value));
        }
        return if values.is_empty() { Err(wrong("an empty dict")) } else { Ok((true, values)) };
    }
    if let Ok(tuple) = given.cast::<PyTuple>() {
        if tuple.is_empty() {
            return Err(wrong("an empty tuple"));
        }
        return Ok((false, tuple.iter().map(|value| (None, value)).collect()));
    }
    Ok((false, vec![(None, given.clone())]))
}
