//! Which columns become fields, and what stands for their nulls.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Schema};
use feedline_core::{DType, Field, Ragged};

use crate::TableError;
use crate::cells::{Cells, Filling, not_a_number};
use crate::kind::ValueKind;

/// What stands for nulls of a column.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NullValue {
    /// A number, for columns and lists of floats; must be whole for integers.
    Number(f64),
    /// A whole number.
    Integer(i128),
    /// Text, or bytes.
    Bytes(Vec<u8>),
    /// A list without items.
    Empty,
}

/// How a table becomes samples.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// The columns to read, in this order; all of them if nothing is said. `a.b` is child `b` of struct `a`.
    pub columns: Option<Vec<String>>,
    /// What stands for nulls, by column. Without it nulls are NaN in columns of floats, and an error of their row in others.
    pub nulls: HashMap<String, NullValue>,
    /// Columns that get a field `<name>_is_null` beside them. Their nulls are zero, NaN or empty, if nothing else is said.
    pub null_flags: Vec<String>,
    /// How lists of different lengths share a batch.
    pub ragged: Ragged,
    /// How many bytes of decoded rows may be kept in memory.
    pub buffer: u64,
    /// How many consecutive rows are shuffled with each other; `None` for all of them, where those fit into the buffer, otherwise as
    /// many as half of it holds.
    pub shuffle_window: Option<u64>,
    /// The folder that files must be in which rows name (an image's `path` without its bytes). `None`: that of the table's file;
    /// data in memory may name any.
    pub image_root: Option<PathBuf>,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            columns: None,
            nulls: HashMap::new(),
            null_flags: Vec::new(),
            ragged: Ragged::PadToLongest { fill: 0.0 },
            buffer: 1 << 30,
            shuffle_window: None,
            image_root: None,
        }
    }
}

/// A column that becomes a field.
#[derive(Clone, Debug)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) kind: ValueKind,
    /// What stands for an item that is null.
    pub(crate) item_filling: Filling,
    /// What stands for a value that is null: each of its elements, or a text. `With` nothing is an empty list or text.
    pub(crate) filling: Filling,
    /// Whether another field tells where nulls are.
    pub(crate) flagged: bool,
    /// As the file calls its type.
    shown: String,
    /// Set for dates and times: which numbers these are depends on it.
    moment: Option<DataType>,
}

/// Where the columns of a table are in one file.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// Numbers of the outermost columns that are read, ascending.
    pub(crate) roots: Vec<usize>,
    /// For each column: its place among the roots, then the child's number at each level.
    paths: Vec<Vec<usize>>,
}

/// A column as a schema has it.
struct FoundColumn {
    name: String,
    path: Vec<usize>,
    data_type: DataType,
}

/// The columns that were asked for, by the schema of the first file.
pub(crate) fn chosen(
    of: &str,
    schema: &Schema,
    options: &TableOptions,
) -> Result<(Vec<TableColumn>, Placement), TableError> {
    let all = leaves(schema);
    let found: Vec<&FoundColumn> = match &options.columns {
        None => all.iter().collect(),
        Some(names) => {
            let mut found = Vec::new();
            for name in names {
                let before = found.len();
                match all.iter().find(|leaf| leaf.name == *name) {
                    Some(leaf) => found.push(leaf),
                    // All children of a struct.
                    None => found.extend(all.iter().filter(|leaf| {
                        leaf.name
                            .strip_prefix(name.as_str())
                            .is_some_and(|rest| rest.starts_with('.'))
                    })),
                }
                if found.len() == before {
                    return Err(no_such_column(of, name, &all));
                }
            }
            found
        }
    };
    if found.is_empty() {
        return Err(TableError::NoColumns { of: of.to_string() });
    }
    let columns = found.iter().map(|leaf| column(of, leaf, options)).collect::<Result<_, _>>()?;
    for name in options.nulls.keys().chain(&options.null_flags) {
        if !found.iter().any(|leaf| leaf.name == *name) {
            let named: Vec<_> = found.iter().map(|leaf| leaf.name.as_str()).collect();
            return Err(TableError::Setting {
                setting: "nulls",
                column: name.clone(),
                why: format!("there is no such column; there are {}", named.join(", ")),
            });
        }
    }
    Ok((columns, placement(&found)))
}

/// Where another file has the same columns.
pub(crate) fn again(
    path: &Path,
    schema: &Schema,
    columns: &[TableColumn],
    reference: &Path,
) -> Result<Placement, TableError> {
    let all = leaves(schema);
    let mut found = Vec::new();
    for column in columns {
        let Some(leaf) = all.iter().find(|leaf| leaf.name == column.name) else {
            return Err(no_such_column(&format!("`{}`", path.display()), &column.name, &all));
        };
        if ValueKind::of(&leaf.data_type).as_ref() != Some(&column.kind)
            || moment_of(&leaf.data_type) != column.moment
        {
            return Err(TableError::SchemaChange {
                column: column.name.clone(),
                path: path.to_path_buf(),
                kind: leaf.data_type.to_string(),
                reference: reference.to_path_buf(),
                expected: column.shown.clone(),
            });
        }
        found.push(leaf);
    }
    Ok(placement(&found))
}

/// The type of dates and times, in lists and dictionaries too; `None` for other values. Time zones say how instants are
/// shown, not what they are.
fn moment_of(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            moment_of(item.data_type())
        }
        DataType::Dictionary(_, values) => moment_of(values),
        DataType::Timestamp(unit, zone) => {
            Some(DataType::Timestamp(*unit, zone.as_ref().map(|_| "UTC".into())))
        }
        kind if kind.is_temporal() => Some(kind.clone()),
        _ => None,
    }
}

/// Refuses rows that take more than the buffer by their types alone, before there is memory for one.
pub(crate) fn check_width(
    path: &Path,
    columns: &[TableColumn],
    buffer: u64,
) -> Result<(), TableError> {
    let mut needed = 0u64;
    for column in columns.iter().filter(|column| column.kind.fixed().is_some()) {
        let width = column.kind.width().map_or(u64::MAX, |width| width as u64);
        needed = needed.saturating_add(width).saturating_add(u64::from(column.flagged));
    }
    match needed > buffer {
        true => Err(TableError::TooLarge { path: path.to_path_buf(), rows: 1, needed, buffer }),
        false => Ok(()),
    }
}

fn no_such_column(of: &str, column: &str, all: &[FoundColumn]) -> TableError {
    const SHOWN: usize = 40;
    let mut there: Vec<_> = all.iter().take(SHOWN).map(|leaf| leaf.name.as_str()).collect();
    if all.len() > SHOWN {
        there.push("…");
    }
    TableError::NoSuchColumn {
        of: of.to_string(),
        column: column.to_string(),
        there: there.join(", "),
    }
}

fn placement(found: &[&FoundColumn]) -> Placement {
    let mut roots: Vec<usize> = found.iter().map(|leaf| leaf.path[0]).collect();
    roots.sort_unstable();
    roots.dedup();
    let inside = |leaf: &&FoundColumn| {
        let mut path = leaf.path.clone();
        path[0] = roots.binary_search(&path[0]).unwrap_or(0);
        path
    };
    let paths = found.iter().map(inside).collect();
    Placement { roots, paths }
}

/// All columns, those of structs by their children.
fn leaves(schema: &Schema) -> Vec<FoundColumn> {
    fn visit(name: String, path: Vec<usize>, data_type: &DataType, found: &mut Vec<FoundColumn>) {
        match data_type {
            DataType::Struct(children) if ValueKind::of(data_type).is_none() => {
                for (i, child) in children.iter().enumerate() {
                    let mut path = path.clone();
                    path.push(i);
                    visit(format!("{name}.{}", child.name()), path, child.data_type(), found);
                }
            }
            _ => found.push(FoundColumn { name, path, data_type: data_type.clone() }),
        }
    }
    let mut found = Vec::new();
    for (i, field) in schema.fields().iter().enumerate() {
        visit(field.name().clone(), vec![i], field.data_type(), &mut found);
    }
    found
}

fn column(of: &str, leaf: &FoundColumn, options: &TableOptions) -> Result<TableColumn, TableError> {
    let Some(kind) = ValueKind::of(&leaf.data_type) else {
        return Err(TableError::NoForm {
            of: of.to_string(),
            column: leaf.name.clone(),
            kind: leaf.data_type.to_string(),
        });
    };
    let flagged = options.null_flags.contains(&leaf.name);
    let (item_filling, filling) = fillings(&kind, options.nulls.get(&leaf.name), flagged)
        .map_err(|why| TableError::Setting { setting: "nulls", column: leaf.name.clone(), why })?;
    let (name, shown) = (leaf.name.clone(), leaf.data_type.to_string());
    let moment = moment_of(&leaf.data_type);
    Ok(TableColumn { name, kind, item_filling, filling, flagged, shown, moment })
}

/// What stands for a null item and for a null value.
fn fillings(
    kind: &ValueKind,
    given: Option<&NullValue>,
    flagged: bool,
) -> Result<(Filling, Filling), String> {
    let ValueKind::Numbers { dtype, axes } = kind else {
        return match given {
            None if flagged => Ok((Filling::Refused, Filling::With(Vec::new()))),
            None => Ok((Filling::Refused, Filling::Refused)),
            Some(NullValue::Bytes(bytes)) => {
                if *kind == ValueKind::Text && std::str::from_utf8(bytes).is_err() {
                    return Err("text must be UTF-8".to_string());
                }
                Ok((Filling::Refused, Filling::With(bytes.clone())))
            }
            Some(other) => Err(format!("pass text or bytes for it, got {}", shown(other))),
        };
    };
    let nan = not_a_number(*dtype);
    let element = match given {
        Some(NullValue::Empty) if axes.first() == Some(&None) => None,
        Some(value) => Some(element_of(*dtype, value)?),
        None => None,
    };
    let item = element.clone().or(nan);
    let item_filling = item.clone().map_or(Filling::Refused, Filling::With);
    let filling = match kind.fixed() {
        Some(_) => {
            let zero = flagged.then(|| vec![0; dtype.size()]);
            item.or(zero).map_or(Filling::Refused, Filling::With)
        }
        None if given.is_some() || flagged => Filling::With(Vec::new()),
        None => Filling::Refused,
    };
    Ok((item_filling, filling))
}

/// The bytes of one element with this value.
pub(crate) fn element_of(dtype: DType, value: &NullValue) -> Result<Vec<u8>, String> {
    fn whole<T: TryFrom<i128>, const N: usize>(
        number: i128,
        dtype: DType,
        bytes: fn(T) -> [u8; N],
    ) -> Result<Vec<u8>, String> {
        let number = T::try_from(number)
            .map_err(|_| format!("{number} is beyond {dtype}; pass a value of that dtype"))?;
        Ok(bytes(number).to_vec())
    }
    let float = match value {
        NullValue::Number(number) => *number,
        NullValue::Integer(number) => *number as f64,
        other => return Err(format!("pass a number for it, got {}", shown(other))),
    };
    let integer = match value {
        NullValue::Integer(number) => Some(*number),
        NullValue::Number(number) if number.fract() == 0.0 && number.abs() < 2f64.powi(64) => {
            Some(*number as i128)
        }
        _ => None,
    };
    let integer = || integer.ok_or_else(|| format!("{float} is no {dtype}; pass a whole number"));
    // What is infinite only in the dtype is beyond it.
    let within = |narrow: f64, bytes: &[u8]| match narrow.is_infinite() && float.is_finite() {
        true => Err(format!("{float:?} is beyond {dtype}; pass a value of that dtype")),
        false => Ok(bytes.to_vec()),
    };
    match dtype {
        DType::F16 => {
            let number = half::f16::from_f64(float);
            within(number.to_f64(), &number.to_ne_bytes())
        }
        DType::F32 => within(f64::from(float as f32), &(float as f32).to_ne_bytes()),
        DType::F64 => Ok(float.to_ne_bytes().to_vec()),
        DType::Bool => match integer()? {
            bit @ (0 | 1) => Ok(vec![bit as u8]),
            other => Err(format!("{other} is no bool; pass True or False")),
        },
        DType::U8 => whole(integer()?, dtype, u8::to_ne_bytes),
        DType::I8 => whole(integer()?, dtype, i8::to_ne_bytes),
        DType::U16 => whole(integer()?, dtype, u16::to_ne_bytes),
        DType::I16 => whole(integer()?, dtype, i16::to_ne_bytes),
        DType::U32 => whole(integer()?, dtype, u32::to_ne_bytes),
        DType::I32 => whole(integer()?, dtype, i32::to_ne_bytes),
        DType::U64 => whole(integer()?, dtype, u64::to_ne_bytes),
        DType::I64 => whole(integer()?, dtype, i64::to_ne_bytes),
        other => Err(format!("columns of {other} have no nulls")),
    }
}

fn shown(value: &NullValue) -> String {
    match value {
        NullValue::Number(number) => number.to_string(),
        NullValue::Integer(number) => number.to_string(),
        NullValue::Bytes(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        NullValue::Empty => "an empty list".to_string(),
    }
}

impl TableColumn {
    /// A column whose type is known without a schema.
    pub(crate) fn typed(
        name: &str,
        kind: ValueKind,
        null: Option<&NullValue>,
        flagged: bool,
    ) -> Result<TableColumn, TableError> {
        let (item_filling, filling) = fillings(&kind, null, flagged).map_err(|why| {
            TableError::Setting { setting: "nulls", column: name.to_string(), why }
        })?;
        let (name, shown, moment) = (name.to_string(), String::new(), None);
        Ok(TableColumn { name, kind, item_filling, filling, flagged, shown, moment })
    }
}

impl Placement {
    /// The values of a column in a batch of the roots.
    pub(crate) fn cells(&self, batch: &RecordBatch, column: usize) -> Option<Cells> {
        let (root, inner) = self.paths.get(column)?.split_first()?;
        let mut array = batch.columns().get(*root)?;
        let mut nulls: Option<NullBuffer> = None;
        for child in inner {
            let children = array.as_struct_opt()?;
            nulls = NullBuffer::union(nulls.as_ref(), children.nulls());
            array = children.columns().get(*child)?;
        }
        Some(Cells::of(array)?.within(nulls.as_ref()))
    }
}

/// The fields of all columns: each column's, and after all of them those that tell of nulls.
pub(crate) fn fields(columns: &[TableColumn], ragged: &Ragged) -> Vec<Field> {
    let values = columns.iter().map(|column| column.kind.field(&column.name, ragged));
    let flagged = columns.iter().filter(|column| column.flagged);
    let flags = flagged.map(|column| Field::fixed(&flag_name(&column.name), DType::Bool, []));
    values.chain(flags).collect()
}

/// The field that tells where a column is null.
pub(crate) fn flag_name(column: &str) -> String {
    format!("{column}_is_null")
}
