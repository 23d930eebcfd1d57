//! Rows as samples.

use std::sync::Arc;

use feedline_core::{Cause, Dataset, Field, Group, Ragged, Sample, SampleIndex, Stage};
use feedline_sources::ChosenWindows;

use crate::TableError;
use crate::cells::{CellFault, Filling, PictureBytes};
use crate::chunk::{MOST_AXES, RecordForm, TableChunk, fixed_value};
use crate::chunk_cache::{ChunkCache, ChunkSource};
use crate::columns::{TableColumn, TableOptions, fields};
use crate::kind::ValueKind;

/// A table as a dataset: sample i is row i, with a field per column.
///
/// Rows of fixed size are copied for whole groups of samples at once, out of chunks of decoded rows.
pub struct Table {
    columns: Arc<[TableColumn]>,
    fields: Vec<Field>,
    form: RecordForm,
    /// The first row of each chunk, and after the last one how many there are.
    starts: Vec<u64>,
    /// Rows of every chunk but the last, where that is the same number.
    even: Option<u64>,
    chunks: ChunkCache,
    windows: Option<(Vec<u64>, u64)>,
    ragged: Ragged,
    /// Set where samples are some of the rows: which.
    picked: Option<Arc<[u64]>>,
}

/// What a table is made of.
pub(crate) struct TableParts {
    pub(crate) columns: Arc<[TableColumn]>,
    /// Rows of each chunk.
    pub(crate) chunk_rows: Vec<u64>,
    /// What all chunks take in memory, as far as that is known.
    pub(crate) expected_bytes: u64,
    /// Whether rows can be read anywhere at the same cost, so that the whole table need not fit.
    pub(crate) random_access: bool,
}

impl Table {
    pub(crate) fn new(
        parts: TableParts,
        source: impl ChunkSource,
        options: &TableOptions,
    ) -> Table {
        let TableParts { columns, chunk_rows, expected_bytes, random_access } = parts;
        let mut starts = Vec::with_capacity(chunk_rows.len() + 1);
        starts.push(0u64);
        for rows in &chunk_rows {
            starts.push(starts[starts.len() - 1].saturating_add(*rows));
        }
        let even = chunk_rows.first().copied().filter(|first| {
            let (last, before) = chunk_rows.split_last().unwrap_or((first, &[]));
            before.iter().all(|rows| rows == first) && last <= first && *first > 0
        });
        let settles = random_access || expected_bytes <= options.buffer;
        let rows = starts[starts.len() - 1];
        let window = match options.shuffle_window {
            Some(window) => Some(window.max(1)),
            None if settles => None,
            // Of two windows that are under way each may have half.
            None => {
                let share = u128::from(rows) * u128::from(options.buffer / 2);
                let window = share / u128::from(expected_bytes.max(1));
                Some(u64::try_from(window).unwrap_or(rows).clamp(1, rows.max(1)))
            }
        };
        let windows = window.filter(|window| *window < rows).map(|window| (chunk_rows, window));
        let chunks = ChunkCache::new(source, starts.len() - 1, options.buffer, settles);
        let form = RecordForm::of(&columns);
        let fields = fields(&columns, &options.ragged);
        let ragged = options.ragged.clone();
        Table { fields, form, starts, even, chunks, windows, ragged, picked: None, columns }
    }

    /// Some of the rows, in this order: sample i is row `rows[i]`.
    pub fn picking(self, rows: Arc<[u64]>) -> Result<Table, TableError> {
        let len = self.starts.last().copied().unwrap_or(0);
        if let Some(row) = rows.iter().find(|row| **row >= len) {
            let what = format!("row {row} is asked for, but there are {len}");
            return Err(TableError::Row(what));
        }
        let windows = self.windows.as_ref().and_then(|(shards, window)| {
            match ChosenWindows::of_listed(&rows, shards, *window) {
                ChosenWindows::Windows(shards, window) => Some((shards, window)),
                _ => None,
            }
        });
        Ok(Table { picked: Some(rows), windows, ..self })
    }

    /// Set where rows are shuffled by windows: the rows of each chunk, and how many rows a window has.
    #[must_use]
    pub fn windows(&self) -> Option<(&[u64], u64)> {
        self.windows.as_ref().map(|(rows, window)| (rows.as_slice(), *window))
    }

    pub(crate) fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    /// The chunk of a row, and the row's place in it.
    fn locate(&self, index: SampleIndex) -> Option<(usize, usize)> {
        let row = match &self.picked {
            Some(picked) => *picked.get(usize::try_from(index.0).ok()?)?,
            None => index.0,
        };
        if row >= *self.starts.last()? {
            return None;
        }
        let chunk = match self.even {
            Some(rows) => (row / rows) as usize,
            None => self.starts.partition_point(|start| *start <= row) - 1,
        };
        Some((chunk, (row - self.starts[chunk]) as usize))
    }

    /// Gives the chunk of a row, and its place there, to `work`.
    pub(crate) fn with_row<R>(
        &self,
        index: SampleIndex,
        work: impl FnOnce(&TableChunk, usize) -> Result<R, Cause>,
    ) -> Result<R, Cause> {
        let missing = || format!("there is no row {}; the table has {}", index.0, self.len());
        let (chunk, row) = self.locate(index).ok_or_else(missing)?;
        self.chunks.source().check(&[chunk])?;
        let held;
        let decoded = match self.chunks.settled(chunk) {
            Some(decoded) => decoded,
            None => {
                held = self.chunks.get(chunk);
                &held
            }
        };
        match decoded {
            Ok(chunk) if row < chunk.rows() => work(chunk, row),
            Ok(_) => Err("the file has fewer rows than it says".into()),
            Err(error) => Err(Box::new(SharedError(Arc::clone(error)))),
        }
    }

    /// Refuses a row with a value that cannot be delivered.
    pub(crate) fn check(&self, chunk: &TableChunk, row: usize) -> Result<(), Cause> {
        match chunk.fault(row) {
            None => Ok(()),
            Some((column, fault)) => Err(self.blame(column, fault)),
        }
    }

    pub(crate) fn blame(&self, column: usize, fault: &CellFault) -> Cause {
        format!("column `{}` {fault}", self.columns[column].name).into()
    }

    /// Appends the value of a column that has a fixed number of bytes.
    pub(crate) fn append_fixed(
        &self,
        chunk: &TableChunk,
        row: usize,
        column: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Cause> {
        match (chunk.record(row, self.form.stride), self.form.values[column], chunk.cells(column)) {
            (Some(record), Some((offset, width)), _) => {
                out.extend_from_slice(&record[offset..offset + width]);
                Ok(())
            }
            (_, _, Some(cells)) => fixed_value(cells, row, &self.columns[column], out)
                .map_err(|fault| self.blame(column, &fault)),
            _ => Err(self.blame(column, &CellFault::Damaged)),
        }
    }

    /// Gives the bytes of a text, of binary data or of a picture to `work`.
    pub(crate) fn with_bytes<R>(
        &self,
        chunk: &TableChunk,
        row: usize,
        column: usize,
        work: impl FnOnce(&[u8]) -> Result<R, Cause>,
    ) -> Result<R, Cause> {
        let blame = |fault: CellFault| self.blame(column, &fault);
        let cells = chunk.cells(column).ok_or_else(|| blame(CellFault::Damaged))?;
        if cells.is_null(row) {
            let name = self.columns[column].name.clone();
            return match &self.columns[column].filling {
                Filling::With(value) => work(value),
                Filling::Refused => Err(blame(CellFault::Null { name })),
            };
        }
        match cells.picture(row) {
            PictureBytes::Here(bytes) => work(bytes),
            PictureBytes::In(path) => {
                let path = String::from_utf8_lossy(path);
                let named = chunk.named_files().ok_or_else(|| blame(CellFault::Damaged))?;
                let bytes = named
                    .read(&path)
                    .map_err(|why| blame(CellFault::File { path: path.to_string(), why }))?;
                work(&bytes)
            }
        }
    }

    /// Appends the elements of a list; returns its lengths along each axis.
    pub(crate) fn append_ragged(
        &self,
        chunk: &TableChunk,
        row: usize,
        column: usize,
        out: &mut Vec<u8>,
    ) -> Result<([usize; MOST_AXES], usize), Cause> {
        let about = &self.columns[column];
        let damaged = || self.blame(column, &CellFault::Damaged);
        let ValueKind::Numbers { axes, .. } = &about.kind else { return Err(damaged()) };
        let cells = chunk.cells(column).ok_or_else(damaged)?;
        let mut lengths = [usize::MAX; MOST_AXES];
        let shape = lengths.get_mut(..axes.len()).ok_or_else(damaged)?;
        if cells.is_null(row) {
            if about.filling == Filling::Refused {
                return Err(self.blame(column, &CellFault::Null { name: about.name.clone() }));
            }
        } else {
            cells
                .append(row, &about.item_filling, &about.name, shape, out)
                .map_err(|fault| self.blame(column, &fault))?;
        }
        // Axes that no list was met on: those within empty lists.
        for (length, axis) in shape.iter_mut().zip(axes) {
            if *length == usize::MAX {
                *length = axis.unwrap_or(0);
            }
        }
        Ok((lengths, axes.len()))
    }

    /// Whether a value of a flagged column is null.
    pub(crate) fn is_null(&self, chunk: &TableChunk, row: usize, column: usize) -> bool {
        let flag = self.columns[..column].iter().filter(|column| column.flagged).count();
        match (chunk.record(row, self.form.stride), chunk.cells(column)) {
            (Some(record), _) => record[self.form.flags[flag]] != 0,
            (None, Some(cells)) => cells.is_null(row),
            (None, None) => false,
        }
    }

    /// How lists of different lengths share a batch.
    pub(crate) fn ragged(&self) -> &Ragged {
        &self.ragged
    }

    fn write_row(
        &self,
        chunk: &TableChunk,
        row: usize,
        sample: &mut Sample<'_>,
    ) -> Result<(), Cause> {
        self.check(chunk, row)?;
        let mut value = Vec::new();
        for (i, column) in self.columns.iter().enumerate() {
            value.clear();
            match &column.kind {
                ValueKind::Text | ValueKind::Bytes | ValueKind::Picture => {
                    self.with_bytes(chunk, row, i, |bytes| Ok(sample.put_bytes(i, bytes)?))?;
                }
                ValueKind::Numbers { .. } if self.form.values[i].is_none() => {
                    let (lengths, axes) = self.append_ragged(chunk, row, i, &mut value)?;
                    sample.put_elements(i, &lengths[..axes], &value)?;
                }
                ValueKind::Numbers { .. } => {
                    self.append_fixed(chunk, row, i, &mut value)?;
                    sample.put_bytes(i, &value)?;
                }
            }
        }
        let flagged = self.columns.iter().enumerate().filter(|(_, column)| column.flagged);
        for (flag, (i, _)) in flagged.enumerate() {
            let is_null = self.is_null(chunk, row, i);
            sample.put_bytes(self.columns.len() + flag, &[u8::from(is_null)])?;
        }
        Ok(())
    }

    /// Offset and width in the record of each field, where all of them have one.
    fn places(&self) -> Option<Vec<(usize, usize)>> {
        let values: Option<Vec<_>> = self.form.values.iter().copied().collect();
        Some(values?.into_iter().chain(self.form.flags.iter().map(|offset| (*offset, 1))).collect())
    }

    /// Rows of chunks that all are there and stay.
    fn gather_settled(&self, group: &mut Group<'_>, places: &[(usize, usize)]) -> Option<bool> {
        let stride = self.form.stride;
        let mut records: Vec<&[u8]> = Vec::with_capacity(group.indices().len());
        for index in group.indices() {
            let (chunk, row) = self.locate(*index)?;
            let Ok(chunk) = self.chunks.settled(chunk)? else { return Some(false) };
            let record = chunk.record(row, stride)?;
            if chunk.is_faulty(row) {
                return Some(false);
            }
            fetch(record);
            records.push(record);
        }
        for (field, (offset, width)) in places.iter().enumerate() {
            let out = group.rows_bytes(field).ok()?;
            copy_field(&records, *offset, *width, out);
        }
        Some(true)
    }

    /// Rows of chunks that come and go, chunk by chunk, so that one is held at a time.
    fn gather_by_chunk(&self, group: &mut Group<'_>, places: &[(usize, usize)]) -> Option<bool> {
        let indices = group.indices();
        let mut order: Vec<(usize, usize, usize)> = Vec::with_capacity(indices.len());
        for (slot, index) in indices.iter().enumerate() {
            let (chunk, row) = self.locate(*index)?;
            order.push((chunk, row, slot));
        }
        order.sort_unstable();
        for rows in order.chunk_by(|a, b| a.0 == b.0) {
            let Ok(chunk) = self.chunks.get(rows[0].0) else { return Some(false) };
            for (field, (offset, width)) in places.iter().enumerate() {
                let out = group.rows_bytes(field).ok()?;
                for (_, row, slot) in rows {
                    let record = chunk.record(*row, self.form.stride)?;
                    if chunk.is_faulty(*row) {
                        return Some(false);
                    }
                    out.get_mut(slot * width..(slot + 1) * width)?
                        .copy_from_slice(&record[*offset..offset + width]);
                }
            }
        }
        Some(true)
    }

    /// Rows read out of their columns, column by column.
    fn gather_cells(&self, group: &mut Group<'_>) -> Option<bool> {
        let indices = group.indices();
        let mut rows: Vec<(&TableChunk, usize)> = Vec::with_capacity(indices.len());
        for index in indices {
            let (chunk, row) = self.locate(*index)?;
            let Ok(chunk) = self.chunks.settled(chunk)? else { return Some(false) };
            rows.push((chunk, row));
        }
        let mut value = Vec::new();
        let mut flag = self.columns.len();
        for (i, column) in self.columns.iter().enumerate() {
            let width = column.kind.width()?;
            let out = group.rows_bytes(i).ok()?;
            for ((chunk, row), out) in rows.iter().zip(out.chunks_exact_mut(width.max(1))) {
                let cells = chunk.cells(i)?;
                match cells.plain() {
                    Some((values, size)) if size == width => {
                        out.copy_from_slice(values.get(row * width..(row + 1) * width)?);
                    }
                    _ => {
                        value.clear();
                        if fixed_value(cells, *row, column, &mut value).is_err() {
                            return Some(false);
                        }
                        out.copy_from_slice(value.get(..width)?);
                    }
                }
            }
            if column.flagged {
                let out = group.rows_bytes(flag).ok()?;
                for ((chunk, row), out) in rows.iter().zip(out) {
                    *out = u8::from(chunk.cells(i)?.is_null(*row));
                }
                flag += 1;
            }
        }
        Some(true)
    }
}

impl Dataset for Table {
    fn len(&self) -> u64 {
        match &self.picked {
            Some(picked) => picked.len() as u64,
            None => self.starts.last().copied().unwrap_or(0),
        }
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let index = sample.index();
        sample.begin(Stage::Load);
        self.with_row(index, |chunk, row| {
            sample.begin(Stage::Decode);
            self.write_row(chunk, row, sample)
        })
    }

    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let Some(places) = self.places() else { return false };
        if self.chunks.source().is_watched() {
            let chunks = group.indices().iter().filter_map(|index| Some(self.locate(*index)?.0));
            // Row by row it is said what has changed.
            if self.chunks.source().check(&chunks.collect::<Vec<_>>()).is_err() {
                return false;
            }
        }
        let mut missing: Vec<usize> = Vec::new();
        if self.chunks.settles() {
            for index in group.indices() {
                let Some((chunk, _)) = self.locate(*index) else { return false };
                if self.chunks.settled(chunk).is_none() && missing.last() != Some(&chunk) {
                    missing.push(chunk);
                }
            }
        }
        if !missing.is_empty() {
            missing.sort_unstable();
            missing.dedup();
            self.chunks.prepare(&missing);
        }
        if self.chunks.settles()
            && let Some(done) =
                self.gather_settled(group, &places).or_else(|| self.gather_cells(group))
        {
            return done;
        }
        self.gather_by_chunk(group, &places).unwrap_or(false)
    }

    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        // Fields that tell of nulls need the column beside them.
        if fields.is_empty() || fields.iter().any(|field| *field >= self.columns.len()) {
            return None;
        }
        if fields.iter().any(|field| self.columns[*field].flagged) {
            return None;
        }
        let narrowed = self.chunks.source().narrowed(fields)?;
        Some(match &self.picked {
            Some(picked) => Arc::new(narrowed.picking(Arc::clone(picked)).ok()?),
            None => Arc::new(narrowed),
        })
    }

    /// So far that chunks are under way while one is delivered: many of small ones.
    fn look_ahead(&self) -> usize {
        const CHUNKS: u64 = 16;
        /// Numbers of samples are made one by one.
        const MOST: u64 = 128 << 10;
        if !self.chunks.source().is_far() {
            return 0;
        }
        let rows = self.starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        rows.saturating_mul(CHUNKS).min(MOST) as usize
    }

    fn expect(&self, indices: &[SampleIndex]) {
        let mut last = None;
        for index in indices {
            let chunk = self.locate(*index).map(|(chunk, _)| chunk);
            if let Some(chunk) = chunk.filter(|chunk| last.replace(*chunk) != Some(*chunk)) {
                self.chunks.expect(chunk);
            }
        }
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        let (chunk, row) = self.locate(index)?;
        Some(self.chunks.source().origin(chunk, row as u64))
    }
}

/// An error that all rows of a chunk share.
#[derive(Debug)]
struct SharedError(Arc<TableError>);

impl std::fmt::Display for SharedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// One field of many records, one value after the other.
fn copy_field(records: &[&[u8]], offset: usize, width: usize, out: &mut [u8]) {
    fn sized<const N: usize>(records: &[&[u8]], offset: usize, out: &mut [u8]) {
        for (record, value) in records.iter().zip(out.as_chunks_mut::<N>().0) {
            value.copy_from_slice(&record[offset..offset + N]);
        }
    }
    match width {
        1 => sized::<1>(records, offset, out),
        2 => sized::<2>(records, offset, out),
        4 => sized::<4>(records, offset, out),
        8 => sized::<8>(records, offset, out),
        0 => {}
        _ => {
            for (record, value) in records.iter().zip(out.chunks_exact_mut(width)) {
                value.copy_from_slice(&record[offset..offset + width]);
            }
        }
    }
}

/// Tells the processor that a record will be read soon.
#[inline(always)]
fn fetch(record: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        /// So much of a record is fetched ahead; what follows, the processor guesses by itself.
        const FETCHED: usize = 256;
        const CACHE_LINE: usize = 64;
        for at in (0..record.len().min(FETCHED)).step_by(CACHE_LINE) {
            // SAFETY: a prefetch reads nothing that could be seen and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(record.as_ptr().wrapping_add(at).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = record;
}
