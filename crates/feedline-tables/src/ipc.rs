//! Arrow IPC files and streams.
//!
//! A file says at its end where its batches are. A stream, which is also how Hugging Face keeps datasets on disk, does not: when it is opened its messages' heads
//! are read, one after the other, and their bodies passed over. A batch is a chunk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::SchemaRef;
use feedline_sources::Watch;

use crate::TableError;
use crate::chunk::{RecordForm, TableChunk};
use crate::chunk_cache::ChunkSource;
use crate::columns::{Placement, TableColumn, TableOptions, again, check_width, chosen};
use crate::ipc_buffers::{decompressed_bytes, message_of};
use crate::named_files::NamedFiles;
use crate::open_file::OpenFile;
use crate::parquet::narrowed;
use crate::table::{Table, TableParts};

const MAGIC: &[u8] = b"ARROW1";
/// What a message begins with, before its length.
pub(crate) const CONTINUATION: u32 = u32::MAX;
/// The head of a message is its columns and buffers; nobody has so many.
const MOST_HEAD: usize = 64 << 20;
/// Streams are watched every so many messages.
const LOOK: u64 = 1024;

/// A batch of a file.
struct RecordBatchPlace {
    file: usize,
    block: Block,
    rows: u64,
    /// The first row within the file.
    row: u64,
    /// Which of the file's decoders has its dictionaries.
    decoder: usize,
}

struct IpcFile {
    file: OpenFile,
    schema: SchemaRef,
    placement: Placement,
    named_files: Option<Arc<NamedFiles>>,
    /// With more dictionaries each.
    decoders: Vec<FileDecoder>,
}

struct IpcFiles {
    files: Vec<IpcFile>,
    batches: Vec<RecordBatchPlace>,
    columns: Arc<[TableColumn]>,
    form: RecordForm,
    paths: Vec<PathBuf>,
    options: TableOptions,
}

/// What a file has: its schema, and where dictionaries and batches are.
struct IpcContents {
    schema: SchemaRef,
    version: MetadataVersion,
    messages: Vec<MessagePlace>,
}

/// Where a message is.
struct MessagePlace {
    block: Block,
    /// The rows of a batch; `None` for a dictionary.
    rows: Option<u64>,
    compressed: bool,
}

/// Opens Arrow IPC files and streams with one schema as a table, one after the other.
pub fn arrow(
    paths: &[PathBuf],
    options: &TableOptions,
    watch: Watch<'_>,
) -> Result<Table, TableError> {
    let first_path = paths.first().ok_or(TableError::NoFiles)?;
    let mut columns: Arc<[TableColumn]> = Arc::new([]);
    let (mut files, mut batches, mut expected) = (Vec::new(), Vec::new(), 0u64);
    for (number, path) in paths.iter().enumerate() {
        let file = OpenFile::open(path)?;
        let contents = file.reading(|file| guarded(path, || contents(file, watch)))?;
        let placement = if number == 0 {
            let of = format!("`{}`", path.display());
            let (of_first, placement) = chosen(&of, &contents.schema, options)?;
            check_width(path, &of_first, options.buffer)?;
            columns = of_first.into();
            placement
        } else {
            again(path, &contents.schema, &columns, first_path)?
        };
        let IpcContents { schema, version, messages } = contents;
        let decoder = || {
            let decoder = FileDecoder::new(Arc::clone(&schema), version);
            decoder.with_projection(placement.roots.clone())
        };
        let mut decoders = vec![decoder()];
        let (mut dictionaries, mut row, mut unused) = (Vec::new(), 0u64, true);
        for MessagePlace { block, rows, compressed } in messages {
            let Some(rows) = rows else {
                dictionaries.push(block);
                // Batches that were before keep the dictionaries that they had.
                if !unused {
                    decoders.push(decoder());
                    unused = true;
                    for block in &dictionaries {
                        read_dictionary(&file, &schema, decoders.last_mut(), block, options)?;
                    }
                } else {
                    read_dictionary(&file, &schema, decoders.last_mut(), &block, options)?;
                }
                continue;
            };
            unused = false;
            let body = u64::try_from(block.bodyLength()).unwrap_or(0);
            // Nobody knows how much compressed data are before they are decoded; the cache counts what they were.
            expected =
                expected.saturating_add(if compressed { body.saturating_mul(4) } else { body });
            if rows > 0 {
                let decoder = decoders.len() - 1;
                batches.push(RecordBatchPlace { file: number, block, rows, row, decoder });
            }
            row += rows;
        }
        let named_files = NamedFiles::of(&columns, Some(path), options);
        files.push(IpcFile { file, schema, placement, named_files, decoders });
    }
    let parts = TableParts {
        columns: Arc::clone(&columns),
        chunk_rows: batches.iter().map(|batch| batch.rows).collect(),
        expected_bytes: expected,
        random_access: false,
    };
    let form = RecordForm::of(&columns);
    let (paths, kept) = (paths.to_vec(), options.clone());
    Ok(Table::new(parts, IpcFiles { files, batches, columns, form, paths, options: kept }, options))
}

fn read_dictionary(
    file: &OpenFile,
    schema: &SchemaRef,
    decoder: Option<&mut FileDecoder>,
    block: &Block,
    options: &TableOptions,
) -> Result<(), TableError> {
    let Some(decoder) = decoder else { return Ok(()) };
    let bytes = message(file, block, 0, options)?;
    check_decompressed(file, block, &bytes, (schema, &[]), 0, options)?;
    guarded(file.path(), || decoder.read_dictionary(block, &bytes).map_err(|e| e.to_string()))
}

/// Refuses a message that says it takes more than the buffer once it is decompressed: what decompresses it makes room for what it
/// says, and there is no error where that fails.
fn check_decompressed(
    file: &OpenFile,
    block: &Block,
    bytes: &Buffer,
    (schema, roots): (&SchemaRef, &[usize]),
    rows: u64,
    options: &TableOptions,
) -> Result<(), TableError> {
    let head = usize::try_from(block.metaDataLength()).unwrap_or(usize::MAX);
    let needed = guarded(file.path(), || decompressed_bytes(bytes, head, schema, roots))?;
    check_fits(file, rows, needed, options)
}

fn check_fits(
    file: &OpenFile,
    rows: u64,
    needed: u64,
    options: &TableOptions,
) -> Result<(), TableError> {
    let (path, buffer) = (file.path().to_path_buf(), options.buffer);
    match needed > buffer {
        true => Err(TableError::TooLarge { path, rows, needed, buffer }),
        false => Ok(()),
    }
}

/// A message's head and body.
fn message(
    file: &OpenFile,
    block: &Block,
    rows: u64,
    options: &TableOptions,
) -> Result<Buffer, TableError> {
    let (head, body) = (i64::from(block.metaDataLength()), block.bodyLength());
    let length = head.checked_add(body).and_then(|length| u64::try_from(length).ok());
    let length = length.unwrap_or(u64::MAX);
    check_fits(file, rows, length, options)?;
    let mut bytes = Vec::new();
    let offset = u64::try_from(block.offset()).unwrap_or(u64::MAX);
    let read = file.append(&mut bytes, offset, length as usize);
    file.check_unchanged()?;
    read.map_err(|source| TableError::Io {
        doing: "read",
        path: file.path().to_path_buf(),
        source,
    })?;
    Ok(Buffer::from_vec(bytes))
}

/// Runs what reads a file. It refuses most damaged ones by an error; those that make it panic are refused here.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, String>) -> Result<T, TableError> {
    let damaged =
        |why: String| TableError::Format { path: path.to_path_buf(), format: "Arrow IPC", why };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|why| match why.as_str() {
            INTERRUPTED => TableError::Interrupted,
            _ => damaged(why),
        }),
        Err(_) => Err(damaged("its metadata contradict themselves".to_string())),
    }
}

const INTERRUPTED: &str = "interrupted";

fn contents(file: &OpenFile, watch: Watch<'_>) -> Result<IpcContents, String> {
    let mut magic = Vec::new();
    let length = file.stamp().len;
    let is_file = file.append(&mut magic, 0, MAGIC.len()).is_ok() && magic == MAGIC;
    match is_file {
        true => file_contents(file, length),
        false => stream_contents(file, length, watch),
    }
}

/// What a file's footer says.
fn file_contents(file: &OpenFile, length: u64) -> Result<IpcContents, String> {
    const TRAILER: u64 = 10;
    let cut_off = || "it ends before its footer".to_string();
    let at = length.checked_sub(TRAILER).ok_or_else(cut_off)?;
    let mut trailer = Vec::new();
    file.append(&mut trailer, at, TRAILER as usize).map_err(|e| e.to_string())?;
    let trailer: [u8; TRAILER as usize] = trailer.try_into().map_err(|_| cut_off())?;
    let footer_length = read_footer_length(trailer).map_err(|e| e.to_string())?;
    let start = at.checked_sub(footer_length as u64).ok_or_else(cut_off)?;
    let mut footer = Vec::new();
    file.append(&mut footer, start, footer_length).map_err(|e| e.to_string())?;
    let footer = root_as_footer(&footer).map_err(|e| e.to_string())?;
    let schema = footer.schema().ok_or("its footer has no schema")?;
    let schema: SchemaRef = Arc::new(try_fb_to_schema(schema).map_err(|e| e.to_string())?);
    let mut messages = Vec::new();
    for block in footer.dictionaries().iter().flatten() {
        messages.push(MessagePlace { block: *block, rows: None, compressed: false });
    }
    // Of an object the heads are under way together.
    for block in footer.recordBatches().iter().flatten().filter(|_| file.is_far()) {
        let (start, head) = (block.offset().cast_unsigned(), i64::from(block.metaDataLength()));
        file.expect_just(start, u64::try_from(head).unwrap_or(0));
    }
    for block in footer.recordBatches().iter().flatten() {
        let head = usize::try_from(block.metaDataLength()).unwrap_or(usize::MAX);
        let (rows, compressed) = batch_head(file, block.offset(), head, length)?;
        messages.push(MessagePlace { block: *block, rows: Some(rows), compressed });
    }
    Ok(IpcContents { schema, version: footer.version(), messages })
}

/// Rows of a batch, by its head, and whether its buffers are compressed.
fn batch_head(
    file: &OpenFile,
    offset: i64,
    head: usize,
    length: u64,
) -> Result<(u64, bool), String> {
    let offset = u64::try_from(offset).map_err(|_| "a batch begins before the file")?;
    if head > MOST_HEAD || offset.checked_add(head as u64).is_none_or(|end| end > length) {
        return Err("a batch ends behind the file's end".to_string());
    }
    let mut bytes = Vec::new();
    file.append(&mut bytes, offset, head).map_err(|e| e.to_string())?;
    let message = message_of(&bytes)?;
    let batch = message.header_as_record_batch().ok_or("a batch is none")?;
    let rows = u64::try_from(batch.length()).map_err(|_| "a batch has less than no rows")?;
    Ok((rows, batch.compression().is_some()))
}

/// What a stream has, message by message.
fn stream_contents(file: &OpenFile, length: u64, watch: Watch<'_>) -> Result<IpcContents, String> {
    let mut schema: Option<(SchemaRef, MetadataVersion)> = None;
    let mut messages = Vec::new();
    let (mut at, mut seen) = (0u64, 0u64);
    let mut head = Vec::new();
    while at < length {
        seen += 1;
        if seen % LOOK == 0 && watch(seen).is_break() {
            return Err(INTERRUPTED.to_string());
        }
        let mut prefix = Vec::new();
        let prefix_length = if length - at >= 8 { 8 } else { 4 };
        file.append(&mut prefix, at, prefix_length)
            .map_err(|_| format!("it ends within a message, at byte {at}"))?;
        let word = |i: usize| {
            let bytes = prefix.get(i * 4..i * 4 + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let (size, before) = match (word(0), word(1)) {
            (Some(CONTINUATION), Some(size)) => (size, 8u64),
            (Some(size), _) => (size, 4), // as before Arrow 0.15
            _ => return Err(format!("it ends within a message, at byte {at}")),
        };
        if size == 0 {
            break;
        }
        let size = size as usize;
        if size > MOST_HEAD {
            return Err(format!("there is no message at byte {at}"));
        }
        head.clear();
        file.append(&mut head, at + before, size)
            .map_err(|_| format!("there is no message at byte {at}, or it was cut off"))?;
        let message = root_as_message(&head).map_err(|e| format!("at byte {at}: {e}"))?;
        let body =
            u64::try_from(message.bodyLength()).map_err(|_| "a body of less than no bytes")?;
        let end = at.checked_add(before + size as u64).and_then(|end| end.checked_add(body));
        let end = end.filter(|end| *end <= length);
        let end = end.ok_or_else(|| format!("it was cut off within the message at byte {at}"))?;
        let offset = i64::try_from(at).map_err(|_| "it is too long")?;
        let head_length = i32::try_from(size as u64 + before).map_err(|_| "a head is too long")?;
        let block = Block::new(offset, head_length, message.bodyLength());
        match message.header_type() {
            MessageHeader::Schema => {
                let read = message.header_as_schema().ok_or("its schema is none")?;
                schema = Some((
                    Arc::new(try_fb_to_schema(read).map_err(|e| e.to_string())?),
                    message.version(),
                ));
            }
            MessageHeader::DictionaryBatch => {
                messages.push(MessagePlace { block, rows: None, compressed: false });
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or("a batch is none")?;
                let rows = u64::try_from(batch.length());
                let rows = Some(rows.map_err(|_| "a batch has less than no rows")?);
                let compressed = batch.compression().is_some();
                messages.push(MessagePlace { block, rows, compressed });
            }
            _ => {}
        }
        at = end;
    }
    let (schema, version) = schema.ok_or("it has no schema at its beginning")?;
    Ok(IpcContents { schema, version, messages })
}

impl ChunkSource for IpcFiles {
    fn decode(&self, chunk: usize) -> Result<TableChunk, TableError> {
        let RecordBatchPlace { file, block, rows, decoder, .. } = &self.batches[chunk];
        let IpcFile { file, schema, placement, named_files, decoders } = &self.files[*file];
        let options = &self.options;
        let bytes = message(file, block, *rows, options)?;
        check_decompressed(file, block, &bytes, (schema, &placement.roots), *rows, options)?;
        // Dictionaries and lists without items have many rows in few bytes.
        check_fits(file, *rows, rows.saturating_mul(self.form.stride as u64), options)?;
        let batch = guarded(file.path(), || {
            let batch = decoders[*decoder].read_record_batch(block, &bytes);
            let batch = batch.map_err(|e| e.to_string())?.ok_or("a batch is none")?;
            match batch.num_rows() as u64 == *rows {
                true => Ok(batch),
                false => Err("a batch has not the rows that it says".to_string()),
            }
        })?;
        let mut chunk = TableChunk::new(&batch, &self.columns, placement, Some(&self.form))?;
        check_fits(file, *rows, chunk.memory(), options)?;
        chunk.name_files(named_files.as_ref());
        Ok(chunk)
    }

    fn is_far(&self) -> bool {
        self.files.iter().any(|file| file.file.is_far())
    }

    fn expect(&self, chunk: usize) {
        let RecordBatchPlace { file, block, .. } = &self.batches[chunk];
        let length = i64::from(block.metaDataLength()).checked_add(block.bodyLength());
        let length = length.and_then(|length| u64::try_from(length).ok()).unwrap_or(0);
        self.files[*file].file.expect_just(block.offset().cast_unsigned(), length);
    }

    fn origin(&self, chunk: usize, row: u64) -> String {
        let place = &self.batches[chunk];
        format!("{}[{}]", self.files[place.file].file.path().display(), place.row + row)
    }

    fn narrowed(&self, columns: &[usize]) -> Option<Table> {
        let options = narrowed(&self.options, &self.columns, columns);
        arrow(&self.paths, &options, &mut |_| std::ops::ControlFlow::Continue(())).ok()
    }
}
