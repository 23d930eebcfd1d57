//! Arrow data in memory, or in files that somebody has mapped.
//!
//! Nothing is copied when such a table is opened. If its numbers fit into the buffer they are laid out row by row as they are first
//! wanted, since that is what makes shuffled rows fast; otherwise each is read where it is. Texts, bytes and lists always are, unless
//! they are in [mapped files](crate::mapped_files) that fit into the buffer: these are read as they are wanted, like any file.

use std::path::Path;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;

use crate::TableError;
use crate::chunk::{RecordForm, TableChunk};
use crate::chunk_cache::ChunkSource;
use crate::columns::{Placement, TableColumn, TableOptions, check_width, chosen};
use crate::mapped_files::MappedFiles;
use crate::named_files::NamedFiles;
use crate::parquet::narrowed;
use crate::table::{Table, TableParts};

/// Rows of a chunk, where batches are larger.
const CHUNK_ROWS: usize = 128 << 10;

struct Batches {
    /// What it is called in messages.
    name: String,
    schema: SchemaRef,
    /// Of all columns, as they were given.
    batches: Arc<[RecordBatch]>,
    /// Of the columns that are read.
    chunks: Vec<MemoryChunk>,
    /// The files that they are in.
    mapped: Option<Arc<MappedFiles>>,
    /// Whether rows are read out of those, and not where they are mapped.
    by_reading: bool,
    named_files: Option<Arc<NamedFiles>>,
    columns: Arc<[TableColumn]>,
    placement: Placement,
    /// Set where numbers are laid out row by row.
    form: Option<RecordForm>,
    options: TableOptions,
}

/// Rows that are decoded together.
struct MemoryChunk {
    rows: RecordBatch,
    /// The number of the first.
    start: u64,
    /// Which files these are in.
    files: Vec<usize>,
}

/// Batches of one schema as a table; `name` is what messages call it.
pub fn in_memory(
    name: &str,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    options: &TableOptions,
) -> Result<Table, TableError> {
    let mapped = MappedFiles::of(&batches)?;
    table(name, schema, batches.into(), mapped, options)
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
    mapped: Option<Arc<MappedFiles>>,
    options: &TableOptions,
) -> Result<Table, TableError> {
    let (columns, placement) = chosen(name, &schema, options)?;
    check_width(Path::new(name), &columns, isize::MAX as u64)?;
    let columns: Arc<[TableColumn]> = columns.into();
    let form = RecordForm::of(&columns);
    let read = batches.iter().map(|batch| batch.project(&placement.roots));
    let read =
        read.collect::<Result<Vec<_>, _>>().map_err(|error| TableError::Row(error.to_string()))?;
    let bytes = |mapped: &Arc<MappedFiles>| -> u64 {
        read.iter().map(|batch| mapped.bytes(batch.columns())).sum()
    };
    let by_reading = mapped.as_ref().is_some_and(|mapped| bytes(mapped) <= options.buffer);
    // Of a batch that is read everything is, so it is not cut.
    let most = if by_reading { usize::MAX } else { CHUNK_ROWS };
    let (mut chunks, mut start) = (Vec::with_capacity(read.len()), 0u64);
    for batch in read {
        let files = mapped.as_ref().map_or(Vec::new(), |mapped| mapped.numbers(batch.columns()));
        let mut first = 0;
        while first < batch.num_rows() {
            let rows = batch.slice(first, most.min(batch.num_rows() - first));
            let (at, count) = (start, rows.num_rows());
            chunks.push(MemoryChunk { rows, start: at, files: files.clone() });
            (first, start) = (first + count, start + count as u64);
        }
    }
    let chunk_rows: Vec<u64> = chunks.iter().map(|chunk| chunk.rows.num_rows() as u64).collect();
    let rows: u64 = chunk_rows.iter().sum();
    let expected_bytes = rows.saturating_mul(form.stride as u64);
    let form = (expected_bytes <= options.buffer).then_some(form);
    let parts = TableParts {
        columns: Arc::clone(&columns),
        expected_bytes,
        random_access: true,
        chunk_rows,
    };
    let named_files = NamedFiles::of(&columns, None, options);
    let source = Batches {
        name: name.to_string(),
        schema,
        batches,
        chunks,
        mapped,
        by_reading,
        named_files,
        columns,
        placement,
        form,
        options: options.clone(),
    };
    Ok(Table::new(parts, source, options))
}

impl ChunkSource for Batches {
    fn decode(&self, chunk: usize) -> Result<TableChunk, TableError> {
        let read;
        let rows = match &self.mapped {
            Some(mapped) if self.by_reading => {
                read = mapped.read(&self.chunks[chunk].rows)?;
                &read
            }
            _ => &self.chunks[chunk].rows,
        };
        let mut chunk = TableChunk::new(rows, &self.columns, &self.placement, self.form.as_ref())?;
        if !self.by_reading {
            chunk.shares_memory();
        }
        chunk.name_files(self.named_files.as_ref());
        Ok(chunk)
    }

    fn is_watched(&self) -> bool {
        self.mapped.is_some() && !self.by_reading
    }

    fn check(&self, chunks: &[usize]) -> Result<(), TableError> {
        let Some(mapped) = self.mapped.as_ref().filter(|_| !self.by_reading) else { return Ok(()) };
        let files = chunks.iter().flat_map(|chunk| &self.chunks[*chunk].files);
        let mut files: Vec<usize> = files.copied().collect();
        files.sort_unstable();
        files.dedup();
        mapped.check(&files)
    }

    fn origin(&self, chunk: usize, row: u64) -> String {
        format!("{}[{}]", self.name, self.chunks[chunk].start + row)
    }

    fn narrowed(&self, columns: &[usize]) -> Option<Table> {
        let options = narrowed(&self.options, &self.columns, columns);
        let (schema, batches) = (Arc::clone(&self.schema), Arc::clone(&self.batches));
        table(&self.name, schema, batches, self.mapped.clone(), &options).ok()
    }
}
