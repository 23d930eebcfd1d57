//! A native dataset as Python passes it around: what `feedline.Pipeline` is made of.

use std::path::PathBuf;
use std::sync::Arc;

use feedline::sources::cache::{Cached, DiskStore, MemoryStore};
use feedline::sources::{Concat, Select, Zip};
use feedline::{DType, Dataset, Form, Ragged, plan};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use crate::call::Functions;
use crate::errors;
use crate::function::{Inferred, PyMap};
use crate::in_memory::InMemory;
use crate::loader::Parts;

/// A native dataset.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct Source {
    dataset: Arc<dyn Dataset>,
    /// Set where the dataset is a mixture: its parts and their weights.
    parts: Option<Parts>,
    /// What the dataset calls.
    functions: Functions,
}

impl Source {
    /// A dataset that calls no Python function.
    fn of(dataset: impl Dataset) -> Source {
        Source { dataset: Arc::new(dataset), parts: None, functions: Functions::default() }
    }

    /// A dataset made of this one.
    fn then(&self, py: Python<'_>, dataset: impl Dataset) -> Source {
        Source { functions: self.functions.clone_ref(py), ..Source::of(dataset) }
    }

    /// A dataset made of several.
    fn joined(sources: &[Bound<'_, Source>], dataset: impl Dataset) -> Source {
        let functions = sources.first().map(|first| {
            Functions::union(first.py(), sources.iter().map(|source| &source.get().functions))
        });
        Source { functions: functions.unwrap_or_default(), ..Source::of(dataset) }
    }

    pub(crate) fn dataset(&self) -> Arc<dyn Dataset> {
        Arc::clone(&self.dataset)
    }

    pub(crate) fn parts(&self) -> Option<&[plan::Part]> {
        self.parts.as_deref()
    }

    pub(crate) fn functions(&self, py: Python<'_>) -> Functions {
        self.functions.clone_ref(py)
    }
}

#[pymethods]
impl Source {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.functions.traverse(&visit)
    }

    /// An array in memory: its owner, its first element's address, shape, strides in bytes and dtype.
    #[staticmethod]
    fn memory(
        name: String,
        owner: Py<PyAny>,
        address: usize,
        shape: Vec<usize>,
        strides: Vec<isize>,
        dtype: &str,
    ) -> PyResult<Source> {
        let dtype = DType::from_name(dtype).ok_or_else(|| unknown_dtype(&name, dtype))?;
        if shape.is_empty() || shape.len() != strides.len() {
            return Err(PyValueError::new_err("an array needs at least one axis, the sample's"));
        }
        // SAFETY: the Python side passes what `__array_interface__` or a tensor says of itself, and the
        // object itself as the owner.
        Ok(Source::of(unsafe { InMemory::new(name, owner, address, &shape, &strides, dtype) }))
    }

    /// One packed `.npy` file; its first axis is the sample's.
    #[staticmethod]
    fn npy_packed(name: &str, path: PathBuf) -> PyResult<Source> {
        feedline::sources::npy::Packed::open(&path, name)
            .map(Source::of)
            .map_err(|e| errors::source_error(&e))
    }

    /// A folder with one `.npy` file per sample.
    #[staticmethod]
    fn npy_folder(name: &str, path: PathBuf) -> PyResult<Source> {
        feedline::sources::npy::Folder::open(&path, name)
            .map(Source::of)
            .map_err(|e| errors::source_error(&e))
    }

    /// The fields of equally long sources side by side; without names they are numbered anew.
    #[staticmethod]
    fn zip(sources: Vec<Bound<'_, Source>>, named: bool) -> PyResult<Source> {
        let parts = sources.iter().map(|source| source.get().dataset()).collect();
        let zip = if named { Zip::new(parts) } else { Zip::numbered(parts) };
        zip.map(|zip| Source::joined(&sources, zip)).map_err(|e| errors::source_error(&e))
    }

    /// The samples of sources with the same fields, one source after the other.
    #[staticmethod]
    fn concat(sources: Vec<Bound<'_, Source>>) -> PyResult<Source> {
        let parts = sources.iter().map(|source| source.get().dataset()).collect();
        let concat = Concat::new(parts);
        concat.map(|concat| Source::joined(&sources, concat)).map_err(|e| errors::source_error(&e))
    }

    /// The listed samples.
    fn select(&self, py: Python<'_>, indices: Vec<u64>) -> PyResult<Source> {
        let select = Select::new(self.dataset(), indices);
        select.map(|select| self.then(py, select)).map_err(|e| errors::source_error(&e))
    }

    /// The same samples, drawn in proportion to weights from parts of these lengths.
    fn mixture(&self, py: Python<'_>, lengths: Vec<u64>, weights: Vec<f64>) -> Source {
        let part = |(len, weight)| plan::Part { len, weight };
        let parts = lengths.into_iter().zip(weights).map(part).collect();
        Source { parts: Some(parts), ..self.then(py, self.dataset()) }
    }

    /// Whether it is a mixture: then the loader's order is decided by weights.
    #[getter]
    fn is_mixture(&self) -> bool {
        self.parts.is_some()
    }

    /// Samples after a Python function. Also returns whether the function makes named fields.
    #[pyo3(signature = (function, takes_dict, ragged: "dict[str, tuple[str, list[int] | None, float]]"))]
    fn map(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        takes_dict: bool,
        ragged: &Bound<'_, PyDict>,
    ) -> PyResult<(Source, bool)> {
        let mut functions = self.functions.clone_ref(py);
        let inner = self.dataset();
        let Inferred { map, named } =
            PyMap::infer(py, inner, function, &mut functions, takes_dict, ragged)?;
        Ok((Source { dataset: Arc::new(map), parts: self.parts.clone(), functions }, named))
    }

    /// Keeps finished samples in memory.
    fn cache_ram(&self, py: Python<'_>, limit: u64) -> Source {
        self.then(py, Cached::new(self.dataset(), MemoryStore::new(limit)))
    }

    /// Keeps finished samples in a folder. `recipe` says what made them.
    fn cache_disk(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        recipe: &str,
        limit: u64,
    ) -> PyResult<Source> {
        let dataset = self.dataset();
        // Opening may count all files there, or wait for another process that does.
        let store = py.detach(|| DiskStore::open(&folder, &*dataset, recipe, limit));
        let store = store.map_err(|e| errors::source_error(&e))?;
        Ok(self.then(py, Cached::new(dataset, store)))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.dataset.len()).unwrap_or(usize::MAX)
    }

    /// Name, dtype, shape and rule of each field; `None` in a shape is an axis that varies.
    fn fields(&self) -> Vec<(String, &'static str, Vec<Option<usize>>, &'static str)> {
        let describe = |field: &feedline::Field| {
            let (shape, rule) = match field.form() {
                Form::Fixed { shape } => (shape.iter().map(|axis| Some(*axis)).collect(), "fixed"),
                Form::Ragged { shape, rule } => (
                    shape.clone(),
                    match rule {
                        Ragged::PadToLongest { .. } => "longest",
                        Ragged::PadTo { .. } => "padded",
                        _ => "packed",
                    },
                ),
                Form::Bytes { text: true } => (vec![None], "text"),
                _ => (vec![None], "bytes"),
            };
            (field.name().to_string(), field.dtype().name(), shape, rule)
        };
        self.dataset.fields().iter().map(describe).collect()
    }

    /// Where a sample comes from, if the source can tell.
    fn origin(&self, index: u64) -> Option<String> {
        self.dataset.origin(feedline::SampleIndex(index))
    }
}

fn unknown_dtype(array: &str, dtype: &str) -> PyErr {
    let known: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    PyTypeError::new_err(format!(
        "array {array} has dtype {dtype}, which cannot be loaded; convert it to one of {}",
        known.join(", ")
    ))
}
