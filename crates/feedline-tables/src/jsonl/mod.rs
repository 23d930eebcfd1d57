//! JSON lines: an object per line, its values by path.
//!
//! A file is gone through once, to find where lines begin; what was found is [kept](crate::rows). A line is read when it is wanted,
//! and of its values only those that are asked for are looked at.

mod pick;
mod seen;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use feedline_core::{Cause, Dataset, Field, Ragged, Sample, SampleIndex};
use feedline_sources::Watch;
use serde::de::DeserializeSeed;

use crate::TableError;
use crate::cells::{CellFault, Filling};
use crate::columns::{NullValue, TableColumn, fields};
use crate::kind::ValueKind;
use crate::open_file::OpenFile;
use crate::rows::{RowFile, RowFiles, RowOptions, RowSyntax};
use crate::typed::{SAMPLED_BYTES, SAMPLED_ROWS, kind_of};

use pick::{JsonCell, JsonNumber, PathTree, pick, steps};
use seen::{See, SeenPaths, seen_kind};

/// How JSON lines become samples.
#[derive(Clone, Debug)]
pub struct JsonOptions {
    /// Paths of the values to read, such as `user.name` or `scores.0`; all that the first lines have, if nothing is said.
    pub fields: Option<Vec<String>>,
    /// Types by path: a dtype's name, `text`, or `list[…]` of a dtype. Those of others are taken from the first lines.
    pub types: HashMap<String, String>,
    /// What stands for values that are null or missing, by path. Without it they are NaN for floats, and an error of their line
    /// for others.
    pub nulls: HashMap<String, NullValue>,
    /// Paths that get a field `<name>_is_null` beside them.
    pub null_flags: Vec<String>,
    /// How lists of different lengths share a batch.
    pub ragged: Ragged,
    /// Where what was found is kept, and how long lines may be.
    pub rows: RowOptions,
}

impl Default for JsonOptions {
    fn default() -> JsonOptions {
        JsonOptions {
            fields: None,
            types: HashMap::new(),
            nulls: HashMap::new(),
            null_flags: Vec::new(),
            ragged: Ragged::PadToLongest { fill: 0.0 },
            rows: RowOptions::default(),
        }
    }
}

/// JSON lines as a dataset: sample i is line i, with a field per path.
pub struct JsonLines {
    columns: Arc<[TableColumn]>,
    /// The steps to each column.
    paths: Vec<Vec<String>>,
    rows: Arc<RowFiles>,
    tree: PathTree,
    ragged: Ragged,
}

/// Opens files of JSON lines, one after the other.
pub fn jsonl(
    paths: &[PathBuf],
    options: &JsonOptions,
    watch: Watch<'_>,
) -> Result<JsonLines, TableError> {
    if paths.is_empty() {
        return Err(TableError::NoFiles);
    }
    let syntax = RowSyntax { quoted: None, max_open: 0 };
    let (mut files, mut room) = (Vec::new(), options.rows.held);
    for path in paths {
        let file = OpenFile::open(path)?.held(&mut room)?;
        let start = file.text_start()?;
        files.push(RowFile::open(file, (start, 1), &syntax, &options.rows, watch)?);
    }
    let (columns, paths) = chosen(&files, options)?;
    let (tree, ragged) = (PathTree::of(&paths), options.ragged.clone());
    let rows = Arc::new(RowFiles::new(files, options.rows.max_bytes));
    Ok(JsonLines { columns: columns.into(), paths, rows, tree, ragged })
}

/// The columns that were asked for, and the steps to each.
type ColumnPaths = (Vec<TableColumn>, Vec<Vec<String>>);

fn chosen(files: &[RowFile], options: &JsonOptions) -> Result<ColumnPaths, TableError> {
    let mut seen = SeenPaths::default();
    let (mut lines, mut bytes, mut line) = (0, 0, Vec::new());
    'files: for file in files {
        for row in 0..file.rows() {
            if lines >= SAMPLED_ROWS || bytes > SAMPLED_BYTES {
                break 'files;
            }
            line.clear();
            lines += 1;
            // What is wrong with a line is said when it is wanted.
            if file.read(row, options.rows.max_bytes, &mut line).is_ok() {
                bytes += line.len();
                let mut deserializer = serde_json::Deserializer::from_slice(&line);
                let see = See { path: Vec::new(), seen: &mut seen, item: false };
                let _ = see.deserialize(&mut deserializer);
            }
        }
    }
    let of = || match files {
        [file] => format!("`{}`", file.path().display()),
        files => format!("each of {} files", files.len()),
    };
    let names: Vec<String> = match &options.fields {
        Some(names) => names.clone(),
        None => {
            let paths = seen.found.iter().filter(|(path, _, _)| !path.is_empty());
            paths.map(|(path, _, _)| path.join(".")).collect()
        }
    };
    if names.is_empty() {
        return Err(TableError::NoColumns { of: of() });
    }
    let set = options.types.keys().chain(options.nulls.keys()).chain(&options.null_flags);
    if let Some(unknown) = set.into_iter().find(|name| !names.contains(name)) {
        let there = names.join(", ");
        return Err(TableError::NoSuchColumn { of: of(), column: unknown.clone(), there });
    }
    // Keys may have dots in them; a path that lines have is what they have.
    let path = |name: &String| {
        let there = seen.found.iter().find(|(path, _, _)| path.join(".") == *name);
        there.map_or_else(|| steps(name), |(path, _, _)| path.clone())
    };
    let paths: Vec<Vec<String>> = names.iter().map(path).collect();
    let column = |(name, path): (&String, &Vec<String>)| {
        let kind = match kind_of(name, &options.types, true)? {
            Some(kind) => kind,
            None => seen_kind(&seen, path).ok_or_else(|| {
                match seen.places.get(path) {
                    Some(_) => TableError::NoForm {
                        of: of(),
                        column: name.clone(),
                        kind: "a list of texts, lists or objects, or values of several types".into(),
                    },
                    None => TableError::Setting {
                        setting: "fields",
                        column: name.clone(),
                        why: format!(
                            "none of the first {lines} lines has it; say what it is, as in types={{{name:?}: \"float64\"}}"
                        ),
                    },
                }
            })?,
        };
        let flagged = options.null_flags.contains(name);
        TableColumn::typed(name, kind, options.nulls.get(name), flagged)
    };
    let columns = names.iter().zip(&paths).map(column).collect::<Result<_, _>>()?;
    Ok((columns, paths))
}

impl JsonLines {
    fn null(column: &TableColumn) -> Result<&[u8], Cause> {
        match &column.filling {
            Filling::With(value) => Ok(value),
            Filling::Refused => {
                let fault = CellFault::Null { name: column.name.clone() };
                Err(format!("field `{}` {fault}", column.name).into())
            }
        }
    }
}

impl Dataset for JsonLines {
    fn len(&self) -> u64 {
        self.rows.len()
    }

    fn fields(&self) -> Vec<Field> {
        fields(&self.columns, &self.ragged)
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
        let mut cells = vec![JsonCell::Null; self.columns.len()];
        pick(raw, &self.tree, &mut cells)?;
        let mut value = Vec::new();
        let mut flag = self.columns.len();
        for (field, (column, cell)) in self.columns.iter().zip(&cells).enumerate() {
            let name = &column.name;
            let blame = |what: &str| -> Cause {
                format!("field `{name}` {what}; correct it, or pass another type, as in types={{{name:?}: …}}").into()
            };
            value.clear();
            match (&column.kind, cell) {
                (ValueKind::Numbers { axes, .. }, JsonCell::Null) if !axes.is_empty() => {
                    JsonLines::null(column)?;
                    sample.put_elements(field, &[0], &[])?;
                }
                (_, JsonCell::Null) => sample.put_bytes(field, JsonLines::null(column)?)?,
                (ValueKind::Numbers { dtype, axes }, JsonCell::Number(number))
                    if axes.is_empty() =>
                {
                    number.write(*dtype, &mut value).map_err(|what| blame(&what))?;
                    sample.put_bytes(field, &value)?;
                }
                (ValueKind::Numbers { dtype, axes }, JsonCell::List(numbers))
                    if !axes.is_empty() =>
                {
                    for number in numbers {
                        match (number, &column.item_filling) {
                            (Some(number), _) => {
                                number.write(*dtype, &mut value).map_err(|what| blame(&what))?;
                            }
                            (None, Filling::With(item)) => value.extend_from_slice(item),
                            (None, Filling::Refused) => {
                                let fault = CellFault::NullItem { name: name.clone() };
                                return Err(format!("field `{name}` {fault}").into());
                            }
                        }
                    }
                    sample.put_elements(field, &[numbers.len()], &value)?;
                }
                (ValueKind::Text, JsonCell::Text(text)) => {
                    sample.put_bytes(field, text.as_bytes())?;
                }
                (kind, cell) => {
                    let expected = match kind {
                        ValueKind::Numbers { dtype, axes } if axes.is_empty() => dtype.to_string(),
                        ValueKind::Numbers { dtype, .. } => format!("list of {dtype}"),
                        _ => "text".to_string(),
                    };
                    let got = match cell {
                        JsonCell::Text(text) => {
                            format!("{:?}", text.chars().take(60).collect::<String>())
                        }
                        JsonCell::Number(JsonNumber::Bool(bit)) => bit.to_string(),
                        JsonCell::Number(JsonNumber::Integer(number)) => number.to_string(),
                        JsonCell::Number(JsonNumber::Float(number)) => format!("{number:?}"),
                        JsonCell::List(_) => "a list".to_string(),
                        JsonCell::Other(what) => (*what).to_string(),
                        JsonCell::Null => "null".to_string(),
                    };
                    return Err(blame(&format!("holds {got}, which is no {expected}")));
                }
            }
            if column.flagged {
                sample.put_bytes(flag, &[u8::from(*cell == JsonCell::Null)])?;
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
        let paths: Vec<_> = fields.iter().map(|field| self.paths[*field].clone()).collect();
        let (rows, ragged) = (Arc::clone(&self.rows), self.ragged.clone());
        let tree = PathTree::of(&paths);
        Some(Arc::new(JsonLines { columns, paths, rows, tree, ragged }))
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.rows.origin(index)
    }
}
