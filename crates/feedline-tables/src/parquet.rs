//! Parquet files.
//!
//! Footers are read when a table is opened, and nothing else; of an object its last 64 KiB at once. What is wanted of a row group of
//! an object are ranges, one for each column or for several that are close, and these are fetched together. What is decoded together, a *chunk*, is a row group or, of large
//! ones, a stretch of it: the pages before it are passed over without being decompressed. Texts and bytes are decoded as
//! views, which share a dictionary's memory, so that a dictionary of long texts is in memory once, however often its
//! entries come.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{DataType, Field as ArrowField, FieldRef, Schema};
use feedline_core::DType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, Type};
use parquet::file::metadata::ColumnChunkMetaData;

use feedline_sources::Watch;

use crate::TableError;
use crate::chunk::{RecordForm, TableChunk};
use crate::chunk_cache::ChunkSource;
use crate::columns::{Placement, TableColumn, TableOptions, again, check_width, chosen};
use crate::named_files::NamedFiles;
use crate::open_file::OpenFile;
use crate::table::{Table, TableParts};

/// Rows of a chunk, where row groups are larger. So few that all workers have some to decode, and so many that beginning
/// in the middle of a row group costs little.
const CHUNK_ROWS: u64 = 128 << 10;
/// A chunk takes no more than this part of the buffer.
const SHARE: u64 = 8;
/// What is fetched of an object's end: most footers are shorter.
const END: u64 = 64 << 10;

/// One file of a table.
struct ParquetFile {
    file: OpenFile,
    metadata: ArrowReaderMetadata,
    placement: Placement,
    projection: ProjectionMask,
    first_row: u64,
    named_files: Option<Arc<NamedFiles>>,
    /// Of an object, the row group that was fetched last, where it is read in several chunks.
    at_hand: Mutex<Option<(usize, OpenFile)>>,
}

/// Some rows of a row group.
#[derive(Copy, Clone)]
struct ChunkPlace {
    file: usize,
    row_group: usize,
    /// The first row within the row group.
    first: u64,
    rows: u64,
    /// The first row within the file.
    row: u64,
}

/// The files of a table.
struct ParquetFiles {
    files: Vec<ParquetFile>,
    chunks: Vec<ChunkPlace>,
    columns: Arc<[TableColumn]>,
    form: RecordForm,
    paths: Vec<PathBuf>,
    options: TableOptions,
}

/// Opens Parquet files with one schema as a table, one file after the other.
pub fn parquet(
    paths: &[PathBuf],
    options: &TableOptions,
    watch: Watch<'_>,
) -> Result<Table, TableError> {
    let first_path = paths.first().ok_or(TableError::NoFiles)?;
    let mut files: Vec<ParquetFile> = Vec::with_capacity(paths.len());
    let mut columns: Arc<[TableColumn]> = Arc::new([]);
    let (mut chunks, mut expected, mut row) = (Vec::new(), 0u64, 0u64);
    for (number, path) in paths.iter().enumerate() {
        if watch(number as u64).is_break() {
            return Err(TableError::Interrupted);
        }
        let file = OpenFile::open(path)?;
        let metadata = metadata(&file)?;
        let schema = metadata.schema();
        let placement = if number == 0 {
            let (of_first, placement) = chosen(&format!("`{}`", path.display()), schema, options)?;
            check_width(path, &of_first, options.buffer)?;
            columns = of_first.into();
            placement
        } else {
            again(path, schema, &columns, first_path)?
        };
        let metadata = with_views(path, metadata, &placement)?;
        let projection =
            ProjectionMask::roots(metadata.parquet_schema(), placement.roots.iter().copied());
        let named_files = NamedFiles::of(&columns, Some(path), options);
        let (first_row, at_hand) = (row, Mutex::default());
        let file =
            ParquetFile { file, metadata, placement, projection, first_row, named_files, at_hand };
        let form = RecordForm::of(&columns);
        expected = expected.saturating_add(cut(number, &file, &form, options, &mut chunks)?);
        row = chunks.last().map_or(row, |last: &ChunkPlace| {
            if last.file == number { file.first_row + last.row + last.rows } else { row }
        });
        files.push(file);
    }
    let chunk_rows = chunks.iter().map(|chunk| chunk.rows).collect();
    let parts = TableParts {
        columns: Arc::clone(&columns),
        chunk_rows,
        expected_bytes: expected,
        random_access: false,
    };
    let form = RecordForm::of(&columns);
    let (paths, kept) = (paths.to_vec(), options.clone());
    Ok(Table::new(
        parts,
        ParquetFiles { files, chunks, columns, form, paths, options: kept },
        options,
    ))
}

/// What a file's footer says.
fn metadata(file: &OpenFile) -> Result<ArrowReaderMetadata, TableError> {
    let length = file.stamp().len;
    let end = match file.is_far() {
        true => &file.fetched(std::slice::from_ref(&(length.saturating_sub(END)..length)))?,
        false => file,
    };
    end.reading(|file| {
        guarded(file.path(), || ArrowReaderMetadata::load(file, ArrowReaderOptions::new()))
    })
}

impl ParquetFile {
    /// Where the wanted columns of a row group are.
    fn ranges(&self, row_group: usize) -> Vec<Range<u64>> {
        let columns = self.metadata.metadata().row_group(row_group).columns().iter().enumerate();
        let wanted = columns.filter(|(leaf, _)| self.projection.leaf_included(*leaf));
        wanted
            .map(|(_, column)| {
                let (start, len) = column.byte_range();
                start..start.saturating_add(len)
            })
            .collect()
    }

    /// The file as a chunk of it is read: of an object, with the row group at hand.
    fn at_hand(&self, place: &ChunkPlace, buffer: u64) -> Result<OpenFile, TableError> {
        if !self.file.is_far() {
            return Ok(self.file.clone());
        }
        let lock = || self.at_hand.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = lock().as_ref().filter(|(group, _)| *group == place.row_group) {
            return Ok(file.clone());
        }
        let ranges = self.ranges(place.row_group);
        let file = self.file.fetched(&ranges)?;
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let rows = self.metadata.metadata().row_group(place.row_group).num_rows();
        let in_chunks = u64::try_from(rows).is_ok_and(|rows| rows > place.rows);
        if in_chunks && bytes <= buffer / SHARE {
            *lock() = Some((place.row_group, file.clone()));
        }
        Ok(file)
    }
}

/// Cuts a file into chunks; returns what all of them take in memory.
fn cut(
    number: usize,
    file: &ParquetFile,
    form: &RecordForm,
    options: &TableOptions,
    chunks: &mut Vec<ChunkPlace>,
) -> Result<u64, TableError> {
    let damaged = |why: &str| TableError::Format {
        path: file.file.path().to_path_buf(),
        format: "Parquet",
        why: why.to_string(),
    };
    let schema = file.metadata.parquet_schema();
    let (mut total, mut row) = (0u64, 0u64);
    for (row_group, meta) in file.metadata.metadata().row_groups().iter().enumerate() {
        let rows = u64::try_from(meta.num_rows())
            .map_err(|_| damaged("a row group says that it has a negative number of rows"))?;
        let mut bytes = rows.saturating_mul(form.stride as u64);
        let mut repeated = false;
        for (leaf, column) in meta.columns().iter().enumerate() {
            if column.data_page_offset() < 0
                || column.compressed_size() < 0
                || column.dictionary_page_offset().is_some_and(|offset| offset < 0)
            {
                return Err(damaged("a column says that it begins or ends before the file does"));
            }
            if file.projection.leaf_included(leaf) {
                if let Compression::BROTLI(_) | Compression::LZO = column.compression() {
                    return Err(unread(file.file.path(), column.compression()));
                }
                bytes = bytes.saturating_add(decoded_bytes(column));
                repeated |= schema.column(leaf).max_rep_level() > 0;
            }
        }
        if rows == 0 {
            continue;
        }
        // Where rows have lists, a file need not say in which page a row is; then all pages before it would be decoded again.
        let wanted = if repeated { rows } else { rows.min(CHUNK_ROWS) };
        let share = (options.buffer / SHARE).max(1);
        let fitting = u128::from(share) * u128::from(rows) / u128::from(bytes.max(1));
        let per_chunk = wanted.min(u64::try_from(fitting).unwrap_or(u64::MAX)).max(1);
        if bytes / rows > options.buffer {
            return Err(TableError::TooLarge {
                path: file.file.path().to_path_buf(),
                rows: 1,
                needed: bytes / rows,
                buffer: options.buffer,
            });
        }
        if rows / per_chunk > MOST_CHUNKS {
            return Err(damaged(&format!("a row group says that it has {rows} rows")));
        }
        let mut first = 0;
        while first < rows {
            let part = per_chunk.min(rows - first);
            chunks.push(ChunkPlace {
                file: number,
                row_group,
                first,
                rows: part,
                row: row + first,
            });
            first += part;
        }
        total = total.saturating_add(bytes);
        row = row
            .checked_add(rows)
            .ok_or_else(|| damaged("it says that it has more than 2^64 rows"))?;
    }
    Ok(total)
}

/// What was compressed by what few people use, and is not built in.
fn unread(path: &Path, compression: Compression) -> TableError {
    let with = match compression {
        Compression::BROTLI(_) => "Brotli".to_string(),
        other => other.to_string(),
    };
    let advice =
        "write it again with zstd, e.g. by `pyarrow.parquet.write_table(…, compression=\"zstd\")`";
    TableError::Compressed { path: path.to_path_buf(), with, advice }
}

/// More chunks of one row group are none that anybody wrote.
const MOST_CHUNKS: u64 = 1 << 24;

/// What a column takes in memory while it is decoded and after.
fn decoded_bytes(column: &ColumnChunkMetaData) -> u64 {
    let values = u64::try_from(column.num_values()).unwrap_or(u64::MAX);
    let width = match column.column_type() {
        Type::BOOLEAN => return values / 8,
        // Part of the records, which were counted, unless they are in lists.
        Type::INT32 | Type::FLOAT if column.column_descr().max_rep_level() == 0 => return 0,
        Type::INT64 | Type::DOUBLE if column.column_descr().max_rep_level() == 0 => return 0,
        Type::INT32 | Type::FLOAT => DType::F32.size() as u64,
        Type::INT64 | Type::DOUBLE | Type::INT96 => DType::F64.size() as u64,
        Type::FIXED_LEN_BYTE_ARRAY => {
            u64::try_from(column.column_descr().type_length()).unwrap_or(0)
        }
        // A view of each, and all pages.
        Type::BYTE_ARRAY => {
            let pages = u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX);
            return values.saturating_mul(16).saturating_add(pages);
        }
    };
    values.saturating_mul(width)
}

/// The same file, its texts and bytes decoded as views.
fn with_views(
    path: &Path,
    metadata: ArrowReaderMetadata,
    placement: &Placement,
) -> Result<ArrowReaderMetadata, TableError> {
    let fields = metadata.schema().fields().iter().enumerate();
    let fields: Vec<FieldRef> = fields
        .map(|(i, field)| match placement.roots.contains(&i) {
            true => viewed(field),
            false => Arc::clone(field),
        })
        .collect();
    let schema = Schema::new_with_metadata(fields, metadata.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    let file = Arc::clone(metadata.metadata());
    guarded(path, || ArrowReaderMetadata::try_new(file, options))
}

fn viewed(field: &FieldRef) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => match &**values {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            _ => return Arc::clone(field),
        },
        DataType::Struct(children) => DataType::Struct(children.iter().map(viewed).collect()),
        _ => return Arc::clone(field),
    };
    Arc::new(ArrowField::clone(field).with_data_type(kind))
}

/// Runs what reads a file. It refuses most damaged ones by an error; those that make it panic are refused here.
fn guarded<T, E: std::fmt::Display>(
    path: &Path,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<T, TableError> {
    let damaged =
        |why: String| TableError::Format { path: path.to_path_buf(), format: "Parquet", why };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| damaged(error.to_string())),
        Err(_) => Err(damaged("its metadata contradict themselves".to_string())),
    }
}

impl ChunkSource for ParquetFiles {
    fn decode(&self, chunk: usize) -> Result<TableChunk, TableError> {
        let place = self.chunks[chunk];
        let parquet = &self.files[place.file];
        let ParquetFile { metadata, placement, projection, named_files, .. } = parquet;
        let file = &parquet.at_hand(&place, self.options.buffer)?;
        let damaged = |why: String| TableError::Format {
            path: file.path().to_path_buf(),
            format: "Parquet",
            why: format!("row group {}: {why}", place.row_group),
        };
        let (first, rows) = (place.first as usize, place.rows as usize);
        let decoded = file.reading(|file| {
            guarded(file.path(), || {
                let (file, metadata) = (file.clone(), metadata.clone());
                let mut reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
                    .with_row_groups(vec![place.row_group])
                    .with_projection(projection.clone())
                    .with_offset(first)
                    .with_limit(rows)
                    .with_batch_size(rows)
                    .build()?;
                reader.next().transpose()
            })
        });
        // Whatever came of it, first whether the file is still what its footer was read of.
        file.check_unchanged()?;
        let batch = decoded?.filter(|batch| batch.num_rows() == rows);
        let batch = batch.ok_or_else(|| damaged("it has fewer rows than it says".to_string()))?;
        let mut chunk = TableChunk::new(&batch, &self.columns, placement, Some(&self.form))?;
        chunk.name_files(named_files.as_ref());
        if chunk.memory() > self.options.buffer {
            return Err(TableError::TooLarge {
                path: file.path().to_path_buf(),
                rows: place.rows,
                needed: chunk.memory(),
                buffer: self.options.buffer,
            });
        }
        Ok(chunk)
    }

    fn is_far(&self) -> bool {
        self.files.iter().any(|file| file.file.is_far())
    }

    fn expect(&self, chunk: usize) {
        let place = self.chunks[chunk];
        let file = &self.files[place.file];
        if file.file.is_far() {
            file.file.expect(&file.ranges(place.row_group));
        }
    }

    fn origin(&self, chunk: usize, row: u64) -> String {
        let place = &self.chunks[chunk];
        format!("{}[{}]", self.files[place.file].file.path().display(), place.row + row)
    }

    fn narrowed(&self, columns: &[usize]) -> Option<Table> {
        let options = narrowed(&self.options, &self.columns, columns);
        parquet(&self.paths, &options, &mut |_| std::ops::ControlFlow::Continue(())).ok()
    }
}

/// The same settings for some of the columns.
pub(crate) fn narrowed(
    options: &TableOptions,
    all: &[TableColumn],
    columns: &[usize],
) -> TableOptions {
    let names: Vec<String> = columns.iter().map(|column| all[*column].name.clone()).collect();
    let nulls = options.nulls.iter().filter(|(name, _)| names.contains(name));
    let nulls = nulls.map(|(name, value)| (name.clone(), value.clone())).collect();
    TableOptions { columns: Some(names), nulls, null_flags: Vec::new(), ..options.clone() }
}
