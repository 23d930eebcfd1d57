//! Opening tables: Parquet, Arrow, CSV, JSON lines.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use feedline::tables::{NullValue, Table, TableColumns, TableError, TableOptions, parquet};
use feedline::{Counter, Ragged};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::errors;
use crate::settings::SettingsDict;
use crate::source::Source;

/// A table of files: `format` is what they are.
#[pyfunction]
#[pyo3(signature = (format, paths, settings: "dict[str, object]", progress))]
pub(crate) fn open_table(
    py: Python<'_>,
    format: &str,
    paths: Vec<PathBuf>,
    settings: &Bound<'_, PyDict>,
    progress: bool,
) -> PyResult<Source> {
    match format {
        "parquet" => {
            let options = table_options(format, settings)?;
            let open =
                |watch: &mut dyn FnMut(u64) -> ControlFlow<()>| parquet(&paths, &options, watch);
            Ok(of_table(watched(py, progress.then(|| Counter::new("files")), open)?))
        }
        other => Err(PyValueError::new_err(format!("there is no table format {other:?}"))),
    }
}

/// A table that can be decoded by the image path, where it has columns of bytes.
fn of_table(table: Table) -> Source {
    let table = Arc::new(table);
    let windows = table.windows().map(|(rows, window)| (Arc::from(rows), window));
    match TableColumns::of(&table) {
        Some(columns) => Source::of_table(Arc::clone(&table), Some(Arc::new(columns)), windows),
        None => Source::of_table(table, None, windows),
    }
}

fn table_options(of: &str, settings: &Bound<'_, PyDict>) -> PyResult<TableOptions> {
    let settings = SettingsDict::new(of, settings);
    let fill: f64 = settings.get("fill")?;
    let rules = [("longest", Ragged::PadToLongest { fill }), ("packed", Ragged::Packed)];
    let ragged: String = settings.get("ragged")?;
    let ragged = rules.into_iter().find(|(word, _)| *word == ragged).map(|(_, rule)| rule);
    let options = TableOptions {
        columns: settings.get_if("columns")?,
        nulls: null_values(&settings.get("nulls")?)?,
        null_flags: settings.get("null_flags")?,
        ragged: ragged.ok_or_else(|| PyValueError::new_err("ragged must be longest or packed"))?,
        buffer: settings.get("buffer")?,
        shuffle_window: settings.get_if("shuffle_window")?,
    };
    settings.finish()?;
    Ok(options)
}

/// What stands for nulls, by column.
pub(crate) fn null_values(given: &Bound<'_, PyDict>) -> PyResult<HashMap<String, NullValue>> {
    given.iter().map(|(name, value)| Ok((name.extract()?, null_value(&value)?))).collect()
}

fn null_value(value: &Bound<'_, PyAny>) -> PyResult<NullValue> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(NullValue::Integer(i128::from(flag.is_true())));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(NullValue::Integer(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(NullValue::Number(value.extract()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(NullValue::Bytes(text.to_string().into_bytes()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(NullValue::Bytes(bytes.as_bytes().to_vec()));
    }
    if value.cast::<PyList>().is_ok_and(|list| list.is_empty()) {
        return Ok(NullValue::Empty);
    }
    Err(PyTypeError::new_err(format!(
        "nulls are filled with numbers, text, bytes or [], got {value:?}"
    )))
}

/// Opens a table without the GIL, open to Ctrl-C. What is counted meanwhile is shown by `counter`.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    mut counter: Option<Counter>,
    open: impl FnOnce(&mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<T, TableError> + Send,
) -> PyResult<T> {
    let mut interrupt = None;
    let mut watch = |count| {
        if let Some(counter) = &mut counter {
            counter.show(count);
        }
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(signal) => {
                interrupt = Some(signal);
                ControlFlow::Break(())
            }
        }
    };
    let opened = py.detach(|| open(&mut watch));
    if let Some(interrupt) = interrupt {
        return Err(interrupt);
    }
    opened.map_err(|error| errors::source_error(&error))
}
