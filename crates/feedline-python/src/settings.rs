//! What Python passes by name, in a dict. Each entry is asked for and none is left over: a misspelt name,
//! or one that only one side knows, is an error and not a default.

use std::cell::RefCell;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// The entries of a dict, and which of them were asked for.
pub(crate) struct SettingsDict<'a, 'py> {
    /// Whose settings they are, for messages.
    of: &'a str,
    entries: &'a Bound<'py, PyDict>,
    asked: RefCell<Vec<String>>,
}

impl<'a, 'py> SettingsDict<'a, 'py> {
    pub(crate) fn new(of: &'a str, entries: &'a Bound<'py, PyDict>) -> SettingsDict<'a, 'py> {
        SettingsDict { of, entries, asked: RefCell::default() }
    }

    /// An entry that must be there, `None` or not.
    pub(crate) fn get<T>(&self, name: &str) -> PyResult<T>
    where
        T: for<'b> FromPyObject<'b, 'py>,
    {
        match self.entry(name)? {
            Some(value) => extract(name, &value),
            None => Err(PyTypeError::new_err(format!("{} needs the setting {name:?}", self.of))),
        }
    }

    /// An entry that may be missing or `None`.
    pub(crate) fn get_if<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'b> FromPyObject<'b, 'py>,
    {
        let value = self.entry(name)?.filter(|value| !value.is_none());
        value.map(|value| extract(name, &value)).transpose()
    }

    /// Many numbers, as the bytes of an array of them; few may come as a list. Missing or `None` is
    /// `None`.
    pub(crate) fn numbers_if<T, const N: usize>(
        &self,
        name: &str,
        read: fn([u8; N]) -> T,
    ) -> PyResult<Option<Vec<T>>>
    where
        Vec<T>: for<'b> FromPyObject<'b, 'py>,
    {
        let value = self.entry(name)?.filter(|value| !value.is_none());
        let numbers = |value: Bound<'py, PyAny>| match value.cast::<PyBytes>() {
            Ok(bytes) => Ok(unpacked(bytes.as_bytes(), read)),
            Err(_) => extract(name, &value),
        };
        value.map(numbers).transpose()
    }

    /// What one of several words stands for.
    pub(crate) fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> PyResult<T> {
        let given: String = self.get(name)?;
        choice(name, &given, words)
    }

    /// The same where the word may be missing or `None`.
    pub(crate) fn choice_if<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
    ) -> PyResult<Option<T>> {
        let given: Option<String> = self.get_if(name)?;
        given.map(|given| choice(name, &given, words)).transpose()
    }

    /// Refuses entries that nobody has asked for.
    pub(crate) fn finish(self) -> PyResult<()> {
        let asked = self.asked.into_inner();
        for name in self.entries.keys() {
            let known = name.extract::<String>().is_ok_and(|name| asked.contains(&name));
            if !known {
                return Err(PyTypeError::new_err(format!(
                    "{} has no setting {}; there are {}",
                    self.of,
                    name.repr()?,
                    asked.join(", "),
                )));
            }
        }
        Ok(())
    }

    fn entry(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.asked.borrow_mut().push(name.to_string());
        self.entries.get_item(name)
    }
}

/// The numbers of an array, of its bytes.
pub(crate) fn unpacked<T, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|number| read(*number)).collect()
}

/// What one of several words stands for.
pub(crate) fn choice<T: Copy>(name: &str, given: &str, words: &[(&str, T)]) -> PyResult<T> {
    let found = words.iter().find(|(word, _)| *word == given).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        PyValueError::new_err(format!("{name} must be one of {}, got {given:?}", words.join(", ")))
    })
}

fn extract<'py, T>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'b> FromPyObject<'b, 'py>,
{
    match value.extract() {
        Ok(value) => Ok(value),
        Err(error) => {
            let error: PyErr = error.into();
            let error = error.value(value.py()).to_string();
            Err(PyValueError::new_err(format!("{name}: {error}, got {value:?}")))
        }
    }
}
