//! Arrow data in memory, or in files that somebody has mapped.
//!
//! Nothing is copied when such a table is opened. If its numbers fit into the buffer they are laid out row by row as they are first
//! wanted, since that is what makes shuffled rows fast; otherwise each is read where it is. Texts, bytes and lists always are.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;

use crate::TableError;
use crate::chunk::{RecordForm, TableChunk};
use crate::chunk_cache::ChunkSource;
use crate::columns::{Placement, TableColumn, TableOptions, chosen};
use crate::parquet::narrowed;
use crate::table::{Table, TableParts};

/// Rows of a chunk, where batches are larger.
const CHUNK_ROWS: usize = 128 << 10;

struct Batches {
    /// What it is called in messages.
    name: String,
    schema: SchemaRef,
    /// Of all columns.
    batches: Arc<[RecordBatch]>,
    starts: Vec<u64>,
    columns: Arc<[TableColumn]>,
    placement: Placement,
    /// Set where numbers are laid out row by row.
    form: Option<RecordForm>,
    options: TableOptions,
}

/// Batches of one schema as a table; `name` is what messages call it.
pub fn in_memory(
    name: &str,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    options: &TableOptions,
) -> Result<Table, TableError> {
    let mut cut = Vec::with_capacity(batches.len());
    for batch in batches {
        let mut first = 0;
        while first < batch.num_rows() {
            let rows = CHUNK_ROWS.min(batch.num_rows() - first);
            cut.push(batch.slice(first, rows));
            first += rows;
        }
    }
    table(name, schema, cut.into(), options)
}

/// Where a stream of Arrow's C interface is.
#[derive(Copy, Clone, Debug)]
pub struct StreamPointer(pub *mut FFI_ArrowArrayStream);

// SAFETY: streams may be used by any thread, one at a time; whoever passes one on keeps to that.
unsafe impl Send for StreamPointer {}

/// The batches of a stream of Arrow's C interface. Nothing of them is copied.
///
/// # Safety
///
/// `stream` is a valid stream that nobody else uses; it is taken, and an empty one is left.
pub unsafe fn from_stream(
    name: &str,
    stream: StreamPointer,
    options: &TableOptions,
) -> Result<Table, TableError> {
    let damaged = |error: &dyn std::fmt::Display| TableError::Row(format!("{name}: {error}"));
    // SAFETY: the caller's.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.0) }.map_err(|e| damaged(&e))?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|e| damaged(&e))?;
    in_memory(name, schema, batches, options)
}

fn table(
    name: &str,
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
    options: &TableOptions,
) -> Result<Table, TableError> {
    let (columns, placement) = chosen(name, &schema, options)?;
    let columns: Arc<[TableColumn]> = columns.into();
    let form = RecordForm::of(&columns);
    let chunk_rows: Vec<u64> = batches.iter().map(|batch| batch.num_rows() as u64).collect();
    let rows: u64 = chunk_rows.iter().sum();
    let expected_bytes = rows.saturating_mul(form.stride as u64);
    let form = (expected_bytes <= options.buffer).then_some(form);
    let starts = chunk_rows.iter().scan(0, |next, rows| {
        let start = *next;
        *next += rows;
        Some(start)
    });
    let parts = TableParts {
        columns: Arc::clone(&columns),
        expected_bytes,
        random_access: true,
        chunk_rows: chunk_rows.clone(),
    };
    let starts = starts.collect();
    let (name, kept) = (name.to_string(), options.clone());
    let source = Batches { name, schema, batches, starts, columns, placement, form, options: kept };
    Ok(Table::new(parts, source, options))
}

impl ChunkSource for Batches {
    fn decode(&self, chunk: usize) -> Result<TableChunk, TableError> {
        let batch = &self.batches[chunk];
        let roots = batch
            .project(&self.placement.roots)
            .map_err(|error| TableError::Row(error.to_string()))?;
        let mut chunk =
            TableChunk::new(&roots, &self.columns, &self.placement, self.form.as_ref())?;
        chunk.shares_memory();
        Ok(chunk)
    }

    fn origin(&self, chunk: usize, row: u64) -> String {
        format!("{}[{}]", self.name, self.starts[chunk] + row)
    }

    fn narrowed(&self, columns: &[usize]) -> Option<Table> {
        let options = narrowed(&self.options, &self.columns, columns);
        table(&self.name, Arc::clone(&self.schema), Arc::clone(&self.batches), &options).ok()
    }
}
