//! Some neighbouring rows of a table, decoded.
//!
//! In shuffled order each row is somewhere else, and what it costs is the memory it touches: ten columns in memory of their
//! own are ten cache misses per row, one after the other they are one or two. So numbers are laid out row by row
//! when rows are decoded, as *records*; texts, bytes and lists stay as they are.

use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::TableError;
use crate::cells::{CellFault, Cells, Filling};
use crate::columns::{Placement, TableColumn};
use crate::named_files::NamedFiles;

/// Where the fixed fields of a row are in its record.
#[derive(Clone, Debug)]
pub(crate) struct RecordForm {
    /// Bytes of a record.
    pub(crate) stride: usize,
    /// Offset and width of each column's value; `None` where its length varies.
    pub(crate) values: Vec<Option<(usize, usize)>>,
    /// Where each flagged column's flag is, in their order.
    pub(crate) flags: Vec<usize>,
}

impl RecordForm {
    pub(crate) fn of(columns: &[TableColumn]) -> RecordForm {
        let mut stride = 0usize;
        let mut place = |width: usize| {
            let offset = stride;
            stride += width;
            (offset, width)
        };
        let values = columns.iter().map(|column| column.kind.width().map(&mut place)).collect();
        let flagged = columns.iter().filter(|column| column.flagged);
        let flags = flagged.map(|_| place(1).0).collect();
        RecordForm { stride, values, flags }
    }
}

/// Decoded rows.
#[derive(Debug)]
pub(crate) struct TableChunk {
    rows: usize,
    /// The fixed fields of each row, one row after the other; nothing where rows are read out of the columns.
    records: Option<Vec<u8>>,
    /// Columns that are no part of the records.
    cells: Vec<Option<Cells>>,
    /// Whether the columns' memory is somebody else's.
    borrowed: bool,
    /// How files are read that rows name.
    named_files: Option<Arc<NamedFiles>>,
    /// Rows that cannot be delivered, by column.
    faults: Vec<Faulty>,
}

/// Rows of a column that cannot be delivered.
#[derive(Debug)]
struct Faulty {
    column: usize,
    rows: Vec<bool>,
    /// Why: that of the first.
    fault: CellFault,
}

impl TableChunk {
    /// Takes a batch apart. With `form`, numbers are laid out row by row.
    pub(crate) fn new(
        batch: &RecordBatch,
        columns: &[TableColumn],
        placement: &Placement,
        form: Option<&RecordForm>,
    ) -> Result<TableChunk, TableError> {
        let rows = batch.num_rows();
        let mut cells = Vec::with_capacity(columns.len());
        for (i, column) in columns.iter().enumerate() {
            let of_column = placement.cells(batch, i).ok_or_else(|| {
                TableError::Row(format!("column `{}` is not what its type says", column.name))
            })?;
            cells.push(Some(of_column));
        }
        let (records, named_files, faults) = (None, None, Vec::new());
        let mut chunk = TableChunk { rows, records, cells, borrowed: false, named_files, faults };
        if let Some(form) = form.filter(|form| form.stride > 0) {
            chunk.lay_out(columns, form)?;
        }
        Ok(chunk)
    }

    fn lay_out(&mut self, columns: &[TableColumn], form: &RecordForm) -> Result<(), TableError> {
        let mut records = Vec::new();
        let bytes = self.rows.checked_mul(form.stride);
        let room = bytes.and_then(|bytes| records.try_reserve_exact(bytes).ok().map(|()| bytes));
        let Some(bytes) = room else {
            return Err(TableError::Row(format!("there is no memory for {} rows", self.rows)));
        };
        records.resize(bytes, 0);
        let mut flags = form.flags.iter();
        for (i, column) in columns.iter().enumerate() {
            let cells = &self.cells[i];
            if let (true, Some(offset), Some(cells)) =
                (column.flagged, column.flagged.then(|| flags.next()).flatten(), cells)
            {
                for (row, record) in records.chunks_exact_mut(form.stride).enumerate() {
                    record[*offset] = u8::from(cells.is_null(row));
                }
            }
            let Some((offset, width)) = form.values[i] else { continue };
            if let Some(cells) = self.cells[i].take() {
                let faulty = write_column(&cells, column, &mut records, form.stride, offset, width);
                self.faults.extend(faulty.map(|(rows, fault)| Faulty { column: i, rows, fault }));
            }
        }
        self.records = Some(records);
        Ok(())
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Says that the columns' memory is somebody else's, and does not count.
    pub(crate) fn shares_memory(&mut self) {
        self.borrowed = true;
    }

    /// Says how files are read that its rows name.
    pub(crate) fn name_files(&mut self, named_files: Option<&Arc<NamedFiles>>) {
        self.named_files = named_files.cloned();
    }

    pub(crate) fn named_files(&self) -> Option<&NamedFiles> {
        self.named_files.as_deref()
    }

    /// What it takes in memory.
    pub(crate) fn memory(&self) -> u64 {
        let records = self.records.as_ref().map_or(0, Vec::len);
        let cells: usize = match self.borrowed {
            true => 0,
            false => self.cells.iter().flatten().map(Cells::memory).sum(),
        };
        let faults: usize = self.faults.iter().map(|faulty| faulty.rows.len()).sum();
        (records + cells + faults) as u64
    }

    /// The fixed fields of a row; `None` where rows are read out of the columns.
    pub(crate) fn record(&self, row: usize, stride: usize) -> Option<&[u8]> {
        self.records.as_ref()?.get(row * stride..(row + 1) * stride)
    }

    /// Whether a row has a value that cannot be delivered.
    pub(crate) fn is_faulty(&self, row: usize) -> bool {
        self.faults.iter().any(|faulty| faulty.rows[row])
    }

    /// The column of a row that cannot be delivered, and why.
    pub(crate) fn fault(&self, row: usize) -> Option<(usize, &CellFault)> {
        let faulty = self.faults.iter().find(|faulty| faulty.rows[row])?;
        Some((faulty.column, &faulty.fault))
    }

    /// The values of a column that is no part of the records.
    pub(crate) fn cells(&self, column: usize) -> Option<&Cells> {
        self.cells.get(column)?.as_ref()
    }
}

/// Writes a column into the records; returns which rows have a value that cannot be delivered.
fn write_column(
    cells: &Cells,
    column: &TableColumn,
    records: &mut [u8],
    stride: usize,
    offset: usize,
    width: usize,
) -> Option<(Vec<bool>, CellFault)> {
    if let Some((values, size)) = cells.plain()
        && size == width
    {
        scatter(values, records, stride, offset, width);
        return None;
    }
    let mut faulty: Option<(Vec<bool>, CellFault)> = None;
    let mut value = Vec::with_capacity(width);
    for row in 0..records.len() / stride {
        value.clear();
        let written = fixed_value(cells, row, column, &mut value);
        let fault = match written {
            Ok(()) if value.len() == width => {
                let at = row * stride + offset;
                records[at..at + width].copy_from_slice(&value);
                continue;
            }
            Ok(()) => CellFault::Damaged,
            Err(fault) => fault,
        };
        let rows = records.len() / stride;
        faulty.get_or_insert_with(|| (vec![false; rows], fault)).0[row] = true;
    }
    faulty
}

/// Appends the bytes of a value of fixed shape.
pub(crate) fn fixed_value(
    cells: &Cells,
    row: usize,
    column: &TableColumn,
    out: &mut Vec<u8>,
) -> Result<(), CellFault> {
    let name = &column.name;
    if cells.is_null(row) {
        return match &column.filling {
            Filling::With(element) => {
                let width = column.kind.width().ok_or(CellFault::Damaged)?;
                out.try_reserve(width).map_err(|_| CellFault::Damaged)?;
                for _ in 0..width / element.len().max(1) {
                    out.extend_from_slice(element);
                }
                Ok(())
            }
            Filling::Refused => Err(CellFault::Null { name: name.clone() }),
        };
    }
    let axes = match &column.kind {
        crate::kind::ValueKind::Numbers { axes, .. } => axes.len(),
        _ => 0,
    };
    let mut shape = [usize::MAX; MOST_AXES];
    let shape = shape.get_mut(..axes).ok_or(CellFault::Damaged)?;
    cells.append(row, &column.item_filling, name, shape, out)
}

/// The most axes of a value: lists within lists.
pub(crate) const MOST_AXES: usize = 16;

/// Puts elements that lie one after the other into records.
fn scatter(values: &[u8], records: &mut [u8], stride: usize, offset: usize, width: usize) {
    fn sized<const N: usize>(values: &[u8], records: &mut [u8], stride: usize, offset: usize) {
        let elements = values.as_chunks::<N>().0;
        for (record, element) in records.chunks_exact_mut(stride).zip(elements) {
            record[offset..offset + N].copy_from_slice(element);
        }
    }
    match width {
        1 => sized::<1>(values, records, stride, offset),
        2 => sized::<2>(values, records, stride, offset),
        4 => sized::<4>(values, records, stride, offset),
        8 => sized::<8>(values, records, stride, offset),
        0 => {}
        _ => {
            let elements = values.chunks_exact(width);
            for (record, element) in records.chunks_exact_mut(stride).zip(elements) {
                record[offset..offset + width].copy_from_slice(element);
            }
        }
    }
}
