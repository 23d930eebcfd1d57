//! Delimited text: CSV and its relatives.
//!
//! A file is gone through once, to find where rows begin; what was found is [kept](crate::rows). A row is read and taken apart
//! when it is wanted. Cells are quoted as Python's `csv` module reads them: a quote opens where a cell begins, two of them within quotes stand for
//! one, and quotes elsewhere are letters.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use feedline_core::{Cause, DType, Dataset, Field, Ragged, Sample, SampleIndex};
use feedline_sources::Watch;
use memchr::{memchr, memchr2};

use crate::TableError;
use crate::cells::{CellFault, Filling};
use crate::columns::{NullValue, TableColumn, fields};
use crate::kind::ValueKind;
use crate::open_file::OpenFile;
use crate::rows::{NumberFault, Quoting, RowFile, RowFiles, RowOptions, RowSyntax, write_number};
use crate::typed::{SAMPLED_BYTES, SAMPLED_ROWS, SeenTypes, kind_of};

/// How delimited text becomes samples.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    /// The columns to read, in this order; all of them if nothing is said.
    pub columns: Option<Vec<String>>,
    /// Types by column: a dtype's name, `text` or `bytes`. Those of others are taken from the first rows.
    pub types: HashMap<String, String>,
    /// Names of the columns, where the first row has none; `Some` of nothing: by their place.
    pub names: Option<Vec<String>>,
    /// What is between cells.
    pub delimiter: u8,
    /// What is around cells that have delimiters or line breaks in them; `None` where quotes mean nothing.
    pub quote: Option<u8>,
    /// What stands for empty cells of numbers, by column. Without it they are NaN for floats, and an error of their row for others.
    pub nulls: HashMap<String, NullValue>,
    /// Columns that get a field `<name>_is_null` beside them.
    pub null_flags: Vec<String>,
    /// Where what was found is kept, and how long rows may be.
    pub rows: RowOptions,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        CsvOptions {
            columns: None,
            types: HashMap::new(),
            names: None,
            delimiter: b',',
            quote: Some(b'"'),
            nulls: HashMap::new(),
            null_flags: Vec::new(),
            rows: RowOptions::default(),
        }
    }
}

/// Delimited text as a dataset: sample i is row i, with a field per column.
pub struct Csv {
    columns: Arc<[TableColumn]>,
    rows: Arc<RowFiles>,
    /// For each file: how many cells a row has, and which of them each column is.
    places: Arc<[(usize, Vec<usize>)]>,
    quoting: Option<Quoting>,
    delimiter: u8,
}

/// A cell of a row: in the row itself, or in a copy without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CellPlace {
    Row(Range<usize>),
    Copy(Range<usize>),
}

/// A row taken apart.
#[derive(Default)]
struct SplitRow {
    cells: Vec<CellPlace>,
    copy: Vec<u8>,
}

impl SplitRow {
    fn cell<'a>(&'a self, row: &'a [u8], cell: usize) -> &'a [u8] {
        match self.cells.get(cell) {
            Some(CellPlace::Row(place)) => &row[place.clone()],
            Some(CellPlace::Copy(place)) => &self.copy[place.clone()],
            None => &[],
        }
    }

    /// Takes a row apart; returns where it ends, or the number of the cell whose quote does not close.
    fn split(
        &mut self,
        row: &[u8],
        delimiter: u8,
        quoting: Option<Quoting>,
    ) -> Result<usize, usize> {
        self.cells.clear();
        self.copy.clear();
        let quote = quoting.map(|quoting| quoting.quote);
        let mut at = 0;
        loop {
            let copied = self.copy.len();
            let quoted = quote.filter(|quote| row.get(at) == Some(quote));
            if let Some(quote) = quoted {
                at += 1;
                loop {
                    let end = memchr(quote, row.get(at..).unwrap_or_default());
                    let end = at + end.ok_or(self.cells.len())?;
                    self.copy.extend_from_slice(&row[at..end]);
                    at = end + 1;
                    if row.get(at) != Some(&quote) {
                        break;
                    }
                    self.copy.push(quote);
                    at += 1;
                }
            }
            let end = memchr2(delimiter, b'\n', &row[at..]).map_or(row.len(), |end| at + end);
            let last = row.get(end) != Some(&delimiter);
            // What ends a line is no part of its last cell.
            let is_return = last && end > at && row[end - 1] == b'\r';
            let text = at..if is_return { end - 1 } else { end };
            self.cells.push(match quoted {
                None => CellPlace::Row(text),
                // Behind the closing quote there may be letters; they belong to the cell.
                Some(_) => {
                    self.copy.extend_from_slice(&row[text]);
                    CellPlace::Copy(copied..self.copy.len())
                }
            });
            if last {
                return Ok((end + 1).min(row.len()));
            }
            at = end + 1;
        }
    }
}

/// Opens delimited files with the same columns, one after the other.
pub fn csv(paths: &[PathBuf], options: &CsvOptions, watch: Watch<'_>) -> Result<Csv, TableError> {
    let first_path = paths.first().ok_or(TableError::NoFiles)?;
    let quoting = options.quote.map(|quote| Quoting { quote, delimiter: options.delimiter });
    let syntax = RowSyntax { quoted: quoting, max_open: options.rows.max_bytes };
    let mut columns: Arc<[TableColumn]> = Arc::new([]);
    let (mut files, mut places, mut room) = (Vec::new(), Vec::new(), options.rows.held);
    for (number, path) in paths.iter().enumerate() {
        let file = OpenFile::open(path)?.held(&mut room)?;
        let start = file.text_start()?;
        let (names, body) = header(&file, start, quoting, options)?;
        let rows = RowFile::open(file, body, &syntax, &options.rows, watch)?;
        let names = match names {
            Some(names) => names,
            None => {
                let cells = first_row(&rows, quoting, options)?;
                (0..cells).map(|place| place.to_string()).collect()
            }
        };
        if number == 0 {
            columns = chosen(path, &names, &rows, quoting, options)?.into();
        }
        let place = |column: &TableColumn| {
            let place = names.iter().position(|name| *name == column.name);
            place.ok_or_else(|| TableError::NoSuchColumn {
                of: format!("`{}`", path.display()),
                column: column.name.clone(),
                there: format!(
                    "{} (and `{}` has it: files of one table need one header)",
                    shown(&names),
                    first_path.display()
                ),
            })
        };
        places.push((names.len(), columns.iter().map(place).collect::<Result<Vec<_>, _>>()?));
        files.push(rows);
    }
    let rows = Arc::new(RowFiles::new(files, options.rows.max_bytes));
    Ok(Csv { columns, rows, places: places.into(), quoting, delimiter: options.delimiter })
}

/// Bytes that are read for the header of an object.
const FAR_HEADER: u64 = 1 << 20;

/// Where rows begin, and on which line.
type Body = (u64, u64);

/// The names that a file's first row has, or those that were given, and where its rows begin.
fn header(
    file: &OpenFile,
    start: u64,
    quoting: Option<Quoting>,
    options: &CsvOptions,
) -> Result<(Option<Vec<String>>, Body), TableError> {
    match &options.names {
        Some(names) if names.is_empty() => return Ok((None, (start, 1))),
        Some(names) => return Ok((Some(names.clone()), (start, 1))),
        None => {}
    }
    let path = file.path();
    let damaged = |why: String| TableError::Format { path: path.to_path_buf(), format: "CSV", why };
    let most = if file.is_far() { FAR_HEADER } else { u64::MAX };
    let length = file.stamp().len.saturating_sub(start).min(options.rows.max_bytes).min(most);
    let mut text = Vec::new();
    file.append(&mut text, start, usize::try_from(length).unwrap_or(usize::MAX))
        .map_err(|source| TableError::Io { doing: "read", path: path.to_path_buf(), source })?;
    let blank = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let row = &text[blank..];
    if row.is_empty() {
        return Err(damaged("it has neither a header nor rows".to_string()));
    }
    let mut split = SplitRow::default();
    let end = split.split(row, options.delimiter, quoting).map_err(|cell| {
        damaged(format!("a quote in cell {cell} of its header, on line 1, is never closed"))
    })?;
    let name = |cell: usize| {
        let name = std::str::from_utf8(split.cell(row, cell)).map(str::to_string);
        name.map_err(|_| damaged(format!("the name of column {cell}, on line 1, is not UTF-8")))
    };
    let names = (0..split.cells.len()).map(name).collect::<Result<Vec<_>, _>>()?;
    let breaks_off = |name: &String| name.replace("\r\n", "").contains('\r');
    if let Some(name) = names.iter().find(|name| breaks_off(name)) {
        let first = name.split('\r').next().unwrap_or_default();
        return Err(damaged(format!(
            "behind `{first}` in its header there is a carriage return without a line feed: lines that end so are not told \
             apart; convert them to \\n, as `tr '\\r' '\\n'` does"
        )));
    }
    if let Some((i, twice)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name))
    {
        return Err(damaged(format!(
            "columns {} and {i} are both called `{twice}`; pass header=[…] with other names",
            names.iter().position(|name| name == twice).unwrap_or(0)
        )));
    }
    let lines = memchr::memchr_iter(b'\n', &text[..blank + end]).count() as u64;
    Ok((Some(names), (start + (blank + end) as u64, 1 + lines)))
}

/// How many cells the first row has.
fn first_row(
    rows: &RowFile,
    quoting: Option<Quoting>,
    options: &CsvOptions,
) -> Result<usize, TableError> {
    let mut row = Vec::new();
    if rows.rows() > 0 {
        rows.read(0, options.rows.max_bytes, &mut row)?;
    }
    let mut split = SplitRow::default();
    let _ = split.split(&row, options.delimiter, quoting);
    Ok(split.cells.len())
}

/// The columns that were asked for, with types that were given or that the first rows have.
fn chosen(
    path: &Path,
    names: &[String],
    rows: &RowFile,
    quoting: Option<Quoting>,
    options: &CsvOptions,
) -> Result<Vec<TableColumn>, TableError> {
    let wanted: Vec<String> = options.columns.clone().unwrap_or_else(|| names.to_vec());
    let given = options.types.keys().chain(options.nulls.keys()).chain(&options.null_flags);
    if let Some(unknown) = wanted.iter().chain(given).find(|name| !names.contains(name)) {
        return Err(TableError::NoSuchColumn {
            of: format!("`{}`", path.display()),
            column: unknown.clone(),
            there: shown(names),
        });
    }
    let mut seen = vec![SeenTypes::default(); names.len()];
    let (mut split, mut row, mut bytes) = (SplitRow::default(), Vec::new(), 0);
    for number in 0..rows.rows().min(SAMPLED_ROWS) {
        row.clear();
        // What is wrong with a row is said when it is wanted.
        if rows.read(number, options.rows.max_bytes, &mut row).is_err()
            || split.split(&row, options.delimiter, quoting).is_err()
        {
            continue;
        }
        for (place, seen) in seen.iter_mut().enumerate() {
            see(split.cell(&row, place), seen);
        }
        bytes += row.len();
        if bytes > SAMPLED_BYTES {
            break;
        }
    }
    let column = |name: &String| {
        let place = names.iter().position(|other| other == name).unwrap_or(0);
        let kind = match kind_of(name, &options.types, false)? {
            Some(kind) => kind,
            None => match seen[place].dtype() {
                Some(dtype) => ValueKind::Numbers { dtype, axes: Vec::new() },
                None => ValueKind::Text,
            },
        };
        let flagged = options.null_flags.contains(name);
        TableColumn::typed(name, kind, options.nulls.get(name), flagged)
    };
    wanted.iter().map(column).collect()
}

/// Notes what a cell may be.
fn see(cell: &[u8], seen: &mut SeenTypes) {
    let mut out = Vec::new();
    let mut is = |dtype| write_number(cell, dtype, &mut out).is_ok();
    let text = cell.trim_ascii();
    if text.is_empty() {
        // Says nothing.
    } else if is(DType::I64) {
        seen.integers = true;
    } else if is(DType::F64) {
        seen.floats = true;
    } else if is(DType::Bool) {
        seen.bools = true;
    } else {
        seen.others = true;
    }
}

fn shown(names: &[String]) -> String {
    const SHOWN: usize = 40;
    let mut there: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    if names.len() > SHOWN {
        there.push("…");
    }
    there.join(", ")
}

impl Csv {
    fn blame(&self, column: &TableColumn, fault: NumberFault, dtype: DType, cell: &[u8]) -> Cause {
        const SHOWN: usize = 60;
        let mut text = String::from_utf8_lossy(&cell[..cell.len().min(SHOWN)]).into_owned();
        if cell.len() > SHOWN {
            text.push('…');
        }
        let why = match fault {
            NumberFault::Range => format!("which is beyond {dtype}"),
            _ => format!("which is no {dtype}"),
        };
        let name = &column.name;
        format!(
            "column `{name}` holds {text:?}, {why}; correct it, or pass another type, as in types={{{name:?}: \"text\"}}"
        )
        .into()
    }
}

impl Dataset for Csv {
    fn len(&self) -> u64 {
        self.rows.len()
    }

    fn fields(&self) -> Vec<Field> {
        fields(&self.columns, &Ragged::Packed)
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.rows.load(index, raw)
    }

    fn look_ahead(&self) -> usize {
        self.rows.look_ahead()
    }

    fn expect(&self, indices: &[SampleIndex]) {
        self.rows.expect(indices);
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let file = self.rows.locate(sample.index()).map_or(0, |(file, _)| file);
        let (cells, places) = &self.places[file];
        let mut split = SplitRow::default();
        split.split(raw, self.delimiter, self.quoting).map_err(|cell| {
            format!(
                "the quote that opens cell {cell} is never closed; close it, or pass quote=None"
            )
        })?;
        if split.cells.len() != *cells {
            return Err(format!(
                "the row has {} cells, but there are {cells} columns; correct it, or pass quote= and delimiter= as \
                 the file has them",
                split.cells.len()
            )
            .into());
        }
        let mut value = Vec::new();
        let mut flag = self.columns.len();
        for (field, (column, place)) in self.columns.iter().zip(places).enumerate() {
            let cell = split.cell(raw, *place);
            let mut is_null = false;
            match &column.kind {
                ValueKind::Numbers { dtype, .. } => {
                    value.clear();
                    match write_number(cell, *dtype, &mut value) {
                        Ok(()) => sample.put_bytes(field, &value)?,
                        Err(NumberFault::Empty) => {
                            is_null = true;
                            let Filling::With(value) = &column.filling else {
                                let fault = CellFault::Null { name: column.name.clone() };
                                return Err(format!("column `{}` {fault}", column.name).into());
                            };
                            sample.put_bytes(field, value)?;
                        }
                        Err(fault) => return Err(self.blame(column, fault, *dtype, cell)),
                    }
                }
                _ => {
                    is_null = cell.is_empty();
                    if let (ValueKind::Text, Err(error)) = (&column.kind, std::str::from_utf8(cell))
                    {
                        let (name, at) = (&column.name, error.valid_up_to());
                        let what = format!(
                            "column `{name}` is not UTF-8: byte {at} of its cell is {:#04x}; convert the file, or pass \
                             types={{{name:?}: \"bytes\"}}",
                            cell[at]
                        );
                        return Err(what.into());
                    }
                    match &column.filling {
                        Filling::With(value) if is_null => sample.put_bytes(field, value)?,
                        _ => sample.put_bytes(field, cell)?,
                    }
                }
            }
            if column.flagged {
                sample.put_bytes(flag, &[u8::from(is_null)])?;
                flag += 1;
            }
        }
        Ok(())
    }

    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let plain = |field: &usize| self.columns.get(*field).is_some_and(|column| !column.flagged);
        if fields.is_empty() || !fields.iter().all(plain) {
            return None;
        }
        let columns = fields.iter().map(|field| self.columns[*field].clone()).collect();
        let narrow = |(cells, places): &(usize, Vec<usize>)| {
            (*cells, fields.iter().map(|field| places[*field]).collect())
        };
        let places = self.places.iter().map(narrow).collect();
        let (rows, quoting, delimiter) = (Arc::clone(&self.rows), self.quoting, self.delimiter);
        Some(Arc::new(Csv { columns, rows, places, quoting, delimiter }))
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.rows.origin(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(row: &[u8]) -> Result<Vec<String>, usize> {
        let mut split = SplitRow::default();
        let quoting = Some(Quoting { quote: b'"', delimiter: b',' });
        split.split(row, b',', quoting)?;
        let text = |cell| String::from_utf8_lossy(split.cell(row, cell)).into_owned();
        Ok((0..split.cells.len()).map(text).collect())
    }

    #[test]
    fn cells_are_taken_apart_as_pythons_csv_does() {
        assert_eq!(cells(b"a,b\r\n").unwrap(), ["a", "b"]);
        assert_eq!(cells(b"a,\"b,\n\"\"c\"\"\",d").unwrap(), ["a", "b,\n\"c\"", "d"]);
        assert_eq!(cells(b"a\"b,\"c\"d\n").unwrap(), ["a\"b", "cd"]);
        assert_eq!(cells(b",\"\",\n").unwrap(), ["", "", ""]);
        assert_eq!(cells(b"a,b\n\n\nnext").unwrap(), ["a", "b"]);
        assert_eq!(cells(b"a,\"b\n"), Err(1));
    }
}
