//! Opening tables: Parquet, Arrow, CSV, JSON lines.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use feedline::sources::Watch;
use feedline::tables::{
    CsvOptions, JsonOptions, NullValue, RowOptions, StreamPointer, Table, TableColumns,
    TableOptions, arrow, csv, from_stream, jsonl, parquet,
};
use feedline::{Counter, Ragged};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyCapsule, PyCapsuleMethods, PyDict, PyFloat, PyInt, PyList, PyString,
};

use crate::encoded::watched;
use crate::errors;
use crate::settings::SettingsDict;
use crate::source::Source;
use crate::value::Contiguous;

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
    let counter = |what: &str| progress.then(|| Counter::new(what));
    match format {
        "parquet" => {
            let options = table_options(format, settings)?;
            let open = |watch: Watch<'_>| parquet(&paths, &options, watch);
            Ok(of_table(watched(py, counter("files"), open)?))
        }
        "arrow" => {
            let options = table_options(format, settings)?;
            let open = |watch: Watch<'_>| arrow(&paths, &options, watch);
            Ok(of_table(watched(py, counter("messages"), open)?))
        }
        "csv" => {
            let options = csv_options(format, settings)?;
            let open = |watch: Watch<'_>| csv(&paths, &options, watch);
            Ok(Source::of_table(watched(py, counter("bytes"), open)?, None, None))
        }
        "jsonl" => {
            let options = json_options(format, settings)?;
            let open = |watch: Watch<'_>| jsonl(&paths, &options, watch);
            Ok(Source::of_table(watched(py, counter("bytes"), open)?, None, None))
        }
        other => Err(PyValueError::new_err(format!("there is no table format {other:?}"))),
    }
}

/// A table of what an object with `__arrow_c_stream__` gives; `name` is what messages call it. With `rows`, an array of uint64, those of
/// its rows.
#[pyfunction]
#[pyo3(signature = (name, stream, settings: "dict[str, object]", rows = None))]
pub(crate) fn open_stream(
    py: Python<'_>,
    name: &str,
    stream: &Bound<'_, PyAny>,
    settings: &Bound<'_, PyDict>,
    rows: Option<Bound<'_, PyAny>>,
) -> PyResult<Source> {
    let options = table_options("arrow", settings)?;
    let rows = rows.map(|rows| whole_numbers(&rows)).transpose()?;
    let capsule = stream.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    let stream = StreamPointer(pointer.as_ptr().cast());
    // SAFETY: a capsule of this name holds a stream of Arrow's C interface, and this one was made for us.
    let table = py.detach(move || unsafe { from_stream(name, stream, &options) });
    let table = table.and_then(|table| match rows {
        Some(rows) => table.picking(rows),
        None => Ok(table),
    });
    Ok(of_table(table.map_err(|error| errors::source_error(&error))?))
}

/// The numbers of an array of uint64.
fn whole_numbers(array: &Bound<'_, PyAny>) -> PyResult<Arc<[u64]>> {
    let listed = Contiguous::of(array)?;
    let (listed, []) = listed.bytes().as_chunks::<{ size_of::<u64>() }>() else {
        return Err(PyTypeError::new_err("rows must be an array of uint64"));
    };
    Ok(listed.iter().map(|row| u64::from_ne_bytes(*row)).collect())
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
    let options = TableOptions {
        columns: settings.get_if("columns")?,
        nulls: null_values(&settings.get("nulls")?)?,
        null_flags: settings.get("null_flags")?,
        ragged: ragged_rule(&settings)?,
        buffer: settings.get("buffer")?,
        shuffle_window: settings.get_if("shuffle_window")?,
        image_root: settings.get_if("image_root")?,
    };
    settings.finish()?;
    Ok(options)
}

fn csv_options(of: &str, settings: &Bound<'_, PyDict>) -> PyResult<CsvOptions> {
    let settings = SettingsDict::new(of, settings);
    let options = CsvOptions {
        columns: settings.get_if("columns")?,
        types: settings.get("types")?,
        names: settings.get_if("names")?,
        delimiter: settings.get("delimiter")?,
        quote: settings.get_if("quote")?,
        nulls: null_values(&settings.get("nulls")?)?,
        null_flags: settings.get("null_flags")?,
        rows: row_options(&settings)?,
    };
    settings.finish()?;
    Ok(options)
}

fn json_options(of: &str, settings: &Bound<'_, PyDict>) -> PyResult<JsonOptions> {
    let settings = SettingsDict::new(of, settings);
    let options = JsonOptions {
        fields: settings.get_if("fields")?,
        types: settings.get("types")?,
        nulls: null_values(&settings.get("nulls")?)?,
        null_flags: settings.get("null_flags")?,
        ragged: ragged_rule(&settings)?,
        rows: row_options(&settings)?,
    };
    settings.finish()?;
    Ok(options)
}

fn row_options(settings: &SettingsDict<'_, '_>) -> PyResult<RowOptions> {
    let cache_dir = settings.get_if("cache_dir")?;
    Ok(RowOptions {
        cache_dir,
        max_bytes: settings.get("max_bytes")?,
        held: settings.get("buffer")?,
    })
}

fn ragged_rule(settings: &SettingsDict<'_, '_>) -> PyResult<Ragged> {
    let fill: f64 = settings.get("fill")?;
    let packs = settings.choice("ragged", &[("longest", false), ("packed", true)])?;
    Ok(if packs { Ragged::Packed } else { Ragged::PadToLongest { fill } })
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
